/* SPDX-License-Identifier: Apache-2.0
 *
 * barewarp: the command line.  One file a command; this one only finds it.
 */
#include "cli.h"
#include "pack.h"

#include <stdio.h>
#include <string.h>

static const struct command {
  const char *name;
  int (*run)(int argc, char **argv); /* argv[0] is the command's name */
  const char *summary;
} commands[] = {
    {"info", cli_info, "what bundle, driver and devices there are"},
    {"list", cli_list_kernels, "the specializations in the bundle and their resources"},
    {"show", cli_show, "the PTX or the machine code of a specialization"},
    {"verify", cli_verify, "run kernels on fresh random data and compare with the reference"},
    {"make-input", cli_make_input, "write realistic random operands to a file"},
    {"run", cli_run, "run a kernel on operands from a file"},
    {"compare", cli_compare, "compare the outputs of run with the reference"},
    {"bench", cli_bench, "measure kernels and calls, against what the GPU can do"},
    {"record", cli_record, "write what the kernels give for fixed operands"},
    {"replay", cli_replay, "run the cases of a record and compare"},
    {"pack", bw_cli_pack, "write a bundle from a build folder"},
};

static void usage(FILE *to) {
  fputs("usage: barewarp COMMAND [OPTION ...]      barewarp COMMAND --help\n\n", to);
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    fprintf(to, "  %-11s %s\n", commands[i].name, commands[i].summary);
  fputs("\nExit status: 0 done; 1 something failed; 2 the command line is wrong.\n", to);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    usage(stderr);
    return CLI_USAGE;
  }
  if (strcmp(argv[1], "--version") == 0) {
    printf("barewarp %s\n", bw_version());
    return CLI_OK;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
    usage(stdout);
    return CLI_OK;
  }
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (strcmp(argv[1], commands[i].name) == 0)
      return commands[i].run(argc - 1, argv + 1);
  fprintf(stderr, "barewarp: there is no command '%s'\n", argv[1]);
  usage(stderr);
  return CLI_USAGE;
}
