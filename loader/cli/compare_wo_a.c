/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp compare wo_a`: outputs in a file against the reference, computed anew.
 */
#include "cli.h"
#include "cli/wo_a_file.h"
#include "harness/compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: barewarp compare wo_a --input F.safetensors --output G.safetensors\n"
    "\n"
    "Computes the reference from the operands in F and compares the outputs in G with it:\n"
    "with the bit-exact model of the hardware, and with sums in double.  Exit status 0 when\n"
    "the outputs are within what rounding explains.\n";

/* The output tensor, if it has the size that the operands give. */
static const st_tensor *output(const st_file *file, const char *name, const char *dtype,
                               size_t size) {
  const st_tensor *t = st_find(file, name);
  if (!t)
    cli_error("compare", "tensor '%s' is missing from the output", name);
  else if (strcmp(t->dtype, dtype) != 0 || t->size != size)
    cli_error("compare", "tensor '%s' is %s of %zu bytes, must be %s of %zu", name, t->dtype,
              t->size, dtype, size);
  else
    return t;
  return NULL;
}

static int judge(const wo_a_file *in, const uint8_t *q, const uint8_t *qs) {
  const size_t q_size = ref_wo_a_q_size(&in->ref), qs_size = ref_wo_a_qs_size(&in->ref);
  /* Zeros, as run leaves them where the kernel writes nothing: all of it for no tokens. */
  uint8_t *want_q = calloc(q_size + 1, 1), *want_qs = calloc(qs_size + 1, 1);
  struct bwt_difference difference;
  struct bwt_judgement judgement = {0};
  struct bwt_truth truth;
  static struct bwt_text why;
  int status = CLI_FAILED;
  if (want_q && want_qs && ref_wo_a_model(&in->ref, want_q, want_qs) &&
      bwt_truth_make(&truth, &in->ref)) {
    bwt_compare_exact(&in->ref, q, qs, want_q, want_qs, &difference, &why);
    bwt_judge(&in->ref, &truth, q, qs, &judgement, &why);
    bwt_truth_free(&truth);
    const bool exact = difference.q + difference.qs + difference.padding == 0;
    printf("T = %-3u G = %u H = %u R = %u  %s the model; %llu of %zu bytes of q differ from exact "
           "arithmetic, worst error %.3f steps of e4m3\n",
           in->tokens, in->shape.groups, in->shape.heads_per_group, in->shape.lora_rank,
           exact ? "equal to" : "differs from", (unsigned long long)judgement.q, q_size,
           judgement.worst_error);
    if (judgement.out_of_bounds == 0 && difference.padding == 0)
      status = CLI_OK;
    else
      fputs(why.chars, stderr);
  } else {
    cli_error("compare", "out of memory");
  }
  free(want_q);
  free(want_qs);
  return status;
}

static int run_command(int argc, char **argv) {
  const char *family = NULL, *input = NULL, *result = NULL;
  const cli_option options[] = {{"--input", &input, NULL}, {"--output", &result, NULL}};
  if (!cli_parse(argc, argv, options, sizeof options / sizeof *options, &family, 1, usage))
    return CLI_USAGE;
  if (!input || !result) {
    fprintf(stderr, "barewarp compare: --input and --output are needed\n%s", usage);
    return CLI_USAGE;
  }
  wo_a_file in;
  if (!wo_a_file_open(&in, argv[0], input))
    return CLI_FAILED;
  char why[512];
  st_file *out = st_open(result, why, sizeof why);
  int status = CLI_FAILED;
  if (!out) {
    cli_error(argv[0], "%s", why);
  } else {
    const st_tensor *q = output(out, "q", "F8_E4M3", ref_wo_a_q_size(&in.ref));
    const st_tensor *qs = q ? output(out, "qs", "U8", ref_wo_a_qs_size(&in.ref)) : NULL;
    if (qs)
      status = judge(&in, q->data, qs->data);
    st_close(out);
  }
  wo_a_file_close(&in);
  return status;
}

const cli_family cli_compare_wo_a = {"wo_a", usage, run_command};
