/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulator's copy engines, run on the machine: tensor copies (placement, swizzle,
 * bounds), bulk copies and their groups, st.async.  Expected bytes are computed here from
 * the definitions.
 */
#include "emu_units.h"
#include "emulator/units/tensormap.h"
#include "harness/random.h"

/* ---- tensor loads ----------------------------------------------------------------- */

/* Loads one box to shared memory and writes the shared memory out as it lies.
 * Parameters: map, out, c0, c1, c2, bytes of the box. */
#define LOAD_KERNEL(dim, coords)                                                                   \
  PTX_HEAD ".visible .entry k(.param .align 128 .b8 map[128], .param .u64 out, .param .u32 c0,\n"  \
           " .param .u32 c1, .param .u32 c2, .param .u32 bytes)\n{\n"                              \
           " .shared .align 1024 .b8 box[16384];\n .shared .align 8 .b64 bar;\n"                   \
           " .reg .b32 %r<12>; .reg .b64 %rd<6>; .reg .pred %p<3>;\n"                              \
           " mov.u32 %r0, bar; mov.u32 %r1, box;\n"                                                \
           " ld.param.u32 %r2, [c0]; ld.param.u32 %r3, [c1]; ld.param.u32 %r4, [c2];\n"            \
           " ld.param.u32 %r5, [bytes]; ld.param.u64 %rd0, [out];\n"                               \
           " mbarrier.init.shared::cta.b64 [%r0], 1;\n"                                            \
           " fence.mbarrier_init.release.cluster;\n"                                               \
           " mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r0], %r5;\n"                           \
           " cp.async.bulk.tensor." dim                                                            \
           ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [map, " coords        \
           "], [%r0];\n"                                                                           \
           "wait:\n mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r0], 0;\n @!%p0 bra wait;\n"   \
           " mov.u32 %r6, 0;\n"                                                                    \
           "loop:\n add.u32 %r7, %r1, %r6; ld.shared.b32 %r8, [%r7];\n"                            \
           " cvt.u64.u32 %rd1, %r6; add.u64 %rd2, %rd0, %rd1; st.global.b32 [%rd2], %r8;\n"        \
           " add.u32 %r6, %r6, 4; setp.lt.u32 %p1, %r6, %r5; @%p1 bra loop;\n ret;\n}\n"

struct load_params {
  _Alignas(128) uint8_t map[128];
  uint64_t out;
  int32_t c[3];
  uint32_t bytes;
};

/* Width 64, height 40, depth 3, of bytes or 4-byte words; checks every byte of the box. */
static void load_and_compare(unsigned type, unsigned es, unsigned swizzle, uint32_t box0,
                             uint32_t box1, const int32_t c[3], bool nan_fill, unsigned rank,
                             uint32_t step1) {
  enum { W = 256, H = 40, D = 3 }; /* bytes, rows, planes */
  static uint8_t source[D * H * W];
  struct bwt_random r;
  bwt_random_seed(&r, bwt_run_seed());
  bwt_random_bytes(&r, source, sizeof source);
  uint64_t in = engine_memory(sizeof source, source), out = engine_memory(16384, NULL);
  struct load_params p = {.out = out, .c = {c[0], c[1], c[2]}};
  uint64_t dim[3] = {W / es, H, D}, stride[2] = {W, W * H};
  uint32_t box[3] = {box0, box1, 2}, step[3] = {1, step1, 1};
  char why[256] = "";
  ck_assert_msg(tensormap_encode(p.map, type, rank, in, dim, stride, box, step, 0, swizzle, 0,
                                 nan_fill, why, sizeof why) == 0,
                "%s", why);
  uint32_t rows = (box1 + step1 - 1) / step1, planes = rank == 3 ? 2 : 1;
  p.bytes = box0 * es * rows * planes;
  struct run run = {.ptx = rank == 3 ? LOAD_KERNEL("3d", "{%r2,%r3,%r4}")
                                     : LOAD_KERNEL("2d", "{%r2,%r3}"),
                    .params = &p,
                    .params_size = 128 + 8 + 16};
  ck_assert_int_eq(engine_run(&run), GRID_complete);
  const uint8_t *got = engine_data(out);
  unsigned mask = swizzle == TM_swizzle_128 ? 7 : swizzle == TM_swizzle_64 ? 3 : swizzle ? 1 : 0;
  for (uint32_t z = 0; z < planes; z++)
    for (uint32_t y = 0; y < rows; y++)
      for (uint32_t x = 0; x < box0 * es; x++) {
        uint32_t at = (z * rows + y) * box0 * es + x;
        uint32_t chunk = at / 16 % 8 ^ (at / 128 & mask);
        at = at / 128 * 128 + chunk * 16 + at % 16;
        int64_t sx = (int64_t)c[0] * es + x, sy = (int64_t)c[1] + (int64_t)y * step1;
        int64_t sz = rank == 3 ? (int64_t)c[2] + z : 0;
        bool inside = sx >= 0 && sx < W && sy >= 0 && sy < H && sz >= 0 && sz < D;
        uint8_t want = inside     ? source[(sz * H + sy) * W + sx]
                       : nan_fill ? (x % 2 ? 0x7f : 0xf7) /* as an H200 fills */
                                  : 0;
        BWT_REQUIRE(got[at] == want, "plane %u row %u byte %u is 0x%02x, not 0x%02x", z, y, x,
                    got[at], want);
      }
}

static const struct {
  unsigned type, es, swizzle;
  uint32_t box0, box1;
  int32_t c[3];
  bool nan_fill;
  unsigned rank;
  uint32_t step1;
} loads[] = {
    {TM_uint8, 1, TM_swizzle_128, 128, 16, {0, 0, 0}, false, 2, 1},
    {TM_uint8, 1, TM_swizzle_128, 128, 32, {64, 20, 0}, false, 2, 1},  /* past the end */
    {TM_uint8, 1, TM_swizzle_128, 128, 16, {-32, -5, 0}, false, 2, 1}, /* before the start */
    {TM_uint8, 1, TM_swizzle_64, 64, 16, {192, 8, 1}, false, 3, 1},
    {TM_uint8, 1, TM_swizzle_32, 32, 16, {240, 30, 2}, false, 3, 1},
    {TM_int32, 4, TM_swizzle_none, 16, 8, {-4, 36, -1}, false, 3, 1},
    {TM_float32, 4, TM_swizzle_none, 32, 8, {48, 36, 2}, true, 3, 1},
    {TM_float16, 2, TM_swizzle_128, 64, 8, {104, -2, 0}, true, 2, 1},
    {TM_uint8, 1, TM_swizzle_128, 128, 8, {1008, 1000, 0}, false, 2, 1}, /* wholly outside */
    {TM_uint8, 1, TM_swizzle_128, 128, 16, {0, 30, 0}, false, 2, 3},     /* every third row */
};

START_TEST(tensor_load) {
  engine_start(bwt_run_seed() + (uint64_t)_i, "all");
  load_and_compare(loads[_i].type, loads[_i].es, loads[_i].swizzle, loads[_i].box0, loads[_i].box1,
                   loads[_i].c, loads[_i].nan_fill, loads[_i].rank, loads[_i].step1);
}
END_TEST

/* ---- tensor store ------------------------------------------------------------------- */

static const char store_kernel[] = PTX_HEAD
    ".visible .entry k(.param .align 128 .b8 map[128])\n{\n"
    " .shared .align 1024 .b8 box[1024];\n .reg .b32 %r<6>; .reg .pred %p<2>;\n"
    " mov.u32 %r0, box; mov.u32 %r1, 0;\n"
    "fill: add.u32 %r2, %r0, %r1; st.shared.b32 [%r2], %r1;\n"
    " add.u32 %r1, %r1, 4; setp.lt.u32 %p0, %r1, 1024; @%p0 bra fill;\n"
    " fence.proxy.async.shared::cta;\n"
    " mov.u32 %r3, 4; mov.u32 %r4, 6;\n"
    " cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [map, {%r3,%r4}], [%r0];\n"
    " cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;\n ret;\n}\n";

/* 8 columns from 4 of 10 exist partly, as do 4 rows from 6 of 8. */
START_TEST(tensor_store) {
  engine_start(bwt_run_seed(), "all");
  enum { W = 12, H = 8 };
  uint64_t to = engine_memory(W * H * 4, NULL);
  memset(engine_data(to), 0xee, W * H * 4);
  struct load_params p = {.out = 0};
  uint64_t dim[2] = {10, H}, stride[1] = {W * 4};
  uint32_t box[2] = {8, 4}, step[2] = {1, 1};
  char why[256] = "";
  ck_assert_msg(tensormap_encode(p.map, TM_int32, 2, to, dim, stride, box, step, 0, TM_swizzle_32,
                                 0, 0, why, sizeof why) == 0,
                "%s", why);
  struct run run = {.ptx = store_kernel, .params = &p, .params_size = 128};
  ck_assert_int_eq(engine_run(&run), GRID_complete);
  const uint32_t *got = engine_data(to);
  for (uint32_t y = 0; y < H; y++)
    for (uint32_t x = 0; x < W; x++) {
      uint32_t want = 0xeeeeeeee;
      if (x >= 4 && x < 10 && y >= 6) {
        uint32_t at = (y - 6) * 32 + (x - 4) * 4;
        want = at ^ (at / 128 & 1) << 4;
      }
      BWT_REQUIRE(got[y * W + x] == want, "row %u column %u is 0x%x, not 0x%x", y, x,
                  got[y * W + x], want);
    }
}
END_TEST

/* ---- bulk copies ----------------------------------------------------------------------- */

/* Copies 1024 bytes in and back out; with wait.read the source is then overwritten. */
static const char bulk_kernel[] = PTX_HEAD
    ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
    " .shared .align 128 .b8 buf[1024];\n .shared .align 8 .b64 bar;\n"
    " .reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .pred %p<2>;\n"
    " mov.u32 %r0, bar; mov.u32 %r1, buf; mov.u32 %r2, 1024;\n"
    " ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out];\n"
    " mbarrier.init.shared::cta.b64 [%r0], 1;\n fence.mbarrier_init.release.cluster;\n"
    " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0], %r2, "
    "[%r0];\n"
    " mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r0], 1024;\n"
    "wait: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r0], 0; @!%p0 bra wait;\n"
    " cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r2;\n"
    " cp.async.bulk.commit_group;\n"
    " cp.async.bulk.wait_group.read 0;\n"
    " st.shared.b32 [%r1], 0;\n ret;\n}\n";

START_TEST(bulk_round_trip) {
  engine_start(bwt_run_seed() + (uint64_t)_i, "all");
  uint8_t bytes[1024];
  struct bwt_random r;
  bwt_random_seed(&r, 7);
  bwt_random_bytes(&r, bytes, sizeof bytes);
  uint64_t p[2] = {engine_memory(1024, bytes), engine_memory(1024, NULL)};
  struct run run = {.ptx = bulk_kernel, .params = p, .params_size = 16};
  ck_assert_int_eq(engine_run(&run), GRID_complete);
  ck_assert_mem_eq(engine_data(p[1]), bytes, 1024);
}
END_TEST

/* The same without the wait: the read may or may not see the overwritten word. */
static const char racy_kernel[] =
    PTX_HEAD ".visible .entry k(.param .u64 out)\n{\n"
             " .shared .align 128 .b8 buf[16];\n .reg .b32 %r<6>; .reg .b64 %rd<4>;\n"
             " mov.u32 %r1, buf; ld.param.u64 %rd1, [out];\n"
             " mov.u32 %r2, 0; mov.u32 %r3, 1;\n"
             " st.shared.v4.b32 [%r1], {%r3,%r3,%r3,%r3};\n fence.proxy.async.shared::cta;\n"
             " cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 16;\n"
             " cp.async.bulk.commit_group;\n"
             " st.shared.b32 [%r1], 2;\n"
             " cp.async.bulk.wait_group 0;\n ret;\n}\n";

static uint64_t racy_outcome(void) {
  uint64_t out = engine_memory(16, NULL);
  struct run run = {.ptx = racy_kernel, .params = &out, .params_size = 8};
  ck_assert_int_eq(engine_run(&run), GRID_complete);
  return *(uint32_t *)engine_data(out);
}

START_TEST(bulk_read_races) {
  both_outcomes(racy_outcome, 1, 2);
}
END_TEST

/* ---- st.async ---------------------------------------------------------------------------- */

/* Rank 1 sends 16 bytes to rank 0, which waits by mbarrier or, racy, not at all. */
#define ST_ASYNC(wait)                                                                             \
  PTX_HEAD ".visible .entry k(.param .u64 out)\n{\n"                                               \
           " .shared .align 16 .b8 buf[16];\n .shared .align 8 .b64 bar;\n"                        \
           " .reg .b32 %r<8>; .reg .b64 %rd<2>; .reg .pred %p<3>;\n"                               \
           " mov.u32 %r0, %cluster_ctarank; setp.ne.u32 %p0, %r0, 0;\n"                            \
           " mov.u32 %r1, bar; mov.u32 %r2, buf; mov.u32 %r3, 0;\n"                                \
           " st.shared.v4.b32 [%r2], {%r3,%r3,%r3,%r3};\n"                                         \
           " mbarrier.init.shared::cta.b64 [%r1], 1;\n fence.mbarrier_init.release.cluster;\n"     \
           " @!%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 16;\n"                      \
           " barrier.cluster.arrive; barrier.cluster.wait;\n"                                      \
           " @!%p0 bra receive;\n"                                                                 \
           " mapa.shared::cluster.u32 %r4, %r1, 0; mapa.shared::cluster.u32 %r5, %r2, 0;\n"        \
           " mov.u32 %r6, 5;\n"                                                                    \
           " st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r5], "                 \
           "{%r6,%r6,%r6,%r6}, [%r4];\n"                                                           \
           " bra done;\n"                                                                          \
           "receive:\n" wait " ld.shared.b32 %r7, [%r2+12]; ld.param.u64 %rd0, [out];\n"           \
           " st.global.b32 [%rd0], %r7;\n"                                                         \
           "last: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r1], 0;"         \
           " @!%p1 bra last;\n"                                                                    \
           "done: barrier.cluster.arrive; barrier.cluster.wait; ret;\n}\n"

static uint64_t st_async(const char *ptx) {
  uint64_t out = engine_memory(16, NULL);
  struct run run = {.ptx = ptx, .grid = 2, .cluster = 2, .params = &out, .params_size = 8};
  ck_assert_int_eq(engine_run(&run), GRID_complete);
  return *(uint32_t *)engine_data(out);
}

static uint64_t st_async_racy(void) {
  return st_async(ST_ASYNC(""));
}

START_TEST(st_async_arrives) {
  engine_start(bwt_run_seed() + (uint64_t)_i, "all");
  BWT_SAME(
      st_async(ST_ASYNC("w: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r1],"
                        " 0; @!%p1 bra w;\n")),
      5);
}
END_TEST

START_TEST(st_async_races) {
  both_outcomes(st_async_racy, 0, 5);
}
END_TEST

/* ---- errors -------------------------------------------------------------------------------- */

START_TEST(misaligned_bulk) {
  engine_start(1, "all");
  static const char ptx[] =
      PTX_HEAD ".visible .entry k(.param .u64 out)\n{\n .shared .align 128 .b8 buf[32];\n"
               " .reg .b32 %r<3>; .reg .b64 %rd<2>;\n mov.u32 %r0, buf; ld.param.u64 %rd0, [out];\n"
               " cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r0+8], 16;\n ret;\n}\n";
  uint64_t out = engine_memory(64, NULL);
  struct run run = {.ptx = ptx, .params = &out, .params_size = 8};
  expect_report(&run, "misaligned-bulk", "cp.async.bulk.global");
}
END_TEST

START_TEST(not_a_tensor_map) {
  engine_start(1, "all");
  static struct load_params p;
  p.out = engine_memory(64, NULL);
  static const char ptx[] = LOAD_KERNEL("2d", "{%r2,%r3}");
  struct run run = {.ptx = ptx, .params = &p, .params_size = 128 + 8 + 16};
  expect_report(&run, "bad-tensormap", "cp.async.bulk.tensor");
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_LOOP("tensor", tensor_load, 0, (int)BWT_COUNT(loads), 30),
      BWT_TEST("tensor", tensor_store, 30),
      BWT_LOOP("bulk", bulk_round_trip, 0, 5, 30),
      BWT_TEST("bulk", bulk_read_races, 60),
      BWT_LOOP("st.async", st_async_arrives, 0, 5, 30),
      BWT_TEST("st.async", st_async_races, 60),
      BWT_TEST("errors", misaligned_bulk, 30),
      BWT_TEST("errors", not_a_tensor_map, 30),
  };
  return bwt_suite_main("emu_units_copy", tests, BWT_COUNT(tests));
}
