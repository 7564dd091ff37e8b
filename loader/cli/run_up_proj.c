/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp run up_proj`: one step of all ranks on operands from a file: up_proj and then
 * lamport_copy on each, the rows that each got to a file.  A rank is a device of its own
 * where there are enough, else all are on device 0.
 */
#include "cli.h"
#include "cli/emulated.h"
#include "cli/up_proj_file.h"
#include "harness/ranks.h"
#include "harness/verify_up_proj.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: barewarp run up_proj --input F.safetensors --output G.safetensors [--tp N]\n"
    "           [--mode multicast|peers] [--driver cuda|emu|PATH] [--bundle FILE]\n"
    "           [--arch ARCH] [--device SM] [--checks all|none|LIST]\n"
    "\n"
    "F has latent, weight and shared of all ranks (README); one step of up_proj and lamport_copy\n"
    "runs on N ranks (default 8), each a device if there are enough, else all on one device; G\n"
    "gets out, BF16 [N, M, hidden]: the rows that each rank has then.  Default mode: multicast\n"
    "where the devices can, else peers.\n";

typedef struct rank {
  uint32_t device;
  CUdeviceptr latent, weight, shared, out, ring; /* ring: 0 on devices of their own */
  bw_mailbox *mailbox;
  bw_up_proj_plan *plan;
  CUstream stream;
} rank;

typedef struct job {
  const up_proj_file *in;
  struct bwt_ranks ranks;
  uint32_t tp, shard;
  bool one_device;
  bw_mailbox_mode mode;
  uint64_t shared_stride; /* elements */
  rank rank[BW_MAILBOX_MAX_RANKS];
  double seconds;
} job;

static bool driver_ok(job *j, CUresult result, const char *what) {
  if (result == CUDA_SUCCESS)
    return true;
  static struct bwt_text reports;
  reports.length = 0;
  reports.chars[0] = '\0';
  bwt_session_report(&j->ranks.session, &reports);
  cli_error("run", "%s: %s\n%s", what, bwt_driver_error(&j->ranks.session.driver, result),
            reports.chars);
  return false;
}

static bool enter(job *j, uint32_t device) {
  return driver_ok(j, j->ranks.session.driver.CtxSetCurrent(j->ranks.context[device]),
                   "cuCtxSetCurrent");
}

static bool make_buffer(job *j, CUdeviceptr *buffer, const void *data, size_t size) {
  const struct bwt_driver *d = &j->ranks.session.driver;
  return driver_ok(j, d->MemAlloc(buffer, size), "cuMemAlloc") &&
         (!data || driver_ok(j, d->MemcpyHtoD(*buffer, data, size), "cuMemcpyHtoD"));
}

/* ---- mailboxes ---------------------------------------------------------------------------- */

static bool make_rings(job *j) {
  size_t bytes = 0;
  if (bw_mailbox_ring_size(j->ranks.device[0], j->in->hidden, j->in->rows, &bytes) != BW_OK)
    return cli_library_error("run") == CLI_OK;
  for (uint32_t r = 0; r < j->tp; r++)
    if (!make_buffer(j, &j->rank[r].ring, NULL, bytes))
      return false;
  return true;
}

static bool make_mailbox(job *j, uint32_t r) {
  const bw_mailbox_config config = {.hidden = j->in->hidden,
                                    .capacity = j->in->rows,
                                    .tp_size = j->tp,
                                    .rank = r,
                                    .mode = j->mode};
  bw_mailbox **mailbox = &j->rank[r].mailbox;
  bw_status status;
  if (j->one_device) {
    bw_mailbox_memory memory = {.ring = j->rank[r].ring};
    for (uint32_t peer = 0; peer < j->tp; peer++)
      memory.peers[peer] = j->rank[peer].ring;
    status = bw_mailbox_adopt(j->ranks.device[0], &config, &memory, mailbox);
  } else {
    status = bw_mailbox_create(j->ranks.device[r], &config, mailbox);
  }
  return status == BW_OK || cli_library_error("run") == CLI_OK;
}

static bool make_mailboxes(job *j) {
  static struct bwt_text why;
  bw_mailbox *all[BW_MAILBOX_MAX_RANKS];
  if (j->one_device && !make_rings(j))
    return false;
  for (uint32_t r = 0; r < j->tp; r++) {
    if (!make_mailbox(j, r))
      return false;
    all[r] = j->rank[r].mailbox;
  }
  bw_mailbox_info info;
  if (!bwt_rounds(all, j->tp, &why))
    return cli_error("run", "%s", why.chars) == CLI_OK;
  if (bw_mailbox_query(all[0], &info) != BW_OK)
    return cli_library_error("run") == CLI_OK;
  j->mode = info.mode;
  return true;
}

/* ---- one rank -------------------------------------------------------------------------------- */

static bool make_rank(job *j, uint32_t r) {
  const up_proj_file *in = j->in;
  rank *k = &j->rank[r];
  const size_t weights = (size_t)j->shard * in->latent_dim;
  const size_t shared_bytes = in->rows * j->shared_stride * 2;
  uint16_t *shared = calloc(1, shared_bytes);
  bool ok = shared || cli_error("run", "out of memory") == CLI_OK;
  if (ok) {
    up_proj_file_shared(in, j->tp, r, j->shared_stride, shared);
    ok = enter(j, k->device) &&
         make_buffer(j, &k->latent, in->latent, (size_t)in->rows * in->latent_dim * 2) &&
         make_buffer(j, &k->weight, in->weight + r * weights, weights * 2) &&
         make_buffer(j, &k->shared, shared, shared_bytes) &&
         make_buffer(j, &k->out, NULL, (size_t)in->rows * in->hidden * 2) &&
         driver_ok(j, j->ranks.session.driver.StreamCreate(&k->stream, CU_STREAM_NON_BLOCKING),
                   "cuStreamCreate");
  }
  free(shared);
  const bw_up_proj_config config = {.shape = {in->latent_dim, in->hidden, j->tp, r, in->rows},
                                    .weight = k->weight,
                                    .mailbox = k->mailbox};
  if (ok && bw_up_proj_plan_create(j->ranks.device[k->device], &config, &k->plan) != BW_OK)
    return cli_library_error("run") == CLI_OK;
  return ok;
}

/* All producers first.  On one device readers start only when their own has ended: they must
 * not take the place of another rank's producer. */
static bool step(job *j) {
  const double start = bwt_mail_now();
  for (uint32_t r = 0; r < j->tp; r++) {
    rank *k = &j->rank[r];
    const bw_up_proj_args args = {.latent = k->latent,
                                  .shared = k->shared,
                                  .shared_row_stride = j->shared_stride,
                                  .rows = j->in->rows};
    if (bw_up_proj_launch(k->plan, &args, k->stream) != BW_OK)
      return cli_library_error("run") == CLI_OK;
  }
  for (uint32_t r = 0; r < j->tp; r++) {
    const bw_lamport_copy_args args = {
        .out = j->rank[r].out, .rows = j->in->rows, .flags = j->one_device ? BW_LAUNCH_NO_PDL : 0};
    if (bw_lamport_copy_launch(j->rank[r].mailbox, &args, j->rank[r].stream) != BW_OK)
      return cli_library_error("run") == CLI_OK;
  }
  for (uint32_t r = 0; r < j->tp; r++)
    if (!enter(j, j->rank[r].device) ||
        !driver_ok(j, j->ranks.session.driver.StreamSynchronize(j->rank[r].stream), "the step"))
      return false;
  j->seconds = bwt_mail_now() - start;
  return true;
}

static bool download(job *j, const char *path) {
  const size_t elements = (size_t)j->in->rows * j->in->hidden;
  uint16_t *out = calloc(j->tp * elements + 1, sizeof *out);
  bool ok = out || cli_error("run", "out of memory") == CLI_OK;
  for (uint32_t r = 0; ok && r < j->tp; r++)
    ok =
        enter(j, j->rank[r].device) &&
        driver_ok(
            j, j->ranks.session.driver.MemcpyDtoH(out + r * elements, j->rank[r].out, elements * 2),
            "cuMemcpyDtoH");
  if (ok) {
    char why[512];
    const st_tensor tensor = {
        "out", "BF16", 3, {j->tp, j->in->rows, j->in->hidden}, out, j->tp * elements * 2};
    ok = st_write(path, &tensor, 1, why, sizeof why) || cli_error("run", "%s", why) == CLI_OK;
  }
  free(out);
  return ok;
}

static void release(job *j) {
  const struct bwt_driver *d = &j->ranks.session.driver;
  for (uint32_t r = 0; r < j->tp; r++) {
    rank *k = &j->rank[r];
    bw_up_proj_plan_destroy(k->plan);
    bw_mailbox_destroy(k->mailbox);
    const CUdeviceptr buffers[] = {k->latent, k->weight, k->shared, k->out, k->ring};
    (void)d->CtxSetCurrent(j->ranks.context[k->device]);
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
      if (buffers[i])
        (void)d->MemFree(buffers[i]);
    if (k->stream)
      (void)d->StreamDestroy(k->stream);
  }
}

/* ---- the command --------------------------------------------------------------- */

static bool place_ranks(job *j) {
  static struct bwt_text why;
  j->one_device = bwt_ranks_devices(&j->ranks) < j->tp;
  if (j->one_device && j->mode == BW_MAILBOX_MULTICAST)
    return cli_error("run", "--mode multicast needs %u devices", j->tp) == CLI_OK;
  if (j->one_device)
    j->mode = BW_MAILBOX_PEERS;
  for (uint32_t r = 0; r < j->tp; r++)
    j->rank[r].device = j->one_device ? 0 : r;
  return bwt_ranks_need(&j->ranks, j->one_device ? 1 : j->tp, &why) ||
         cli_error("run", "%s", why.chars) == CLI_OK;
}

static int run(job *j, bw_bundle *bundle, const cli_choice *choice, const char *output) {
  static struct bwt_text why;
  if (!bwt_ranks_open(&j->ranks, choice->driver, bundle, &why))
    return cli_error("run", "%s", why.chars);
  bool ok = place_ranks(j) && make_mailboxes(j);
  for (uint32_t r = 0; ok && r < j->tp; r++)
    ok = make_rank(j, r);
  ok = ok && step(j) && download(j, output);
  bw_device_info info;
  if (ok && bw_device_query(j->ranks.device[0], &info) == BW_OK)
    printf(
        "%s: M = %u L = %u hidden = %u, %u ranks on %s of %s (%s), mode %s, %.2f s with loading\n",
        output, j->in->rows, j->in->latent_dim, j->in->hidden, j->tp,
        j->one_device ? "one" : "as many", info.name, choice->driver, bwt_mode_name(j->mode),
        j->seconds);
  release(j);
  bwt_ranks_close(&j->ranks);
  return ok ? CLI_OK : CLI_FAILED;
}

/* What the file and the options say of the job. */
static bool configure(job *j, const up_proj_file *in, uint64_t tp, const char *mode) {
  *j = (job){.in = in, .tp = (uint32_t)tp};
  if (in->hidden % tp != 0)
    return cli_error("run", "tensor 'weight' has %u rows, must be a multiple of --tp, %u",
                     in->hidden, j->tp) == CLI_OK;
  j->shard = in->hidden / j->tp;
  j->shared_stride = ((uint64_t)j->shard + 15) / 16 * 16;
  if (mode) {
    j->mode = bwt_mode_find(mode);
    if (j->mode != BW_MAILBOX_MULTICAST && j->mode != BW_MAILBOX_PEERS)
      return cli_error("run", "--mode is '%s', must be multicast or peers", mode) == CLI_OK;
  }
  return true;
}

static int run_command(int argc, char **argv) {
  const char *family = NULL, *input = NULL, *output = NULL, *driver = NULL, *path = NULL,
             *tp_text = NULL, *mode = NULL;
  cli_emulated emulated = {0};
  const cli_option options[] = {
      {"--input", &input, NULL},
      {"--output", &output, NULL},
      {"--tp", &tp_text, NULL},
      {"--mode", &mode, NULL},
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
  uint64_t tp = 8;
  if ((tp_text && !cli_number("--tp", tp_text, 1, BW_MAILBOX_MAX_RANKS, &tp)) ||
      !cli_emulated_configure(&emulated, argv[0]))
    return CLI_USAGE;
  bw_bundle *bundle = NULL;
  if (bw_bundle_open(path, &bundle) != BW_OK)
    return cli_library_error(argv[0]);
  cli_choice choice;
  cli_choose_driver(bundle, driver, &choice);
  up_proj_file in;
  static job j;
  int status = CLI_FAILED;
  if (up_proj_file_open(&in, argv[0], input)) {
    if (configure(&j, &in, tp, mode))
      status = run(&j, bundle, &choice, output);
    up_proj_file_close(&in);
  }
  bw_bundle_close(bundle);
  return status;
}

const cli_family cli_run_up_proj = {"up_proj", usage, run_command};
