/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp run wo_a`: the kernel on operands from a file, its outputs to a file.
 */
#include "cli.h"
#include "cli/emulated.h"
#include "cli/wo_a_file.h"
#include "harness/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] =
    "usage: barewarp run wo_a --input F.safetensors --output G.safetensors\n"
    "           [--driver cuda|emu|PATH] [--bundle FILE] [--arch ARCH] [--device SM]\n"
    "           [--checks all|none|LIST]\n"
    "\n"
    "F has x, positions, rope, weight and weight_scale (README); G gets q, F8_E4M3 [T, N],\n"
    "and qs, U8 [N/128, 512], the scales in the F8_128x4 layout.  --arch, --device and\n"
    "--checks are for the emulated driver.\n";

enum { X, POSITIONS, ROPE, WEIGHT, WEIGHT_SCALE, Q, QS, BUFFERS };

typedef struct job {
  struct bwt_session session;
  CUdeviceptr buffer[BUFFERS];
  bw_wo_a_plan *plan;
  double seconds;
} job;

static bool driver_ok(job *j, CUresult result, const char *what) {
  if (result == CUDA_SUCCESS)
    return true;
  static struct bwt_text reports;
  reports.length = 0;
  reports.chars[0] = '\0';
  bwt_session_report(&j->session, &reports);
  cli_error("run", "%s: %s\n%s", what, bwt_driver_error(&j->session.driver, result), reports.chars);
  return false;
}

/* Device memory for `size` bytes, filled from data or left as it is. */
static bool buffer_make(job *j, int which, const void *data, size_t size) {
  const struct bwt_driver *d = &j->session.driver;
  return driver_ok(j, d->MemAlloc(&j->buffer[which], size ? size : 16), "cuMemAlloc") &&
         (!data || size == 0 ||
          driver_ok(j, d->MemcpyHtoD(j->buffer[which], data, size), "cuMemcpyHtoD"));
}

/* Outputs start as zeros, so that what the kernel leaves alone (everything, for no tokens)
 * is the same in every run. */
static bool buffer_make_zero(job *j, int which, size_t size) {
  void *zeros = calloc(size + 1, 1);
  const bool ok =
      zeros ? buffer_make(j, which, zeros, size) : cli_error("run", "out of memory") == CLI_OK;
  free(zeros);
  return ok;
}

static bool upload(job *j, const wo_a_file *in, size_t q_size, size_t qs_size) {
  return buffer_make(j, X, in->ref.x, in->x->size) &&
         buffer_make(j, POSITIONS, in->ref.positions, in->positions->size) &&
         buffer_make(j, ROPE, in->ref.rope, in->rope->size) &&
         buffer_make(j, WEIGHT, in->ref.weight, in->weight->size) &&
         buffer_make(j, WEIGHT_SCALE, in->packed_scales, in->weight->size / 32) &&
         buffer_make_zero(j, Q, q_size) && buffer_make_zero(j, QS, qs_size);
}

static bool launch(job *j, const wo_a_file *in) {
  const bw_wo_a_config config = {
      .shape = in->shape, .weight = j->buffer[WEIGHT], .weight_scale = j->buffer[WEIGHT_SCALE]};
  const bw_wo_a_args args = {.x = j->buffer[X],
                             .x_token_stride = in->ref.token_stride,
                             .positions = j->buffer[POSITIONS],
                             .rope = j->buffer[ROPE],
                             .q = j->buffer[Q],
                             .qs = j->buffer[QS],
                             .tokens = in->tokens};
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  if (bw_wo_a_plan_create(j->session.device, &config, &j->plan) != BW_OK ||
      bw_wo_a_launch(j->plan, &args, NULL) != BW_OK)
    return cli_library_error("run") == CLI_OK;
  if (!driver_ok(j, j->session.driver.CtxSynchronize(), "the kernel"))
    return false;
  clock_gettime(CLOCK_MONOTONIC, &end);
  j->seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
  return true;
}

static bool download(job *j, const wo_a_file *in, size_t q_size, size_t qs_size, const char *path) {
  const struct bwt_driver *d = &j->session.driver;
  uint8_t *q = malloc(q_size + 1), *qs = malloc(qs_size);
  const int64_t n = (int64_t)in->shape.groups * in->shape.lora_rank;
  bool ok = q && qs &&
            (q_size == 0 || driver_ok(j, d->MemcpyDtoH(q, j->buffer[Q], q_size), "cuMemcpyDtoH")) &&
            driver_ok(j, d->MemcpyDtoH(qs, j->buffer[QS], qs_size), "cuMemcpyDtoH");
  if (ok) {
    char why[512];
    const st_tensor tensors[] = {{"q", "F8_E4M3", 2, {in->tokens, n}, q, q_size},
                                 {"qs", "U8", 2, {n / 128, 512}, qs, qs_size}};
    ok = st_write(path, tensors, sizeof tensors / sizeof *tensors, why, sizeof why);
    if (!ok)
      cli_error("run", "%s", why);
  } else if (!q || !qs) {
    cli_error("run", "out of memory");
  }
  free(q);
  free(qs);
  return ok;
}

static int run(const wo_a_file *in, bw_bundle *bundle, const cli_choice *choice,
               const char *output) {
  job j;
  memset(&j, 0, sizeof j);
  static struct bwt_text why;
  size_t q_size, qs_size;
  if (bw_wo_a_output_sizes(&in->shape, in->tokens, &q_size, &qs_size) != BW_OK)
    return cli_library_error("run");
  if (!bwt_session_open(&j.session, choice->driver, bundle, &why))
    return cli_error("run", "%s", why.chars);
  const bool ok = upload(&j, in, q_size, qs_size) && launch(&j, in) &&
                  download(&j, in, q_size, qs_size, output);
  bw_device_info info;
  if (ok && bw_device_query(j.session.device, &info) == BW_OK)
    printf("%s: T = %u G = %u H = %u R = %u on %s, driver %s, %.2f s with loading\n", output,
           in->tokens, in->shape.groups, in->shape.heads_per_group, in->shape.lora_rank, info.name,
           choice->driver, j.seconds);
  bw_wo_a_plan_destroy(j.plan);
  for (int i = 0; i < BUFFERS; i++)
    if (j.buffer[i])
      (void)j.session.driver.MemFree(j.buffer[i]);
  bwt_session_close(&j.session);
  return ok ? CLI_OK : CLI_FAILED;
}

static int run_command(int argc, char **argv) {
  const char *family = NULL, *input = NULL, *output = NULL, *driver = NULL, *path = NULL;
  cli_emulated emulated = {0};
  const cli_option options[] = {
      {"--input", &input, NULL},
      {"--output", &output, NULL},
      {"--driver", &driver, NULL},
      {"--bundle", &path, NULL},
      {"--arch", &emulated.arch, NULL},
      {"--device", &emulated.device, NULL},
      {"--checks", &emulated.checks, NULL},
  };
  if (!cli_parse(argc, argv, options, sizeof options / sizeof *options, &family, 1, usage))
    return CLI_USAGE;
  if (!input || !output) {
    fprintf(stderr, "barewarp run: --input and --output are needed\n%s", usage);
    return CLI_USAGE;
  }
  if (!cli_emulated_configure(&emulated, argv[0]))
    return CLI_USAGE;
  bw_bundle *bundle = NULL;
  if (bw_bundle_open(path, &bundle) != BW_OK)
    return cli_library_error(argv[0]);
  cli_choice choice;
  cli_choose_driver(bundle, driver, &choice);
  wo_a_file in;
  int status = CLI_FAILED;
  if (wo_a_file_open(&in, argv[0], input)) {
    status = run(&in, bundle, &choice, output);
    wo_a_file_close(&in);
  }
  bw_bundle_close(bundle);
  return status;
}

const cli_family cli_run_wo_a = {"wo_a", usage, run_command};
