/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs up_proj on one rank and judges it; see verify_up_proj.h.
 */
#include "harness/verify_up_proj.h"

#include "harness/late.h"
#include "harness/random.h"

#include <stdlib.h>
#include <string.h>

enum { GENERATIONS_MOST = 16 };

struct run {
  struct bwt_ranks *ranks;
  struct bwt_up_proj_case c;
  struct bwt_mail_result *result;
  struct bwt_up_proj_inputs inputs;
  uint32_t shard, capacity, steps; /* steps: completed before this one */
  uint32_t device;                 /* that this rank runs on */
  uint32_t first, count;           /* ranks that take part: first .. first + count - 1 */
  uint16_t *want;                  /* [M, S] */
  uint16_t *image;                 /* what every ring holds before the launch */
  size_t ring_bytes, row_offset;   /* row_offset: elements before row 0 of this step */
  struct bwt_buffer latent, weight, shared, rings[BW_MAILBOX_MAX_RANKS], counters;
  bw_mailbox *mailboxes[BW_MAILBOX_MAX_RANKS];
  bw_up_proj_plan *plan;
};

/* ---- cases -------------------------------------------------------------------------- */

static struct bwt_mail_overrides overrides(struct bwt_up_proj_case *c) {
  return (struct bwt_mail_overrides){&c->kind, &c->plan_flags, &c->launch_flags, &c->mailbox_flags,
                                     &c->tight};
}

struct bwt_up_proj_case bwt_up_proj_case_for(uint32_t rows, uint32_t tp_size, uint32_t rank,
                                             uint32_t latent_dim, uint32_t hidden,
                                             bw_mailbox_mode mode, uint64_t seed) {
  struct bwt_up_proj_case c = {.rows = rows,
                               .tp_size = tp_size,
                               .rank = rank,
                               .latent_dim = latent_dim,
                               .hidden = hidden,
                               .mode = mode,
                               .seed = seed};
  struct bwt_mail_overrides o = overrides(&c);
  bwt_mail_override(&o);
  return c;
}

static void start(struct run *run) {
  struct bwt_mail_overrides o = overrides(&run->c);
  const struct bwt_up_proj_case *c = &run->c;
  bwt_mail_result_start(run->result, run->ranks, &o);
  bwt_say(&run->result->replay,
          "build/bin/barewarp verify up_proj --rows %u --tp %u --rank %u --latent %u --hidden %u "
          "--mode %s --seed %llu",
          c->rows, c->tp_size, c->rank, c->latent_dim, c->hidden, bwt_mode_name(c->mode),
          (unsigned long long)c->seed);
  bwt_replay_options(&run->ranks->session, &run->result->replay);
}

/* ---- operands ------------------------------------------------------------------------ */

static bool check_shape(struct run *run) {
  const struct bwt_up_proj_case *c = &run->c;
  const bw_up_proj_shape shape = {c->latent_dim, c->hidden, c->tp_size, c->rank,
                                  c->rows > 0 ? c->rows : 1};
  bw_status status = bw_up_proj_supported(run->ranks->session.device, &shape, c->mode);
  return status == BW_OK || bwt_mail_fail_status(run->result, "bw_up_proj_supported", status);
}

/* Rows of shared: close together, apart, or a slice of rows of all ranks. */
static uint64_t shared_stride(const struct run *run, uint64_t seed) {
  uint64_t least = (run->shard + 15) / 16 * 16;
  switch (bwt_mix(seed, 5) % 3) {
  case 0:
    return least;
  case 1:
    return least + 16;
  default:
    return ((uint64_t)run->c.hidden + 15) / 16 * 16;
  }
}

static bool make_inputs(struct run *run) {
  const struct bwt_up_proj_case *c = &run->c;
  uint64_t seed = c->seed; /* mixed with the sizes: no case repeats another's values */
  seed = bwt_mix(seed, (uint64_t)c->rows << 32 | c->tp_size);
  seed = bwt_mix(seed, (uint64_t)c->rank << 32 | c->latent_dim);
  seed = bwt_mix(seed, (uint64_t)c->mode << 32 | c->hidden);
  run->shard = c->hidden / c->tp_size;
  run->capacity = c->rows + 1 + (uint32_t)(bwt_mix(seed, 6) % 3);
  run->steps = (uint32_t)(bwt_mix(seed, 7) % 4) - 1; /* one of them the last before it wraps */
  bool ok = bwt_up_proj_inputs_make(&run->inputs, c->kind, c->rows, c->latent_dim, run->shard,
                                    shared_stride(run, seed), seed);
  run->want = malloc((size_t)c->rows * run->shard * sizeof *run->want + 1);
  if (ok && run->want != NULL && ref_up_proj_model(&run->inputs.ref, run->want))
    return true;
  bwt_say(&run->result->why, "no memory for the operands\n");
  return bwt_mail_fail(run->result, BWT_MAIL_SETUP);
}

static bool open_input(struct run *run, struct bwt_buffer *b, const char *name, const void *data,
                       size_t size) {
  enum bwt_guard guard = run->c.tight ? BWT_TIGHT : BWT_GUARDED_32;
  return bwt_buffer_open(b, &run->ranks->session.driver, name, size, guard, 0xff, 0,
                         &run->result->why) &&
         bwt_buffer_write(b, data, &run->result->why);
}

static bool open_inputs(struct run *run) {
  const struct bwt_up_proj_inputs *in = &run->inputs;
  return (bwt_ranks_need(run->ranks, run->device + 1, &run->result->why) &&
          bwt_ranks_enter(run->ranks, run->device, &run->result->why) &&
          open_input(run, &run->latent, "latent", in->latent, in->latent_size) &&
          open_input(run, &run->weight, "weight", in->weight, in->weight_size) &&
          open_input(run, &run->shared, "shared", in->shared, in->shared_size)) ||
         bwt_mail_fail(run->result, BWT_MAIL_SETUP);
}

/* ---- mailboxes ------------------------------------------------------------------------ */

static bw_mailbox_config config_of(const struct run *run, uint32_t rank) {
  return (bw_mailbox_config){.hidden = run->c.hidden,
                             .capacity = run->capacity,
                             .tp_size = run->c.tp_size,
                             .rank = rank,
                             .mode = run->c.mode,
                             .flags = run->c.mailbox_flags};
}

/* One mailbox a device. */
static bool create_mailboxes(struct run *run) {
  if (!bwt_ranks_need(run->ranks, run->c.tp_size, &run->result->why))
    return bwt_mail_fail(run->result, BWT_MAIL_SETUP);
  for (uint32_t r = 0; r < run->c.tp_size; r++) {
    bw_mailbox_config config = config_of(run, r);
    bw_status status = bw_mailbox_create(run->ranks->device[r], &config, &run->mailboxes[r]);
    if (status != BW_OK)
      return bwt_mail_fail_status(run->result, "bw_mailbox_create", status);
  }
  return true;
}

/* Guarded rings in this device's memory, one for each rank that the mode reaches. */
static bool adopt_mailboxes(struct run *run) {
  const struct bwt_driver *d = &run->ranks->session.driver;
  struct bwt_text *why = &run->result->why;
  bw_mailbox_memory memory = {0};
  for (uint32_t r = run->first; r < run->first + run->count; r++) {
    if (!bwt_buffer_open(&run->rings[r], d, "a ring", run->ring_bytes,
                         run->c.tight ? BWT_TIGHT : BWT_GUARDED, -1, run->c.seed + r, why))
      return bwt_mail_fail(run->result, BWT_MAIL_SETUP);
    memory.peers[r] = run->rings[r].data;
  }
  if (!bwt_buffer_open(&run->counters, d, "counters", 8, BWT_GUARDED, -1, run->c.seed, why))
    return bwt_mail_fail(run->result, BWT_MAIL_SETUP);
  for (uint32_t r = run->first; r < run->first + run->count; r++) {
    bw_mailbox_config config = config_of(run, r);
    memory.ring = run->rings[r].data;
    memory.counters = r == run->c.rank ? run->counters.data : 0;
    bw_status status =
        bw_mailbox_adopt(run->ranks->device[0], &config, &memory, &run->mailboxes[r]);
    if (status != BW_OK)
      return bwt_mail_fail_status(run->result, "bw_mailbox_adopt", status);
  }
  return true;
}

static bool open_mailboxes(struct run *run) {
  bw_status status = bw_mailbox_ring_size(run->ranks->session.device, run->c.hidden, run->capacity,
                                          &run->ring_bytes);
  if (status != BW_OK)
    return bwt_mail_fail_status(run->result, "bw_mailbox_ring_size", status);
  if (!(run->c.mode == BW_MAILBOX_MULTICAST ? create_mailboxes(run) : adopt_mailboxes(run)))
    return false;
  return bwt_rounds(run->mailboxes + run->first, run->count, &run->result->why) ||
         bwt_mail_fail(run->result, BWT_MAIL_STATUS);
}

static bool make_plan(struct run *run) {
  const struct bwt_up_proj_case *c = &run->c;
  bw_up_proj_config config = {
      .shape = {c->latent_dim, c->hidden, c->tp_size, c->rank, c->rows > 0 ? c->rows : 1},
      .weight = run->weight.data,
      .mailbox = run->mailboxes[c->rank],
      .flags = c->plan_flags};
  bw_status status = bw_up_proj_plan_create(run->ranks->device[run->device], &config, &run->plan);
  return status == BW_OK || bwt_mail_fail_status(run->result, "bw_up_proj_plan_create", status);
}

/* ---- rings ------------------------------------------------------------------------------ */

/* Rank r's ring, whose device's context becomes current. */
static bool enter_ring(struct run *run, uint32_t r, bw_mailbox_info *info) {
  struct bwt_text *why = &run->result->why;
  if (bw_mailbox_query(run->mailboxes[r], info) != BW_OK) {
    bwt_say(why, "bw_mailbox_query: %s\n", bw_last_error());
    return bwt_mail_fail(run->result, BWT_MAIL_SETUP);
  }
  return bwt_ranks_enter(run->ranks, run->c.mode == BW_MAILBOX_MULTICAST ? r : 0, why) ||
         bwt_mail_fail(run->result, BWT_MAIL_SETUP);
}

static bool driver_ok(struct run *run, CUresult result, const char *what) {
  if (result == CUDA_SUCCESS)
    return true;
  bwt_say(&run->result->why, "%s: %s\n", what,
          bwt_driver_error(&run->ranks->session.driver, result));
  return bwt_mail_fail(run->result, BWT_MAIL_SETUP);
}

/* Random bytes, and the complement of the results where these belong. */
static bool make_image(struct run *run, uint32_t generations) {
  const struct bwt_up_proj_case *c = &run->c;
  struct bwt_random r;
  run->image = malloc(run->ring_bytes);
  if (run->image == NULL || generations == 0 || generations > GENERATIONS_MOST) {
    bwt_say(&run->result->why, "no memory for a ring of %u generations\n", generations);
    return bwt_mail_fail(run->result, BWT_MAIL_SETUP);
  }
  bwt_random_seed(&r, bwt_mix(c->seed, 8));
  bwt_random_bytes(&r, run->image, run->ring_bytes);
  run->row_offset = (size_t)(run->steps % generations) * run->capacity * c->hidden;
  for (size_t m = 0; m < c->rows; m++)
    for (size_t n = 0; n < run->shard; n++)
      run->image[run->row_offset + m * c->hidden + c->rank * run->shard + n] =
          (uint16_t)~run->want[m * run->shard + n];
  return true;
}

static bool poison_rings(struct run *run) {
  const struct bwt_driver *d = &run->ranks->session.driver;
  bw_mailbox_info info;
  for (uint32_t r = run->first; r < run->first + run->count; r++) {
    if (!enter_ring(run, r, &info) || (run->image == NULL && !make_image(run, info.generations)) ||
        !driver_ok(run, d->MemcpyHtoD(info.ring, run->image, run->ring_bytes), "cuMemcpyHtoD"))
      return false;
    if (r == run->c.rank) {
      const uint32_t counters[2] = {run->steps, 0};
      if (run->counters.driver != NULL
              ? !bwt_buffer_write(&run->counters, counters, &run->result->why)
              : !driver_ok(run, d->MemcpyHtoD(info.counters, counters, 8), "cuMemcpyHtoD"))
        return bwt_mail_fail(run->result, BWT_MAIL_SETUP);
    }
  }
  return true;
}

/* Outside of this rank's columns nothing changes. */
static void check_elsewhere(struct run *run, uint32_t r, const uint16_t *got) {
  const struct bwt_up_proj_case *c = &run->c;
  size_t count = 0, first = 0, begin = run->row_offset, end = begin + (size_t)c->rows * c->hidden;
  for (size_t i = 0; i < run->ring_bytes / 2; i++) {
    size_t column = i % c->hidden;
    bool mine = i >= begin && i < end && column / run->shard == c->rank;
    if (!mine && got[i] != run->image[i] && count++ == 0)
      first = i;
  }
  if (count == 0)
    return;
  size_t row = first / c->hidden;
  bwt_say(&run->result->why,
          "rank %u's ring: %zu elements that are none of rank %u's results changed, first in "
          "generation %zu, row %zu, column %zu: 0x%04X, was 0x%04X\n",
          r, count, c->rank, row / run->capacity, row % run->capacity, first % c->hidden,
          got[first], run->image[first]);
  bwt_mail_fail(run->result, BWT_MAIL_ELSEWHERE);
}

static void check_ring(struct run *run, uint32_t r, uint16_t *got) {
  const struct bwt_driver *d = &run->ranks->session.driver;
  struct bwt_mail_result *result = run->result;
  const struct ref_up_proj *ref = &run->inputs.ref;
  const uint16_t *mine = got + run->row_offset + (size_t)run->c.rank * run->shard;
  struct bwt_up_proj_difference difference;
  bw_mailbox_info info;
  if (!enter_ring(run, r, &info) ||
      !driver_ok(run, d->MemcpyDtoH(got, info.ring, run->ring_bytes), "cuMemcpyDtoH"))
    return;
  struct bwt_text places = {0};
  bwt_up_proj_compare(ref, mine, run->c.hidden, run->want, &difference, &places);
  if (difference.differ > 0) {
    bwt_say(&result->why, "rank %u's ring: %s", r, places.chars);
    bwt_mail_fail(result, BWT_MAIL_WORDS);
  }
  if (difference.differ >= result->difference.differ)
    result->difference = difference;
  check_elsewhere(run, r, got);
  if (r != run->c.rank || run->c.kind == BWT_UP_PROJ_cancel)
    return; /* what is left of sums that cancel is rounding */
  if (!bwt_up_proj_judge(ref, mine, run->c.hidden, &result->judgement, &result->why))
    bwt_mail_fail(result, BWT_MAIL_SETUP);
  else if (result->judgement.out_of_bounds > 0)
    bwt_mail_fail(result, BWT_MAIL_TRUTH);
}

static void check_buffers(struct run *run) {
  struct bwt_text *why = &run->result->why;
  struct bwt_buffer *const inputs[] = {&run->latent, &run->weight, &run->shared};
  bwt_ranks_enter(run->ranks, run->device, why);
  for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
    if (bwt_buffer_check_bands(inputs[i], why) > 0)
      bwt_mail_fail(run->result, BWT_MAIL_BAND);
    if (bwt_buffer_check_unchanged(inputs[i], why) > 0)
      bwt_mail_fail(run->result, BWT_MAIL_INPUT);
  }
  if (run->counters.driver == NULL)
    return;
  if (bwt_buffer_check_unchanged(&run->counters, why) > 0)
    bwt_mail_fail(run->result, BWT_MAIL_COUNTERS);
  if (bwt_buffer_check_bands(&run->counters, why) > 0)
    bwt_mail_fail(run->result, BWT_MAIL_BAND);
  for (uint32_t r = run->first; r < run->first + run->count; r++)
    if (bwt_buffer_check_bands(&run->rings[r], why) > 0)
      bwt_mail_fail(run->result, BWT_MAIL_BAND);
}

static void check(struct run *run) {
  uint16_t *got = malloc(run->ring_bytes);
  if (got == NULL)
    bwt_mail_fail(run->result, BWT_MAIL_SETUP);
  for (uint32_t r = run->first; got != NULL && r < run->first + run->count; r++)
    check_ring(run, r, got);
  check_buffers(run);
  free(got);
}

/* ---- running ------------------------------------------------------------------------------ */

static bool write_late(struct run *run, struct bwt_late *late) {
  struct bwt_buffer *const to[] = {NULL, &run->latent, &run->shared, &run->weight};
  const void *const data[] = {NULL, run->inputs.latent, run->inputs.shared, run->inputs.weight};
  enum bwt_up_proj_late which = run->c.late;
  return which == BWT_LATE_none ||
         bwt_late_write(late, &run->ranks->session, to[which], data[which], &run->result->why) ||
         bwt_mail_fail(run->result, BWT_MAIL_SETUP);
}

static void launch(struct run *run) {
  const bw_up_proj_args args = {.latent = run->latent.data,
                                .shared = run->shared.data,
                                .shared_row_stride = run->inputs.ref.shared_stride,
                                .rows = run->c.rows,
                                .flags = run->c.launch_flags};
  if (!bwt_ranks_enter(run->ranks, run->device, &run->result->why)) {
    bwt_mail_fail(run->result, BWT_MAIL_SETUP);
    return;
  }
  struct bwt_late late = {0};
  if (!write_late(run, &late))
    return;
  double begin = bwt_mail_now();
  bw_status status = bw_up_proj_launch(run->plan, &args, NULL);
  if (status != BW_OK)
    bwt_mail_fail_status(run->result, "bw_up_proj_launch", status);
  CUresult error = run->ranks->session.driver.CtxSynchronize();
  run->result->seconds = bwt_mail_now() - begin;
  if (error != CUDA_SUCCESS)
    bwt_mail_fault(run->result, run->ranks, error);
  else if (status == BW_OK)
    check(run);
  bwt_late_close(&late);
}

static void close_run(struct run *run) {
  bw_up_proj_plan_destroy(run->plan);
  for (uint32_t r = 0; r < BW_MAILBOX_MAX_RANKS; r++)
    bw_mailbox_destroy(run->mailboxes[r]);
  struct bwt_text why = {0};
  if (run->ranks->opened > run->device)
    (void)bwt_ranks_enter(run->ranks, run->device, &why);
  struct bwt_buffer *const all[] = {&run->latent, &run->weight, &run->shared, &run->counters};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i]->driver != NULL)
      bwt_buffer_close(all[i]);
  for (uint32_t r = 0; r < BW_MAILBOX_MAX_RANKS; r++)
    if (run->rings[r].driver != NULL)
      bwt_buffer_close(&run->rings[r]);
  free(run->want);
  free(run->image);
  bwt_up_proj_inputs_free(&run->inputs);
  (void)bwt_ranks_enter(run->ranks, 0, &why);
}

bool bwt_up_proj_verify(struct bwt_ranks *ranks, const struct bwt_up_proj_case *c,
                        struct bwt_mail_result *result) {
  struct run run = {.ranks = ranks, .c = *c, .result = result};
  start(&run);
  bool local = c->mode == BW_MAILBOX_LOCAL;
  run.first = local ? c->rank : 0;
  run.count = local ? 1 : c->tp_size;
  run.device = c->mode == BW_MAILBOX_MULTICAST ? c->rank : 0;
  if (check_shape(&run) && make_inputs(&run) && open_inputs(&run) && open_mailboxes(&run) &&
      make_plan(&run) && poison_rings(&run))
    launch(&run);
  close_run(&run);
  result->passed = result->failures == 0;
  return result->passed;
}
