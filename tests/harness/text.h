/* SPDX-License-Identifier: Apache-2.0
 *
 * A bounded text that grows by printf: what a case has to say when it fails.
 */
#ifndef BW_HARNESS_TEXT_H
#define BW_HARNESS_TEXT_H

#include <stddef.h>

struct bwt_text {
  size_t length;
  char chars[4096];
};

/* Appends; what does not fit is cut off. */
void bwt_say(struct bwt_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
