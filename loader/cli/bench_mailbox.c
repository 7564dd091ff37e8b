/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks, mailboxes and plans for benchmarks; see bench_mailbox.h.
 */
#include "cli/bench_mailbox.h"

#include "harness/up_proj_inputs.h"

#include <stdlib.h>
#include <string.h>

#define DRIVER(call) bench_driver_ok(b, b->ranks.session.driver.call, #call)

/* ---- mailboxes -------------------------------------------------------------------------- */

static bw_mailbox_config mailbox_config(const bench_mail *m, uint32_t r) {
  return (bw_mailbox_config){.hidden = m->c.hidden,
                             .capacity = m->c.max_rows,
                             .tp_size = m->c.tp_size,
                             .rank = r,
                             .mode = m->c.mode,
                             .flags = m->c.mailbox_flags};
}

static bool take_rounds(bw_mailbox *const *all, uint32_t count) {
  static struct bwt_text why;
  why.length = 0;
  return bwt_rounds(all, count, &why) || cli_error("bench", "%s", why.chars) == CLI_OK;
}

/* Mode local: each mailbox stands alone. */
static bool make_local(bench *b, bench_mail *m) {
  const bw_mailbox_config config = mailbox_config(m, 0);
  for (uint32_t i = 0; i < m->boxes; i++) {
    bw_mailbox **box = &m->rank[0].mailbox[i];
    if (!bench_library_ok(bw_mailbox_create(b->ranks.device[0], &config, box)) ||
        !take_rounds(box, 1))
      return false;
  }
  return true;
}

/* Mode peers, a device a rank. */
static bool make_peers(bench *b, bench_mail *m) {
  bw_mailbox *all[BW_MAILBOX_MAX_RANKS];
  for (uint32_t r = 0; r < m->ranks; r++) {
    const bw_mailbox_config config = mailbox_config(m, r);
    if (!bench_library_ok(bw_mailbox_create(b->ranks.device[r], &config, &m->rank[r].mailbox[0])))
      return false;
    all[r] = m->rank[r].mailbox[0];
  }
  return take_rounds(all, m->ranks);
}

/* Mode peers with all rings on device 0. */
static bool make_one_device(bench *b, bench_mail *m) {
  bw_mailbox *all[BW_MAILBOX_MAX_RANKS];
  bw_mailbox_memory memory = {0};
  for (uint32_t r = 0; r < m->c.tp_size; r++) {
    if (!bench_memory(b, &m->ring[r], NULL, m->ring_bytes))
      return false;
    memory.peers[r] = m->ring[r];
  }
  for (uint32_t r = 0; r < m->c.tp_size; r++) {
    const bw_mailbox_config config = mailbox_config(m, r);
    bw_mailbox **box = r == 0 ? &m->rank[0].mailbox[0] : &m->other[r];
    memory.ring = m->ring[r];
    if (!bench_library_ok(bw_mailbox_adopt(b->ranks.device[0], &config, &memory, box)))
      return false;
    all[r] = *box;
  }
  return take_rounds(all, m->c.tp_size);
}

/* ---- one rank ------------------------------------------------------------------------------ */

/* What the other ranks have stored: words that are not empty, but for this rank's columns if
 * it stores those itself. */
static bool make_image(bench *b, bench_mail *m, bench_mail_rank *k) {
  const size_t words = m->ring_bytes / 4, row_words = m->c.hidden / 2;
  struct bwt_random random;
  bwt_random_seed(&random, bwt_mix(b->seed, 5));
  uint32_t *image = malloc(m->ring_bytes);
  if (!image)
    return bench_no_memory();
  for (size_t i = 0; i < words; i++) {
    /* Two bf16 of magnitude 2^-16 to 1. */
    const uint64_t bits = bwt_random_u64(&random);
    image[i] = (uint32_t)bits & 0x87ff87ff;
    image[i] |= 0x38003800;
    if (m->c.producers && i % row_words < m->shard / 2)
      image[i] = 0x80000000;
  }
  const bool ok = bench_memory(b, &k->image, image, m->ring_bytes);
  free(image);
  return ok;
}

static bool make_layer(bench *b, bench_mail *m, uint32_t r, uint32_t i) {
  bench_mail_rank *k = &m->rank[r];
  struct bwt_up_proj_inputs in;
  if (!bwt_up_proj_inputs_make(&in, BWT_UP_PROJ_normal, i == 0 ? m->c.max_rows : 0, m->c.latent_dim,
                               m->shard, m->shared_stride, bwt_mix(b->seed, (uint64_t)r << 32 | i)))
    return bench_no_memory();
  /* Whole rows of shared, the last one too. */
  bool ok = bench_memory(b, &k->weight[i], in.weight, in.weight_size);
  if (i == 0)
    ok = ok && bench_memory(b, &k->latent, in.latent, in.latent_size) &&
         bench_memory(b, &k->shared, in.shared, in.shared_size);
  bwt_up_proj_inputs_free(&in);
  return ok;
}

static bool make_plan(bench *b, bench_mail *m, uint32_t r, uint32_t i) {
  bench_mail_rank *k = &m->rank[r];
  if (m->layers == 0 || m->boxes == 0)
    return false; /* never: choose_counts */
  const bw_up_proj_config config = {
      .shape = {m->c.latent_dim, m->c.hidden, m->c.tp_size, r, m->c.max_rows},
      .weight = k->weight[i % m->layers],
      .mailbox = k->mailbox[i % m->boxes]};
  return bench_library_ok(bw_up_proj_plan_create(b->ranks.device[r], &config, &k->plan[i]));
}

static bool make_rank(bench *b, bench_mail *m, uint32_t r) {
  bench_mail_rank *k = &m->rank[r];
  const size_t out = (size_t)m->c.max_rows * m->c.hidden * 2;
  bool ok = bench_enter(b, r) && bench_memory(b, &k->out, NULL, out);
  for (uint32_t i = 0; ok && m->c.producers && i < m->layers; i++)
    ok = make_layer(b, m, r, i);
  for (uint32_t i = 0; ok && i < m->plans; i++)
    ok = make_plan(b, m, r, i);
  if (ok && m->c.consumers && m->c.mode == BW_MAILBOX_LOCAL)
    ok = make_image(b, m, k);
  return ok;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static bool make_arrays(bench_mail *m) {
  for (uint32_t r = 0; r < m->ranks; r++) {
    bench_mail_rank *k = &m->rank[r];
    k->weight = calloc(m->layers, sizeof(CUdeviceptr));
    k->plan = calloc(m->plans + 1, sizeof *k->plan);
    k->mailbox = calloc(m->boxes, sizeof *k->mailbox);
    if (!k->weight || !k->plan || !k->mailbox)
      return bench_no_memory();
  }
  return true;
}

static bool place_ranks(bench *b, bench_mail *m) {
  static struct bwt_text why;
  const bool apart = m->c.mode == BW_MAILBOX_PEERS && bwt_ranks_devices(&b->ranks) >= m->c.tp_size;
  m->ranks = apart ? m->c.tp_size : 1;
  if (!apart && m->c.mode == BW_MAILBOX_PEERS && m->c.consumers)
    return cli_error("bench", "--mode peers needs a device for each of --tp, %u; there are %u",
                     m->c.tp_size, bwt_ranks_devices(&b->ranks)) == CLI_OK;
  return bwt_ranks_need(&b->ranks, m->ranks, &why) || cli_error("bench", "%s", why.chars) == CLI_OK;
}

/* How long a chain is, and how many of everything it rotates through. */
static void choose_counts(const bench *b, bench_mail *m) {
  enum { LONG = 192, SHORT = 64 }; /* few, where each step needs a mailbox */
  const bool own_box = m->c.consumers && m->c.mode == BW_MAILBOX_LOCAL;
  m->layers = m->c.steps ? m->c.steps : bench_rotation(b, (size_t)m->shard * m->c.latent_dim * 2);
  m->launches = m->c.steps
                    ? m->c.steps
                    : bench_launches(b, own_box ? SHORT : LONG, m->c.producers ? m->layers : 1);
  m->boxes = own_box ? m->launches : 1;
  m->plans = !m->c.producers ? 0 : own_box ? m->launches : m->layers;
}

bool bench_mail_open(bench *b, bench_mail *m, const bench_mail_case *c) {
  *m = (bench_mail){.c = *c, .shard = c->hidden / c->tp_size};
  m->shared_stride = (c->hidden + 15) / 16 * 16;
  const bw_up_proj_shape shape = {c->latent_dim, c->hidden, c->tp_size, 0, c->max_rows};
  if ((c->producers &&
       !bench_library_ok(bw_up_proj_supported(b->ranks.device[0], &shape, c->mode))) ||
      !bench_library_ok(
          bw_mailbox_ring_size(b->ranks.device[0], c->hidden, c->max_rows, &m->ring_bytes)) ||
      !place_ranks(b, m))
    return false;
  choose_counts(b, m);
  bool ok = make_arrays(m) && (c->mode == BW_MAILBOX_LOCAL ? make_local(b, m)
                               : m->ranks > 1              ? make_peers(b, m)
                                                           : make_one_device(b, m));
  for (uint32_t r = 0; ok && r < m->ranks; r++)
    ok = make_rank(b, m, r);
  return bench_enter(b, 0) && ok;
}

static void close_rank(bench *b, bench_mail *m, uint32_t r) {
  bench_mail_rank *k = &m->rank[r];
  CUdeviceptr memory[] = {k->latent, k->shared, k->out, k->image};
  for (uint32_t i = 0; k->plan && i < m->plans; i++)
    bw_up_proj_plan_destroy(k->plan[i]);
  for (uint32_t i = 0; k->mailbox && i < m->boxes; i++)
    bw_mailbox_destroy(k->mailbox[i]);
  (void)bench_enter(b, r);
  bench_release(b, memory, sizeof memory / sizeof *memory);
  if (k->weight)
    bench_release(b, k->weight, m->layers);
  free(k->weight);
  free(k->plan);
  free(k->mailbox);
}

void bench_mail_close(bench *b, bench_mail *m) {
  for (uint32_t r = 0; r < m->ranks; r++)
    close_rank(b, m, r);
  (void)bench_enter(b, 0);
  for (uint32_t r = 0; r < m->c.tp_size; r++)
    bw_mailbox_destroy(m->other[r]);
  bench_release(b, m->ring, m->c.tp_size);
}

/* ---- launching ----------------------------------------------------------------- */

bool bench_mail_produce(bench *b, bench_mail *m, uint32_t r, uint32_t number,
                        const struct bench_way *way, CUstream stream) {
  const bench_mail_rank *k = &m->rank[r];
  const bw_up_proj_args args = {.latent = k->latent,
                                .shared = k->shared,
                                .shared_row_stride = m->shared_stride,
                                .rows = m->rows,
                                .flags = way->flags};
  (void)b;
  return bench_library_ok(bw_up_proj_launch(k->plan[number % m->plans], &args, stream));
}

bool bench_mail_consume(bench *b, bench_mail *m, uint32_t r, uint32_t number,
                        const struct bench_way *way, CUstream stream) {
  const bench_mail_rank *k = &m->rank[r];
  const bw_lamport_copy_args args = {.out = k->out, .rows = m->rows, .flags = way->flags};
  (void)b;
  return bench_library_ok(bw_lamport_copy_launch(k->mailbox[number % m->boxes], &args, stream));
}

bool bench_mail_refill(bench *b, bench_mail *m, uint32_t r, CUstream stream) {
  const bench_mail_rank *k = &m->rank[r];
  for (uint32_t i = 0; k->image && i < m->boxes; i++) {
    bw_mailbox_info info;
    if (!bench_library_ok(bw_mailbox_query(k->mailbox[i], &info)) ||
        !DRIVER(MemcpyDtoDAsync(info.ring, k->image, m->ring_bytes, stream)))
      return false;
  }
  return true;
}

double bench_mail_bytes(const bench_mail_case *c, uint32_t rows) {
  const uint32_t columns = c->hidden / c->tp_size;
  const double shard = columns, m = rows;
  /* Weights, latent and shared in, columns out to every rank that the mode stores to. */
  const double stores = c->mode == BW_MAILBOX_PEERS ? c->tp_size : 1;
  const double produced =
      shard * c->latent_dim * 2 + m * c->latent_dim * 2 + m * shard * 2 + m * shard * 2 * stores;
  /* Words in, out and empty again. */
  return (c->producers ? produced : 0) + (c->consumers ? m * c->hidden * 2 * 3 : 0);
}
