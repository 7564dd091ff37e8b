/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiling programs as users would, for tests of what they are shown, and of what only
 * runs as several processes.
 */
#ifndef BW_HARNESS_PROGRAM_H
#define BW_HARNESS_PROGRAM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* What the build's config.mk sets a variable to; fails the test if it does not. */
void bwt_build_setting(const char *name, char value[PATH_MAX]);

enum { BWT_PROGRAM_OF_USERS, BWT_PROGRAM_OF_TESTS };

/* Compiles `source` with warnings as errors and links it to the static library and, of
 * users, to the emulated driver in the place of the system's, as README.md says; one of the
 * tests is linked to their harness.  compiler: shell words, as "${CC:-cc}".  The compiler's
 * words go to output; the test fails if it does. */
void bwt_compile(char *output, size_t size, const char *compiler, const char *source,
                 const char *program, int kind);

#endif
