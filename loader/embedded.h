/* SPDX-License-Identifier: Apache-2.0
 *
 * The bundle that is built into the library.
 */
#ifndef BW_LOADER_EMBEDDED_H
#define BW_LOADER_EMBEDDED_H

#include <stddef.h>

/* Its bytes, or NULL if this build embeds none. */
const void *bwi_embedded_bundle(size_t *size);

#endif
