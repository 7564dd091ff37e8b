/* SPDX-License-Identifier: Apache-2.0
 *
 * From a line of expanded PTX to the line of the template: m4 says where the lines of an
 * expansion come from, and finish.awk changes no statement.
 */
#include "mutate/kernels.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies a line's code: no comment, no blanks.  false: there is none. */
static bool code_of(const char *line, size_t length, char *code, size_t size) {
  const char *comment = bwm_find(line, length, "//");
  size_t used = 0;
  if (comment != NULL)
    length = (size_t)(comment - line);
  for (size_t i = 0; i < length && used + 1 < size; i++)
    if (!isspace((unsigned char)line[i]))
      code[used++] = line[i];
  code[used] = '\0';
  return used > 0;
}

/* How many lines of code there are up to this line, and that line's code. */
static size_t count_code(const char *ptx, uint32_t line, char *code, size_t size) {
  size_t count = 0;
  for (uint32_t i = 1; i <= line; i++) {
    size_t length = strcspn(ptx, "\n");
    count += code_of(ptx, length, code, size);
    ptx += length + (ptx[length] == '\n');
  }
  return count;
}

bool bwm_template_line(const struct bwm_kernel *k, uint32_t line, char *place, size_t size) {
  char command[256], wanted[400], code[400], text[4096], file[128] = "";
  const char *build = getenv("BUILD");
  size_t number = count_code(k->ptx, line, wanted, sizeof wanted), seen = 0;
  snprintf(command, sizeof command, "scripts/expand.sh -s %s/kernels/%s.def 2>/dev/null",
           build != NULL ? build : "build", k->name);
  FILE *pipe = popen(command, "r");
  if (pipe == NULL)
    return false;
  unsigned from = 1;
  bool found = false;
  while (!found && fgets(text, sizeof text, pipe) != NULL) {
    if (sscanf(text, "#line %u \"%127[^\"]\"", &from, file) == 2)
      continue;
    if (code_of(text, strlen(text), code, sizeof code) && ++seen == number)
      found = true;
    else
      from++;
  }
  (void)pclose(pipe);
  if (!found || strcmp(code, wanted) != 0)
    return false;
  snprintf(place, size, "%s:%u", file, from);
  return true;
}

const char *bwm_template(const struct bwm_kernel *k) {
  switch (k->family) {
  case BWM_WO_A:
    if (strcmp(k->arch, "sm_90a") != 0)
      return "wo_a_sm100";
    return k->tokens > 4 ? "wo_a_sm90_stream" : "wo_a_sm90";
  case BWM_UP_PROJ:
    return "up_proj";
  default:
    return "lamport_copy";
  }
}
