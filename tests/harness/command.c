/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a command; see command.h.
 */
#include "harness/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

int bwt_command(char *output, size_t size, const char *format, ...) {
  char command[4 * PATH_MAX] = "exec 2>&1; ";
  const size_t start = 11;
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(command + start, sizeof command - start, format, arguments);
  va_end(arguments);
  output[0] = '\0';
  if (length < 0 || (size_t)length >= sizeof command - start)
    return -1;
  FILE *pipe = popen(command, "r"); // NOLINT(cert-env33-c): a test's own command
  if (pipe == NULL)
    return -1;
  size_t got = fread(output, 1, size - 1, pipe);
  output[got] = '\0';
  char rest[4096];
  while (fread(rest, 1, sizeof rest, pipe) > 0)
    ;
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void bwt_folder_make(char path[PATH_MAX]) {
  const char *parent = getenv("TMPDIR");
  snprintf(path, PATH_MAX, "%s/barewarp-test-XXXXXX", parent != NULL ? parent : "/tmp");
  if (mkdtemp(path) == NULL) {
    perror(path);
    abort();
  }
}

void bwt_folder_remove(const char *path) {
  char output[256];
  (void)bwt_command(output, sizeof output, "rm -rf '%s'", path);
}
