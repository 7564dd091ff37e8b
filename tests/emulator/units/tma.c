/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor copies (cp.async.bulk.tensor, cp.reduce.async.bulk.tensor; PTX ISA 9.7.9.27) in
 * tile mode.  The box lies in shared memory row after row, densely or, with a swizzle, at
 * least the swizzle's width apart, which is applied to the absolute shared address.  Elements
 * outside the tensor are filled on load and skipped on store; the transaction count is that of the
 * whole box.
 */
#include "bulk.h"
#include "layout.h"
#include "reduce.h"
#include "tensormap.h"

#include <string.h>

struct tma_copy {
  struct job job;
  struct tensormap map;
  int32_t start[TENSORMAP_RANKS];
  uint32_t count[TENSORMAP_RANKS]; /* elements of the box that move: ceil(box / step) */
  uint32_t rows;                   /* product of count[1..] */
  uint32_t row_bytes;
  uint32_t pitch;        /* bytes from a row to the next in shared memory */
  unsigned swizzle;      /* width in bytes */
  uint64_t shared, mbar; /* shared::cluster addresses */
  enum mod op, type;     /* reduction; MOD_none: copy */
};

/* Where row r of the box begins in global memory, and which of its elements exist. */
struct row {
  uint64_t address; /* of the first existing element */
  uint32_t skip, n; /* leading elements that do not exist; elements that do */
};

static struct row row_of(const struct tma_copy *c, uint32_t r) {
  const struct tensormap *t = &c->map;
  struct row row = {t->address, 0, 0};
  for (unsigned d = 1; d < t->rank; d++) {
    int64_t at = c->start[d] + (int64_t)(r % c->count[d]) * t->step[d];
    r /= c->count[d];
    if (at < 0 || at >= (int64_t)t->dim[d])
      return row;
    row.address += (uint64_t)at * t->stride[d];
  }
  int64_t from = c->start[0], to = from + c->count[0];
  int64_t low = from < 0 ? 0 : from;
  int64_t high = to > (int64_t)t->dim[0] ? (int64_t)t->dim[0] : to;
  if (high <= low)
    return row;
  row.skip = (uint32_t)(low - from);
  row.n = (uint32_t)(high - low);
  row.address += (uint64_t)low * t->stride[0];
  return row;
}

static void fill_out_of_bounds(const struct tma_copy *c, uint8_t *p, uint32_t elements) {
  unsigned es = (unsigned)c->map.stride[0];
  memset(p, 0, (size_t)elements * es);
  if (!c->map.oob_nan)
    return;
  for (uint32_t i = 0; i < elements * es; i++) /* 0x7ff7 in every 16 bits */
    p[i] = i % 2 ? 0x7f : 0xf7;
}

/* The TF32 types round what they load to nearest; no type flushes on a load (H200). */
static void round_tf32(uint8_t *p, uint32_t n) {
  for (uint32_t i = 0; i < n; i++, p += 4) {
    uint32_t word;
    memcpy(&word, p, 4);
    if ((word & 0x7fffffffu) > 0x7f800000u)
      word = 0x7fffffffu;
    else
      word += 0xfff + (word >> 13 & 1);
    word &= ~0x1fffu;
    memcpy(p, &word, 4);
  }
}

static bool load_read(struct job *j, unsigned part) {
  struct tma_copy *c = (struct tma_copy *)j;
  unsigned es = (unsigned)c->map.stride[0];
  uint32_t from, to;
  job_range(j, part, c->rows, &from, &to);
  for (uint32_t r = from; r < to; r++) {
    struct row row = row_of(c, r);
    uint8_t *at = j->data + (size_t)r * c->row_bytes;
    if (row.n < c->count[0])
      fill_out_of_bounds(c, at, c->count[0]);
    if (row.n == 0)
      continue;
    size_t offset = (size_t)row.skip * es;
    if (!mem_load(&j->a, SPACE_global, row.address, row.n * es, es, at + offset,
                  j->undef ? j->undef + (size_t)r * c->row_bytes + offset : NULL))
      return false;
    if (c->map.type == TM_tf32 || c->map.type == TM_tf32_ftz)
      round_tf32(at + offset, row.n);
  }
  return true;
}

/* Moves bytes [from, to) of a dense box whose byte 0 is at `shared` between data and shared
 * memory, whole 128-byte lines at a time where it can. */
static bool dense_move(struct tma_copy *c, uint64_t shared, uint32_t from, uint32_t to,
                       bool store) {
  struct job *j = &c->job;
  uint8_t *undef = j->undef;
  if (c->swizzle == 0) {
    uint64_t at = shared + from;
    return store ? mem_store(&j->a, SPACE_shared_cluster, at, to - from, 16, j->data + from,
                             undef ? undef + from : NULL)
                 : mem_load(&j->a, SPACE_shared_cluster, at, to - from, 16, j->data + from,
                            undef ? undef + from : NULL);
  }
  while (from < to) {
    uint64_t linear = shared + from;
    uint32_t size = linear % 128 == 0 && to - from >= 128 ? 128 : 16;
    uint64_t at = size == 128 ? linear : swizzle_address(linear, c->swizzle);
    uint32_t turn = size == 128 ? (uint32_t)(swizzle_address(linear, c->swizzle) - linear) : 0;
    uint8_t line[128], line_undef[128];
    if (store) {
      for (uint32_t b = 0; b < size; b += 16) {
        memcpy(line + (b ^ turn), j->data + from + b, 16);
        if (undef)
          memcpy(line_undef + (b ^ turn), undef + from + b, 16);
      }
      if (!mem_store(&j->a, SPACE_shared_cluster, at, size, 16, line, undef ? line_undef : NULL))
        return false;
    } else {
      if (!mem_load(&j->a, SPACE_shared_cluster, at, size, 16, line, undef ? line_undef : NULL))
        return false;
      for (uint32_t b = 0; b < size; b += 16) {
        memcpy(j->data + from + b, line + (b ^ turn), 16);
        if (undef)
          memcpy(undef + from + b, line_undef + (b ^ turn), 16);
      }
    }
    from += size;
  }
  return true;
}

/* Rows [from, to) of the box. */
static bool shared_move(struct tma_copy *c, uint32_t from, uint32_t to, bool store) {
  if (c->pitch == c->row_bytes)
    return dense_move(c, c->shared, from * c->row_bytes, to * c->row_bytes, store);
  for (uint32_t r = from; r < to; r++) {
    uint64_t gap = (uint64_t)r * (c->pitch - c->row_bytes);
    if (!dense_move(c, c->shared + gap, r * c->row_bytes, (r + 1) * c->row_bytes, store))
      return false;
  }
  return true;
}

static bool load_write(struct job *j, unsigned part) {
  struct tma_copy *c = (struct tma_copy *)j;
  uint32_t from, to;
  job_range(j, part, c->rows, &from, &to);
  return shared_move(c, from, to, true);
}

static void load_done(struct job *j) {
  struct tma_copy *c = (struct tma_copy *)j;
  struct access a = j->a;
  a.proxy = PROXY_generic;
  a.sem = SEM_release;
  a.scope = SCOPE_cluster;
  mbar_complete_tx(&a, c->mbar, j->size);
}

static bool store_read(struct job *j, unsigned part) {
  struct tma_copy *c = (struct tma_copy *)j;
  uint32_t from, to;
  job_range(j, part, c->rows, &from, &to);
  return shared_move(c, from, to, false);
}

static uint64_t flushed(uint64_t f32) {
  return f32 & 0x7f800000u ? f32 : f32 & 0x80000000u;
}

static bool reduce_row(struct tma_copy *c, const struct row *row, const uint8_t *data,
                       const uint8_t *undef) {
  struct access a = c->job.a;
  unsigned es = (unsigned)c->map.stride[0];
  a.atomic = true;
  a.sem = SEM_relaxed;
  a.scope = SCOPE_gpu;
  for (uint32_t i = 0; i < row->n; i++) {
    uint64_t old = 0, old_undef = 0, add = 0, add_undef = 0;
    if (!mem_load(&a, SPACE_global, row->address + (uint64_t)i * es, es, es, &old,
                  undef ? &old_undef : NULL))
      return false;
    memcpy(&add, data + (size_t)i * es, es);
    if (undef)
      memcpy(&add_undef, undef + (size_t)i * es, es);
    if (c->map.type == TM_float32_ftz) {
      old = flushed(old);
      add = flushed(add);
    }
    add = reduce_element(c->op, c->type, old, add);
    if (c->map.type == TM_float32_ftz)
      add = flushed(add);
    add_undef = old_undef | add_undef ? UINT64_MAX : 0;
    if (!mem_store(&a, SPACE_global, row->address + (uint64_t)i * es, es, es, &add,
                   undef ? &add_undef : NULL))
      return false;
  }
  return true;
}

static bool store_write(struct job *j, unsigned part) {
  struct tma_copy *c = (struct tma_copy *)j;
  unsigned es = (unsigned)c->map.stride[0];
  uint32_t from, to;
  job_range(j, part, c->rows, &from, &to);
  for (uint32_t r = from; r < to; r++) {
    struct row row = row_of(c, r);
    if (row.n == 0)
      continue;
    size_t at = (size_t)r * c->row_bytes + (size_t)row.skip * es;
    const uint8_t *undef = j->undef ? j->undef + at : NULL;
    bool ok = c->op == MOD_none
                  ? mem_store(&j->a, SPACE_global, row.address, row.n * es, es, j->data + at, undef)
                  : reduce_row(c, &row, j->data + at, undef);
    if (!ok)
      return false;
  }
  return true;
}

/* ---- issue ------------------------------------------------------------------------- */

static bool read_map(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                     struct tensormap *map) {
  const struct opd *where = &o->elem[0];
  struct access a = access_of(w, I, lane);
  uint8_t bytes[TENSORMAP_BYTES], undef[TENSORMAP_BYTES] = {0};
  uint64_t addr;
  if (!opd_address(w, I, where, lane, &addr))
    return false;
  a.proxy = PROXY_tensormap;
  if (addr % 64 &&
      fault(&a, CHECK_bounds, "misaligned-tensormap",
            "the tensor map's address 0x%llx is not a multiple of 64", (unsigned long long)addr))
    return false;
  if (!mem_load(&a, where->symbol ? (enum space)where->space : SPACE_generic, addr, TENSORMAP_BYTES,
                1, bytes, check_on(a.m, CHECK_undef) ? undef : NULL))
    return false;
  for (int i = 0; i < TENSORMAP_BYTES; i++)
    if (undef[i] &&
        fault(&a, CHECK_undef, "undef-tensormap",
              "byte %d of the tensor map at 0x%llx was never written", i, (unsigned long long)addr))
      return false;
  char why[160] = "these are not the bytes of a tensor map";
  if (tensormap_decode(bytes, map) && tensormap_check(map, why, sizeof why) == 0)
    return true;
  hard_fault(&a, CHECK_bounds, "bad-tensormap", "the tensor map at 0x%llx is invalid: %s",
             (unsigned long long)addr, why);
  return false;
}

/* The tensor operand: map, coordinates, and all that follows from them. */
static bool tensor_operand(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                           struct tma_copy *c) {
  struct access a = access_of(w, I, lane);
  struct tensormap *t = &c->map;
  if (!read_map(w, I, o, lane, t))
    return false;
  unsigned rank = 1 + (unsigned)(I->mod[0] - MOD_1d);
  if (t->rank != rank || o->n != rank + 1) {
    hard_fault(&a, CHECK_bounds, "tensor-rank",
               "the instruction names %u dimensions and %u coordinates, the tensor map has %u",
               rank, o->n - 1u, t->rank);
    return false;
  }
  const char *lacking = t->interleave                    ? "interleaved layouts"
                        : t->swizzle > TM_swizzle_128    ? "128B swizzles with larger atoms"
                        : tm_element_bytes(t->type) == 0 ? "packed 4- and 6-bit types"
                                                         : NULL;
  if (lacking) {
    hard_fault(&a, CHECK_bounds, "not-emulated", "%s of tensor maps are not emulated", lacking);
    return false;
  }
  c->rows = 1;
  for (unsigned d = 0; d < rank; d++) {
    if (!require_defined(w, I, &o->elem[1 + d], lane, "coordinate"))
      return false;
    c->start[d] = (int32_t)opd_get(w, &o->elem[1 + d], lane);
    c->count[d] = d ? (t->box[d] + t->step[d] - 1) / t->step[d] : t->box[0];
    if (d)
      c->rows *= c->count[d];
  }
  c->row_bytes = c->count[0] * tm_element_bytes(t->type);
  c->swizzle = t->swizzle ? 16u << t->swizzle : 0;
  c->pitch = c->row_bytes > c->swizzle ? c->row_bytes : c->swizzle;
  /* An H200 ends the kernel with an illegal instruction. */
  int64_t start = (int64_t)c->start[0] * (int64_t)tm_element_bytes(t->type);
  if (start % 16 == 0)
    return true;
  hard_fault(&a, CHECK_bounds, "misaligned-coordinate",
             "coordinate 0 of a tensor copy is %d, %lld bytes: the box must begin at a multiple of "
             "16 bytes",
             c->start[0], (long long)start);
  return false;
}

static bool aligned_box(struct warp *w, const struct insn *I, int lane, uint64_t shared) {
  struct access a = access_of(w, I, lane);
  if (shared % 128 == 0)
    return true;
  hard_fault(&a, CHECK_bounds, "misaligned-tma",
             "the shared address 0x%llx of a tensor copy is not a multiple of 128",
             (unsigned long long)shared);
  return false;
}

static struct tma_copy *tma_new(struct warp *w, const struct insn *I, int lane) {
  struct tma_copy *c = unit_alloc(sizeof *c);
  c->job.a = async_access(w, I, lane, PROXY_async);
  c->job.latency = LAT_tma;
  c->job.what = "tensor copy";
  return c;
}

static enum step tensor_load(struct warp *w, const struct insn *I, uint32_t lanes,
                             const struct opd *mask_opd) {
  enum space sp = I->mod[1] == MOD_shared__cta ? SPACE_shared : SPACE_shared_cluster;
  FOR_LANES(lane, lanes) {
    struct tma_copy proto = {0};
    uint64_t to, mbar;
    uint32_t mask = 0;
    struct access a = access_of(w, I, lane);
    if (!tensor_operand(w, I, &I->opd[1], lane, &proto) ||
        !shared_operand(w, I, &I->opd[0], lane, sp, &to) || !aligned_box(w, I, lane, to) ||
        !mbar_operand(w, I, &I->opd[2], lane, sp, &mbar) ||
        (mask_opd && !mask_operand(w, I, mask_opd, lane, &mask)))
      return STEP_fault;
    uint32_t rank = (uint32_t)(to >> SHARED_RANK_SHIFT);
    if (!mask_opd)
      mask = 1u << rank;
    if (mbar >> SHARED_RANK_SHIFT != rank &&
        fault(&a, CHECK_cluster, "mbarrier-elsewhere",
              "the mbarrier must be in the destination's CTA %u, it is in CTA %u", rank,
              (unsigned)(mbar >> SHARED_RANK_SHIFT)))
      return STEP_fault;
    for (uint32_t to_rank = 0; to_rank < 16; to_rank++) {
      if (!(mask >> to_rank & 1))
        continue;
      struct tma_copy *c = tma_new(w, I, lane);
      struct job job = c->job;
      *c = proto;
      c->job = job;
      c->job.read = load_read;
      c->job.write = load_write;
      c->job.done = load_done;
      c->shared = in_rank(to, to_rank);
      c->mbar = in_rank(mbar, to_rank);
      order_issue_mbarrier(&c->job.a, c->mbar);
      mbar_issued(&c->job.a, c->mbar);
      job_start(&c->job, c->rows * c->row_bytes, c->rows);
    }
  }
  return STEP_next;
}

static enum step exec_load(struct warp *w, const struct insn *I, uint32_t lanes) {
  return tensor_load(w, I, lanes, NULL);
}
static enum step exec_load_multicast(struct warp *w, const struct insn *I, uint32_t lanes) {
  return tensor_load(w, I, lanes, &I->opd[3]);
}

/* The reduction's element type, from the map's. */
static enum mod element_type(unsigned type) {
  static const enum mod types[TM_16u4_align8] = {MOD_u8,  MOD_u16, MOD_u32, MOD_s32, MOD_u64,
                                                 MOD_s64, MOD_f16, MOD_f32, MOD_f64, MOD_bf16,
                                                 MOD_f32, MOD_f32, MOD_f32};
  return types[type];
}

static enum step tensor_store(struct warp *w, const struct insn *I, uint32_t lanes, enum mod op) {
  FOR_LANES(lane, lanes) {
    struct tma_copy proto = {0};
    uint64_t from;
    struct access a = access_of(w, I, lane);
    if (!tensor_operand(w, I, &I->opd[0], lane, &proto) ||
        !shared_operand(w, I, &I->opd[1], lane, SPACE_shared, &from) ||
        !aligned_box(w, I, lane, from))
      return STEP_fault;
    for (unsigned d = 0; d < proto.map.rank; d++)
      if (proto.start[d] < 0 &&
          fault(&a, CHECK_bounds, "negative-coordinate",
                "coordinate %u of a tensor store is %d, must not be negative", d, proto.start[d]))
        return STEP_fault;
    struct tma_copy *c = tma_new(w, I, lane);
    struct job job = c->job;
    *c = proto;
    c->job = job;
    c->job.read = store_read;
    c->job.write = store_write;
    c->job.deferred_write = true;
    c->shared = from;
    c->op = op;
    c->type = element_type(c->map.type);
    c->job.thread = bulk_thread(w, lane);
    c->job.group = bulk_enter(c->job.thread, &c->job.a);
    order_issue_bulk_store(&c->job.a, c->job.group + 1);
    job_start(&c->job, c->rows * c->row_bytes, c->rows);
  }
  return STEP_next;
}

static enum step exec_store(struct warp *w, const struct insn *I, uint32_t lanes) {
  return tensor_store(w, I, lanes, MOD_none);
}
static enum step exec_reduce(struct warp *w, const struct insn *I, uint32_t lanes) {
  return tensor_store(w, I, lanes, (enum mod)I->mod[1]);
}

static enum step exec_prefetch(struct warp *w, const struct insn *I, uint32_t lanes) {
  FOR_LANES(lane, lanes) { /* brings nothing anywhere, but its operands must be good */
    struct tma_copy c = {0};
    if (!tensor_operand(w, I, &I->opd[0], lane, &c))
      return STEP_fault;
  }
  return STEP_next;
}

#define DEFINITION .tested = "definition"
#define DIM        "{.1d|.2d|.3d|.4d|.5d}"
#define LOAD                                                                                       \
  "cp.async.bulk.tensor" DIM "{.shared::cluster|.shared::cta}.global[.tile]"                       \
  ".mbarrier::complete_tx::bytes"
#define ROWS(flag, group)                                                                          \
  {.pattern = LOAD group, .operands = "m t m", .exec = exec_load, .flags = (flag), DEFINITION},    \
      {.pattern = LOAD group ".L2::cache_hint",                                                    \
       .operands = "m t m r64",                                                                    \
       .exec = exec_load,                                                                          \
       .flags = (flag),                                                                            \
       DEFINITION},                                                                                \
      {.pattern = LOAD ".multicast::cluster" group,                                                \
       .operands = "m t m r16",                                                                    \
       .exec = exec_load_multicast,                                                                \
       .flags = (flag),                                                                            \
       DEFINITION},                                                                                \
  {                                                                                                \
    .pattern = LOAD ".multicast::cluster" group ".L2::cache_hint", .operands = "m t m r16 r64",    \
    .exec = exec_load_multicast, .flags = (flag), DEFINITION                                       \
  }
#define REDUCE                                                                                     \
  "cp.reduce.async.bulk.tensor" DIM ".global.shared::cta"                                          \
  "{.add|.min|.max|.inc|.dec|.and|.or|.xor}[.tile].bulk_group"

const struct form forms_tma[] = {
    ROWS(0, ""),
    ROWS(FORM_sm100, ".cta_group::1"),
    {.pattern = "cp.async.bulk.tensor" DIM ".global.shared::cta[.tile].bulk_group",
     .operands = "t m",
     .exec = exec_store,
     DEFINITION},
    {.pattern = "cp.async.bulk.tensor" DIM ".global.shared::cta[.tile].bulk_group.L2::cache_hint",
     .operands = "t m r64",
     .exec = exec_store,
     DEFINITION},
    {.pattern = REDUCE, .operands = "t m", .exec = exec_reduce, DEFINITION},
    {.pattern = REDUCE ".L2::cache_hint", .operands = "t m r64", .exec = exec_reduce, DEFINITION},
    {.pattern = "cp.async.bulk.prefetch.tensor" DIM ".L2.global[.tile]",
     .operands = "t",
     .exec = exec_prefetch,
     DEFINITION},
    {.pattern = "cp.async.bulk.prefetch.tensor" DIM ".L2.global[.tile].L2::cache_hint",
     .operands = "t r64",
     .exec = exec_prefetch,
     DEFINITION},
    {.pattern = NULL},
};
