/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a command as a user would, for tests of programs.
 */
#ifndef BW_HARNESS_COMMAND_H
#define BW_HARNESS_COMMAND_H

#include <limits.h>
#include <stddef.h>

/* Runs a shell command, made by printf, and keeps what it prints, on stdout and stderr
 * (cut at the size of output).  Returns its exit status, -1 if it did not exit. */
int bwt_command(char *output, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A fresh folder under TMPDIR, and its removal with all that is in it. */
void bwt_folder_make(char path[PATH_MAX]);
void bwt_folder_remove(const char *path);

#endif
