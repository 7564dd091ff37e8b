/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs lamport_copy and judges it; see verify_up_proj.h.
 */
#include "harness/random.h"
#include "harness/verify_up_proj.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t empty_word = 0x80000000;

enum { STEPS = 3 }; /* more than the ring has generations */

struct run {
  struct bwt_ranks *ranks;
  struct bwt_lamport_copy_case c;
  struct bwt_mail_result *result;
  uint32_t capacity, steps; /* completed so far */
  size_t words;             /* of a row */
  size_t ring_bytes, begin; /* begin: words before row 0 of this step */
  uint32_t *rows;           /* [M, words]: what the ranks store */
  uint32_t *image, *got;    /* of the ring: before the launch, after it */
  struct bwt_buffer ring, counters, out;
  bw_mailbox *mailbox;
  CUstream reader, writer;
};

/* ---- cases ---------------------------------------------------------------------------- */

static struct bwt_mail_overrides overrides(struct bwt_lamport_copy_case *c) {
  return (struct bwt_mail_overrides){.launch_flags = &c->launch_flags,
                                     .mailbox_flags = &c->mailbox_flags};
}

struct bwt_lamport_copy_case bwt_lamport_copy_case_for(uint32_t rows, uint32_t tp_size,
                                                       uint32_t hidden, uint64_t seed) {
  struct bwt_lamport_copy_case c = {
      .rows = rows, .tp_size = tp_size, .hidden = hidden, .seed = seed};
  struct bwt_mail_overrides o = overrides(&c);
  bwt_mail_override(&o);
  return c;
}

static void start(struct run *run) {
  struct bwt_mail_overrides o = overrides(&run->c);
  bwt_mail_result_start(run->result, run->ranks, &o);
  bwt_say(&run->result->replay,
          "build/bin/barewarp verify lamport_copy --rows %u --tp %u --hidden %u --seed %llu",
          run->c.rows, run->c.tp_size, run->c.hidden, (unsigned long long)run->c.seed);
  bwt_replay_options(&run->ranks->session, &run->result->replay);
}

/* ---- set-up ------------------------------------------------------------------------------ */

static bool driver_ok(struct run *run, CUresult result, const char *what) {
  if (result == CUDA_SUCCESS)
    return true;
  bwt_say(&run->result->why, "%s: %s\n", what,
          bwt_driver_error(&run->ranks->session.driver, result));
  return bwt_mail_fail(run->result, BWT_MAIL_SETUP);
}

static bool open_mailbox(struct run *run) {
  const struct bwt_lamport_copy_case *c = &run->c;
  const bw_mailbox_config config = {.hidden = c->hidden,
                                    .capacity = run->capacity,
                                    .tp_size = c->tp_size,
                                    .mode = BW_MAILBOX_LOCAL,
                                    .flags = c->mailbox_flags};
  const bw_mailbox_memory memory = {.ring = run->ring.data, .counters = run->counters.data};
  bw_status status = bw_mailbox_adopt(run->ranks->device[0], &config, &memory, &run->mailbox);
  if (status != BW_OK)
    return bwt_mail_fail_status(run->result, "bw_mailbox_adopt", status);
  return bwt_rounds(&run->mailbox, 1, &run->result->why) ||
         bwt_mail_fail(run->result, BWT_MAIL_STATUS);
}

static bool open_run(struct run *run) {
  const struct bwt_lamport_copy_case *c = &run->c;
  const struct bwt_driver *d = &run->ranks->session.driver;
  struct bwt_text *why = &run->result->why;
  run->capacity = c->rows + 1 + (uint32_t)(bwt_mix(c->seed, 1) % 3);
  run->steps = (uint32_t)(bwt_mix(c->seed, 2) % 4) - 2; /* may wrap on the way */
  run->words = c->hidden / 2;
  bw_status status =
      bw_mailbox_ring_size(run->ranks->session.device, c->hidden, run->capacity, &run->ring_bytes);
  if (status != BW_OK)
    return bwt_mail_fail_status(run->result, "bw_mailbox_ring_size", status);
  run->rows = malloc(c->rows * run->words * 4 + 1);
  run->image = malloc(run->ring_bytes);
  run->got = malloc(run->ring_bytes);
  if (run->rows == NULL || run->image == NULL || run->got == NULL) {
    bwt_say(why, "no memory for the operands\n");
    return bwt_mail_fail(run->result, BWT_MAIL_SETUP);
  }
  return ((bwt_buffer_open(&run->ring, d, "ring", run->ring_bytes, BWT_GUARDED, -1, c->seed, why) &&
           bwt_buffer_open(&run->counters, d, "counters", 8, BWT_GUARDED, -1, c->seed + 1, why) &&
           bwt_buffer_open(&run->out, d, "out", c->rows * run->words * 4, BWT_GUARDED, -1,
                           c->seed + 2, why)) ||
          bwt_mail_fail(run->result, BWT_MAIL_SETUP)) &&
         open_mailbox(run) &&
         driver_ok(run, d->StreamCreate(&run->reader, CU_STREAM_NON_BLOCKING), "cuStreamCreate") &&
         driver_ok(run, d->StreamCreate(&run->writer, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

static void close_run(struct run *run) {
  const struct bwt_driver *d = &run->ranks->session.driver;
  bw_mailbox_destroy(run->mailbox);
  if (run->reader != NULL)
    d->StreamDestroy(run->reader);
  if (run->writer != NULL)
    d->StreamDestroy(run->writer);
  struct bwt_buffer *const all[] = {&run->ring, &run->counters, &run->out};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i]->driver != NULL)
      bwt_buffer_close(all[i]);
  free(run->rows);
  free(run->image);
  free(run->got);
}

/* ---- a step -------------------------------------------------------------------------------- */

/* Any word but the empty one, those close to it more often. */
static uint32_t draw_word(struct bwt_random *r) {
  static const uint32_t close[] = {0x80000001, 0x00000000, 0x00008000, 0x80010000, 0xc0000000,
                                   0x00000001, 0x7fff7fff, 0x80007fff, 0x80008000, 0xffffffff};
  uint32_t word = bwt_random_below(r, 4) == 0
                      ? close[bwt_random_below(r, sizeof close / sizeof *close)]
                      : (uint32_t)bwt_random_u64(r);
  return word == empty_word ? 0x80000001 : word;
}

/* Rows to come; the ring random but for the rows of this step, which are empty; out the
 * complement of what belongs there. */
static bool prepare(struct run *run, struct bwt_random *r) {
  const struct bwt_lamport_copy_case *c = &run->c;
  struct bwt_text *why = &run->result->why;
  bw_mailbox_info info;
  if (bw_mailbox_query(run->mailbox, &info) != BW_OK)
    return bwt_mail_fail_status(run->result, "bw_mailbox_query", BW_ERROR_STATE);
  size_t count = c->rows * run->words;
  run->begin = (size_t)(run->steps % info.generations) * run->capacity * run->words;
  bwt_random_bytes(r, run->image, run->ring_bytes);
  uint32_t *complement = run->got;
  for (size_t i = 0; i < count; i++) {
    run->rows[i] = draw_word(r);
    run->image[run->begin + i] = empty_word;
    complement[i] = ~run->rows[i];
  }
  const uint32_t counters[2] = {run->steps, 0};
  return (bwt_buffer_write(&run->ring, run->image, why) &&
          bwt_buffer_write(&run->out, complement, why) &&
          bwt_buffer_write(&run->counters, counters, why)) ||
         bwt_mail_fail(run->result, BWT_MAIL_SETUP);
}

/* The parts (row, rank) in a random order: the first `early` of them before the launch. */
static bool store_parts(struct run *run, const uint32_t *order, uint32_t from, uint32_t to) {
  const struct bwt_driver *d = &run->ranks->session.driver;
  size_t part = run->words / run->c.tp_size;
  for (uint32_t i = from; i < to; i++) {
    size_t at = order[i] / run->c.tp_size * run->words + order[i] % run->c.tp_size * part;
    CUdeviceptr target = run->ring.data + 4 * (run->begin + at);
    if (!driver_ok(run, d->MemcpyHtoDAsync(target, run->rows + at, 4 * part, run->writer),
                   "cuMemcpyHtoDAsync"))
      return false;
  }
  return true;
}

static bool launch(struct run *run, const uint32_t *order, uint32_t parts, uint32_t early) {
  const struct bwt_driver *d = &run->ranks->session.driver;
  const bw_lamport_copy_args args = {
      .out = run->out.data, .rows = run->c.rows, .flags = run->c.launch_flags};
  if (!store_parts(run, order, 0, early) ||
      !driver_ok(run, d->StreamSynchronize(run->writer), "cuStreamSynchronize"))
    return false;
  double begin = bwt_mail_now();
  bw_status status = bw_lamport_copy_launch(run->mailbox, &args, run->reader);
  if (status != BW_OK)
    return bwt_mail_fail_status(run->result, "bw_lamport_copy_launch", status);
  bool stored = store_parts(run, order, early, parts); /* else it would poll for ever */
  CUresult error = stored ? d->StreamSynchronize(run->writer) : CUDA_SUCCESS;
  if (stored && error == CUDA_SUCCESS)
    error = d->StreamSynchronize(run->reader);
  run->result->seconds += bwt_mail_now() - begin;
  if (error != CUDA_SUCCESS)
    bwt_mail_fault(run->result, run->ranks, error);
  return stored && error == CUDA_SUCCESS;
}

static void check_out(struct run *run) {
  const size_t count = run->c.rows * run->words;
  size_t wrong = 0, first = 0;
  if (!bwt_buffer_read(&run->out, run->got, &run->result->why)) {
    bwt_mail_fail(run->result, BWT_MAIL_SETUP);
    return;
  }
  for (size_t i = 0; i < count; i++)
    if (run->got[i] != run->rows[i] && wrong++ == 0)
      first = i;
  if (wrong == 0)
    return;
  bwt_say(&run->result->why,
          "out: %zu of %zu words differ, first: row %zu, word %zu: 0x%08X%s, expected 0x%08X\n",
          wrong, count, first / run->words, first % run->words, run->got[first],
          run->got[first] == ~run->rows[first] ? " (never written)" : "", run->rows[first]);
  bwt_mail_fail(run->result, BWT_MAIL_WORDS);
}

static void check_ring(struct run *run) {
  const size_t count = run->c.rows * run->words;
  size_t wrong = 0, first = 0;
  if (!bwt_buffer_read(&run->ring, run->got, &run->result->why)) {
    bwt_mail_fail(run->result, BWT_MAIL_SETUP);
    return;
  }
  for (size_t i = 0; i < run->ring_bytes / 4; i++)
    if (run->got[i] != run->image[i] && wrong++ == 0)
      first = i;
  if (wrong == 0)
    return;
  size_t row = first / run->words;
  bool taken = first >= run->begin && first < run->begin + count;
  bwt_say(&run->result->why,
          "ring: %zu words are wrong, first: generation %zu, row %zu, word %zu is 0x%08X, %s\n",
          wrong, row / run->capacity, row % run->capacity, first % run->words, run->got[first],
          taken ? "not re-armed" : "but is none of this step's");
  bwt_mail_fail(run->result, BWT_MAIL_ELSEWHERE);
}

static void check(struct run *run) {
  struct bwt_text *why = &run->result->why;
  uint32_t counters[2] = {0, 0};
  check_out(run);
  check_ring(run);
  uint32_t steps = run->steps + (run->c.rows > 0); /* no rows are no step */
  if (!bwt_buffer_read(&run->counters, counters, why)) {
    bwt_mail_fail(run->result, BWT_MAIL_SETUP);
  } else if (counters[0] != steps || counters[1] != 0) {
    bwt_say(why, "counters: %u steps, %u tickets, must be %u and 0\n", counters[0], counters[1],
            steps);
    bwt_mail_fail(run->result, BWT_MAIL_COUNTERS);
  }
  struct bwt_buffer *const all[] = {&run->ring, &run->counters, &run->out};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (bwt_buffer_check_bands(all[i], why) > 0)
      bwt_mail_fail(run->result, BWT_MAIL_BAND);
  run->steps = steps;
}

static bool take_step(struct run *run, struct bwt_random *r) {
  uint32_t parts = run->c.rows * run->c.tp_size;
  uint32_t *order = calloc(parts + 1, sizeof *order);
  if (order == NULL)
    return bwt_mail_fail(run->result, BWT_MAIL_SETUP);
  for (uint32_t i = 0; i < parts; i++) { /* a random permutation */
    uint32_t at = bwt_random_below(r, i + 1);
    order[i] = order[at];
    order[at] = i;
  }
  bool ok = prepare(run, r) && launch(run, order, parts, bwt_random_below(r, parts + 1));
  if (ok)
    check(run);
  free(order);
  return ok && run->result->failures == 0;
}

bool bwt_lamport_copy_verify(struct bwt_ranks *ranks, const struct bwt_lamport_copy_case *c,
                             struct bwt_mail_result *result) {
  struct run run = {.ranks = ranks, .c = *c, .result = result};
  struct bwt_random r;
  start(&run);
  uint64_t seed = bwt_mix(c->seed, (uint64_t)c->rows << 32 | c->tp_size);
  bwt_random_seed(&r, bwt_mix(seed, c->hidden));
  if (c->tp_size == 0 || c->hidden % (2 * c->tp_size) != 0) {
    bwt_say(&result->why, "hidden is %u, must be a multiple of 2 * tp, %u\n", c->hidden,
            2 * c->tp_size);
    bwt_mail_fail(result, BWT_MAIL_STATUS);
  } else {
    bool ok = open_run(&run);
    for (int step = 0; ok && step < STEPS; step++)
      ok = take_step(&run, &r);
    close_run(&run);
  }
  result->passed = result->failures == 0;
  return result->passed;
}
