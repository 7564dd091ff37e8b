/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands of the command line share: options, lists of numbers, messages, and
 * the choice of a driver.
 */
#ifndef BW_CLI_CLI_H
#define BW_CLI_CLI_H

#include "barewarp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit statuses: 0 done, 1 something failed (a case, a file, the driver), 2 the command
 * line itself was wrong. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* ---- options (options.c) ----------------------------------------------------------- */

typedef struct cli_option {
  const char *name;   /* "--tokens" */
  const char **value; /* where its value goes; NULL: a switch, see set */
  bool *set;
} cli_option;

/* Reads "--name value" and "--name=value" (switches: "--name") until the end of argv,
 * which begins with the command's name; other words go to words (at most word_count,
 * NULL where missing).  false after a message on stderr: an unknown or repeated option,
 * a value missing, too many words. */
bool cli_parse(int argc, char **argv, const cli_option *options, size_t option_count,
               const char **words, size_t word_count, const char *usage);

/* A whole decimal number; false after a message that names the option. */
bool cli_number(const char *option, const char *text, uint64_t least, uint64_t most,
                uint64_t *number);

typedef struct cli_list {
  size_t count;
  uint32_t numbers[512];
} cli_list;

/* "1,7,32" or "1-96" or both mixed, in the order given. */
bool cli_numbers(const char *option, const char *text, uint32_t least, uint32_t most,
                 cli_list *list);

/* ---- messages -------------------------------------------------------------------------- */

/* "barewarp COMMAND: ..." on stderr; returns CLI_FAILED. */
int cli_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same with what the library said last. */
int cli_library_error(const char *command);

/* ---- the driver (choice.c) -------------------------------------------------------------- */

typedef struct cli_choice {
  const char *driver; /* "cuda", "emu" or a path */
  char why[512];      /* in words, for the user */
} cli_choice;

/* wanted: the value of --driver, or NULL: BAREWARP_DRIVER, else a GPU that the bundle has
 * code for, else the emulated driver. */
void cli_choose_driver(bw_bundle *bundle, const char *wanted, cli_choice *choice);

/* ---- families of kernels (family.c) ------------------------------------------------------ */

/* What a command does for one family: "barewarp COMMAND FAMILY ...". */
typedef struct cli_family {
  const char *name;  /* "wo_a" */
  const char *usage; /* printed on a wrong command line, and with --help */
  int (*run)(int argc, char **argv);
} cli_family;

extern const cli_family cli_verify_wo_a, cli_verify_up_proj, cli_verify_lamport_copy;
extern const cli_family cli_run_wo_a, cli_run_up_proj;
extern const cli_family cli_make_input_wo_a, cli_make_input_up_proj;
extern const cli_family cli_compare_wo_a, cli_compare_up_proj;
extern const cli_family cli_bench_wo_a, cli_bench_up_proj, cli_bench_lamport_copy, cli_bench_step,
    cli_bench_layers, cli_bench_host;

/* ---- commands ---------------------------------------------------------------------------- */

int cli_info(int argc, char **argv);
int cli_list_kernels(int argc, char **argv);
int cli_show(int argc, char **argv);
int cli_verify(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_make_input(int argc, char **argv);
int cli_compare(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_record(int argc, char **argv);
int cli_replay(int argc, char **argv);

#endif
