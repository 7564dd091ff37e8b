/* SPDX-License-Identifier: Apache-2.0
 *
 * Options and lists of numbers.
 */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cli_option *find(const cli_option *options, size_t count, const char *argument,
                              size_t length) {
  for (size_t i = 0; i < count; i++)
    if (strlen(options[i].name) == length && strncmp(options[i].name, argument, length) == 0)
      return &options[i];
  return NULL;
}

/* The option at argv[*i], and its value, which may be the next argument. */
static bool take_option(int argc, char **argv, int *i, const cli_option *options, size_t count) {
  const char *argument = argv[*i];
  const char *equals = strchr(argument, '=');
  const size_t length = equals ? (size_t)(equals - argument) : strlen(argument);
  const cli_option *option = find(options, count, argument, length);
  if (!option) {
    fprintf(stderr, "barewarp %s: unknown option '%.*s'\n", argv[0], (int)length, argument);
    return false;
  }
  if (!option->value) {
    if (equals)
      fprintf(stderr, "barewarp %s: %s takes no value\n", argv[0], option->name);
    *option->set = true;
    return !equals;
  }
  if (*option->value) {
    fprintf(stderr, "barewarp %s: %s is given twice\n", argv[0], option->name);
    return false;
  }
  if (!equals && *i + 1 == argc) {
    fprintf(stderr, "barewarp %s: %s needs a value\n", argv[0], option->name);
    return false;
  }
  *option->value = equals ? equals + 1 : argv[++*i];
  return true;
}

bool cli_parse(int argc, char **argv, const cli_option *options, size_t option_count,
               const char **words, size_t word_count, const char *usage) {
  size_t taken = 0;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--help") == 0) {
      fputs(usage, stdout);
      exit(CLI_OK);
    }
    if (argv[i][0] == '-' && argv[i][1] != '\0') {
      if (take_option(argc, argv, &i, options, option_count))
        continue;
    } else if (taken < word_count) {
      words[taken++] = argv[i];
      continue;
    } else {
      fprintf(stderr, "barewarp %s: unexpected '%s'\n", argv[0], argv[i]);
    }
    fputs(usage, stderr);
    return false;
  }
  return true;
}

/* A number at *text, which moves past it; false if there is none in range. */
static bool take_number(const char **text, uint64_t least, uint64_t most, uint64_t *number) {
  if (**text < '0' || **text > '9')
    return false;
  char *end;
  errno = 0;
  *number = strtoull(*text, &end, 10);
  *text = end;
  return errno == 0 && *number >= least && *number <= most;
}

bool cli_number(const char *option, const char *text, uint64_t least, uint64_t most,
                uint64_t *number) {
  const char *at = text;
  if (take_number(&at, least, most, number) && *at == '\0')
    return true;
  fprintf(stderr, "barewarp: %s is '%s', must be %llu..%llu\n", option, text,
          (unsigned long long)least, (unsigned long long)most);
  return false;
}

bool cli_numbers(const char *option, const char *text, uint32_t least, uint32_t most,
                 cli_list *list) {
  const size_t room = sizeof list->numbers / sizeof *list->numbers;
  const char *at = text;
  list->count = 0;
  for (;;) {
    uint64_t first, last;
    if (!take_number(&at, least, most, &first))
      break;
    last = first;
    if (*at == '-') {
      at++;
      if (!take_number(&at, least, most, &last) || last < first)
        break;
    }
    if (last - first + 1 > room - list->count)
      break;
    for (uint64_t n = first; n <= last; n++)
      list->numbers[list->count++] = (uint32_t)n;
    if (*at == '\0')
      return true;
    if (*at++ != ',')
      break;
  }
  fprintf(stderr,
          "barewarp: %s is '%s', must be numbers and ranges (1,7,20-32) of %u..%u, at most %zu\n",
          option, text, least, most, room);
  return false;
}

int cli_error(const char *command, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "barewarp %s: ", command);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  return CLI_FAILED;
}

int cli_library_error(const char *command) {
  return cli_error(command, "%s", bw_last_error());
}
