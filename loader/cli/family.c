/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands that do something for a family of kernels: which families each knows.
 */
#include "cli.h"

#include <stdio.h>
#include <string.h>

/* Runs the one that argv[1] names; --help without one shows the usage of all. */
static int run_family(int argc, char **argv, const cli_family *const *families, size_t count) {
  for (size_t i = 0; argc > 1 && i < count; i++)
    if (strcmp(argv[1], families[i]->name) == 0)
      return families[i]->run(argc, argv);
  const bool help = argc > 1 && strcmp(argv[1], "--help") == 0;
  if (!help) {
    fprintf(stderr, "barewarp %s: a family is needed:", argv[0]);
    for (size_t i = 0; i < count; i++)
      fprintf(stderr, " %s", families[i]->name);
    fputs("\n\n", stderr);
  }
  for (size_t i = 0; i < count; i++)
    fprintf(help ? stdout : stderr, "%s%s", i > 0 ? "\n" : "", families[i]->usage);
  return help ? CLI_OK : CLI_USAGE;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

int cli_verify(int argc, char **argv) {
  static const cli_family *const families[] = {&cli_verify_wo_a, &cli_verify_up_proj,
                                               &cli_verify_lamport_copy};
  return run_family(argc, argv, families, COUNT(families));
}

int cli_run(int argc, char **argv) {
  static const cli_family *const families[] = {&cli_run_wo_a, &cli_run_up_proj};
  return run_family(argc, argv, families, COUNT(families));
}

int cli_make_input(int argc, char **argv) {
  static const cli_family *const families[] = {&cli_make_input_wo_a, &cli_make_input_up_proj};
  return run_family(argc, argv, families, COUNT(families));
}

int cli_compare(int argc, char **argv) {
  static const cli_family *const families[] = {&cli_compare_wo_a, &cli_compare_up_proj};
  return run_family(argc, argv, families, COUNT(families));
}

int cli_bench(int argc, char **argv) {
  static const cli_family *const families[] = {&cli_bench_wo_a,         &cli_bench_up_proj,
                                               &cli_bench_lamport_copy, &cli_bench_step,
                                               &cli_bench_layers,       &cli_bench_host};
  return run_family(argc, argv, families, COUNT(families));
}
