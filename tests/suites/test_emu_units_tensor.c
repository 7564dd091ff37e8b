/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulator's tensor-core instructions, run on the machine.  Operands are small whole
 * numbers, so that every sum is exact and the expected results need no model of rounding.
 */
#include "emu_units.h"
#include "harness/random.h"

#include <math.h>

/* ---- tcgen05: block-scaled mma from shared memory, scales by tcgen05.cp ---------------- */

enum { MMA_M = 128, MMA_N = 32, MMA_K = 32 };
/* Shared image: A 4096, B 1024 (core matrices, halves 128 apart, groups 256), scales of A
 * and B 512 each. */
enum { IMAGE = 4096 + 1024 + 512 + 512 };

#define MMA_HEAD                                                                                   \
  PTX_HEAD ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 idesc)\n{\n"            \
           " .shared .align 1024 .b8 img[6144];\n .shared .align 8 .b64 bar;\n"                    \
           " .shared .align 4 .b32 base;\n"                                                        \
           " .reg .b32 %r<24>; .reg .b32 %d<32>; .reg .b64 %rd<12>; .reg .pred %p<6>;\n"           \
           " mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out];\n"            \
           " ld.param.u32 %r1, [idesc]; mov.u32 %r2, img; mov.u32 %r3, bar; mov.u32 %r4, base;\n"  \
           " setp.ne.u32 %p0, %r0, 0; setp.ge.u32 %p1, %r0, 32;\n"                                 \
           " @!%p0 mbarrier.init.shared::cta.b64 [%r3], 1;\n"                                      \
           " @!%p0 fence.mbarrier_init.release.cluster;\n"                                         \
           " shl.b32 %r5, %r0, 2;\n"                                                               \
           "copy: cvt.u64.u32 %rd2, %r5; add.u64 %rd3, %rd0, %rd2; ld.global.b32 %r6, [%rd3];\n"   \
           " add.u32 %r7, %r2, %r5; st.shared.b32 [%r7], %r6; add.u32 %r5, %r5, 512;\n"            \
           " setp.lt.u32 %p2, %r5, 6144; @%p2 bra copy;\n"                                         \
           " fence.proxy.async.shared::cta;\n"                                                     \
           " @%p1 bra joined;\n"                                                                   \
           " tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4], 64;\n"                 \
           " tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"                         \
           "joined: tcgen05.fence::before_thread_sync; bar.sync 0;\n"                              \
           " tcgen05.fence::after_thread_sync; ld.shared.b32 %r8, [%r4];\n"                        \
           " shr.u32 %r9, %r0, 5; shl.b32 %r9, %r9, 21; add.u32 %r10, %r8, %r9;\n"
/* %rd4..%rd7: descriptors; %r11, %r12: scale columns. */
#define MMA_ISSUE                                                                                  \
  " @%p0 bra issued;\n"                                                                            \
  " and.b32 %r13, %r2, 0x3ffff; shr.u32 %r13, %r13, 4; cvt.u64.u32 %rd4, %r13;\n"                  \
  " or.b64 %rd4, %rd4, 0x0000401000080000;\n"                                                      \
  " add.u64 %rd5, %rd4, 256; add.u64 %rd6, %rd4, 320; add.u64 %rd7, %rd4, 352;\n"                  \
  " sub.u64 %rd6, %rd6, 0x800000000; sub.u64 %rd7, %rd7, 0x800000000;\n"                           \
  " add.u32 %r11, %r8, 32; add.u32 %r12, %r8, 36;\n"                                               \
  " tcgen05.cp.cta_group::1.32x128b.warpx4 [%r11], %rd6;\n"                                        \
  " tcgen05.cp.cta_group::1.32x128b.warpx4 [%r12], %rd7;\n"                                        \
  " tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r8], %rd4, %rd5, %r1, [%r11], [%r12], "  \
  "0;\n"                                                                                           \
  " tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r8], %rd4, %rd5, %r1, [%r11], [%r12], "  \
  "1;\n"                                                                                           \
  " tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];\n"                \
  "issued:\n"
#define MMA_WAIT                                                                                   \
  "w: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0; @!%p3 bra w;\n"                      \
  " tcgen05.fence::after_thread_sync;\n"
#define MMA_READ                                                                                   \
  " tcgen05.ld.sync.aligned.32x32b.x32.b32 {%d0,%d1,%d2,%d3,%d4,%d5,%d6,%d7,%d8,%d9,%d10,%d11,"    \
  "%d12,%d13,%d14,%d15,%d16,%d17,%d18,%d19,%d20,%d21,%d22,%d23,%d24,%d25,%d26,%d27,%d28,%d29,"     \
  "%d30,%d31}, [%r10];\n tcgen05.wait::ld.sync.aligned;\n"
#define ST4(at, a, b, c, d)                                                                        \
  " st.global.v4.b32 [%rd9+" #at "], {%d" #a ",%d" #b ",%d" #c ",%d" #d "};\n"
#define MMA_STORE                                                                                  \
  " mul.wide.u32 %rd8, %r0, 128; add.u64 %rd9, %rd1, %rd8;\n" ST4(0, 0, 1, 2, 3)                   \
      ST4(16, 4, 5, 6, 7) ST4(32, 8, 9, 10, 11) ST4(48, 12, 13, 14, 15) ST4(64, 16, 17, 18, 19)    \
          ST4(80, 20, 21, 22, 23) ST4(96, 24, 25, 26, 27) ST4(112, 28, 29, 30, 31)
#define MMA_FREE                                                                                   \
  " tcgen05.fence::before_thread_sync; bar.sync 0;\n @%p1 bra end;\n"                              \
  " tcgen05.fence::after_thread_sync;\n"                                                           \
  " tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 64;\n"
#define MMA_END "end: ret;\n}\n"

struct mma_params {
  uint64_t in, out;
  uint32_t idesc, pad;
};

/* e4m3 codes of -2, -1, 0, 1, 2, 3 */
static const uint8_t codes[6] = {0xc0, 0xb8, 0x00, 0x38, 0x40, 0x44};

static uint32_t core_offset(uint32_t row, uint32_t k) {
  return row / 8 * 256 + k / 16 * 128 + row % 8 * 16 + k % 16;
}

static void mma_case(unsigned sfa_id, unsigned sfb_id) {
  static uint8_t image[IMAGE];
  static int a[MMA_M][MMA_K], b[MMA_N][MMA_K], ea[MMA_M], eb[MMA_N];
  struct bwt_random r;
  bwt_random_seed(&r, bwt_mix(bwt_run_seed(), sfa_id * 4 + sfb_id));
  bwt_random_bytes(&r, image, sizeof image); /* the other bytes of the scale words too */
  for (unsigned m = 0; m < MMA_M; m++)
    for (unsigned k = 0; k < MMA_K; k++) {
      a[m][k] = (int)bwt_random_below(&r, 6) - 2;
      image[core_offset(m, k)] = codes[a[m][k] + 2];
    }
  for (unsigned n = 0; n < MMA_N; n++)
    for (unsigned k = 0; k < MMA_K; k++) {
      b[n][k] = (int)bwt_random_below(&r, 6) - 2;
      image[4096 + core_offset(n, k)] = codes[b[n][k] + 2];
    }
  for (unsigned m = 0; m < MMA_M; m++) { /* row i of the block: words of rows i, i+32, ... */
    ea[m] = (int)bwt_random_below(&r, 40) - 20;
    image[5120 + m % 32 * 16 + m / 32 * 4 + sfa_id] = (uint8_t)(127 + ea[m]);
  }
  for (unsigned n = 0; n < MMA_N; n++) {
    eb[n] = (int)bwt_random_below(&r, 40) - 20;
    image[5632 + n % 32 * 16 + n / 32 * 4 + sfb_id] = (uint8_t)(127 + eb[n]);
  }
  struct mma_params p = {.in = engine_memory(IMAGE, image),
                         .out = engine_memory(MMA_M * MMA_N * 4, NULL),
                         .idesc =
                             sfb_id << 4 | MMA_N / 8 << 17 | 1u << 23 | 8u << 24 | sfa_id << 29};
  struct run run = {.ptx = MMA_HEAD MMA_ISSUE MMA_WAIT MMA_READ MMA_STORE MMA_FREE MMA_END,
                    .block = 128,
                    .params = &p,
                    .params_size = 20};
  ck_assert_int_eq(engine_run(&run), GRID_complete);
  const float *d = engine_data(p.out);
  for (unsigned m = 0; m < MMA_M; m++)
    for (unsigned n = 0; n < MMA_N; n++) {
      int sum = 0;
      for (unsigned k = 0; k < MMA_K; k++)
        sum += a[m][k] * b[n][k];
      float want = ldexpf((float)(2 * sum), ea[m] + eb[n]); /* the second mma adds again */
      BWT_REQUIRE(d[m * MMA_N + n] == want, "row %u column %u is %g, not %g", m, n,
                  (double)d[m * MMA_N + n], (double)want);
    }
}

START_TEST(block_scaled_mma) {
  engine_start(bwt_run_seed() + (uint64_t)_i, "all");
  mma_case((unsigned)_i % 4, (unsigned)(_i + _i / 4) % 4);
}
END_TEST

/* Reading without waiting for the commit: what alloc left, one product sum, or both. */
static uint64_t early_read(void) {
  static uint8_t image[IMAGE];
  for (unsigned i = 0; i < 5120; i++)
    image[i] = 0x38; /* 1 */
  memset(image + 5120, 127, 1024);
  struct mma_params p = {.in = engine_memory(IMAGE, image),
                         .out = engine_memory(MMA_M * MMA_N * 4, NULL),
                         .idesc = MMA_N / 8 << 17 | 1u << 23 | 8u << 24};
  struct run run = {.ptx = MMA_HEAD MMA_ISSUE MMA_READ MMA_WAIT MMA_STORE MMA_FREE MMA_END,
                    .block = 128,
                    .params = &p,
                    .params_size = 20};
  ck_assert_int_eq(engine_run(&run), GRID_complete);
  return ((const float *)engine_data(p.out))[0] == 64.0f; /* both sums of 32 */
}

START_TEST(mma_then_ld_races) {
  both_outcomes(early_read, 0, 1);
}
END_TEST

START_TEST(leak_is_reported) {
  engine_start(1, "all");
  static uint8_t image[IMAGE];
  memset(image, 127, sizeof image);
  memset(image, 0x38, 5120);
  struct mma_params p = {.in = engine_memory(IMAGE, image),
                         .out = engine_memory(MMA_M * MMA_N * 4, NULL),
                         .idesc = MMA_N / 8 << 17 | 1u << 23 | 8u << 24};
  struct run run = {.ptx = MMA_HEAD MMA_ISSUE MMA_WAIT MMA_READ MMA_STORE MMA_END,
                    .block = 128,
                    .params = &p,
                    .params_size = 20};
  ck_assert_int_eq(engine_run(&run), GRID_failed);
  const struct report_record *leak = report_at(machine_get(), 0);
  ck_assert_str_eq(leak->rule, "tmem-leak");
  ck_assert_uint_eq(leak->line, line_of(run.ptx, "tcgen05.alloc")); /* of what is leaked */
  ck_assert_ptr_nonnull(strstr(leak->text, "CTA (0,0,0)"));
}
END_TEST

START_TEST(bad_instruction_descriptor) {
  engine_start(1, "all");
  static uint8_t image[IMAGE];
  struct mma_params p = {.in = engine_memory(IMAGE, image),
                         .out = engine_memory(MMA_M * MMA_N * 4, NULL),
                         .idesc = MMA_N / 8 << 17 | 1u << 23 | 4u << 24}; /* M = 64 */
  struct run run = {.ptx = MMA_HEAD MMA_ISSUE MMA_WAIT MMA_READ MMA_STORE MMA_FREE MMA_END,
                    .block = 128,
                    .params = &p,
                    .params_size = 20};
  expect_report(&run, "instruction-descriptor", "tcgen05.mma");
}
END_TEST

/* ---- tcgen05.ld and st shapes -------------------------------------------------------------- */

/* One warp writes lane*8 + column with 32x32b.x8, reads back 4 registers by `shape`. */
#define SHAPE_KERNEL(shape)                                                                        \
  PTX_HEAD                                                                                         \
  ".visible .entry k(.param .u64 out)\n{\n .shared .align 4 .b32 base;\n"                          \
  " .reg .b32 %r<20>; .reg .b64 %rd<4>;\n"                                                         \
  " mov.u32 %r0, %tid.x; mov.u32 %r1, base; ld.param.u64 %rd0, [out];\n"                           \
  " tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;\n"                          \
  " tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"                                  \
  " bar.sync 0; ld.shared.b32 %r2, [%r1]; shl.b32 %r3, %r0, 3;\n"                                  \
  " add.u32 %r4, %r3, 1; add.u32 %r5, %r3, 2; add.u32 %r6, %r3, 3; add.u32 %r7, %r3, 4;\n"         \
  " add.u32 %r8, %r3, 5; add.u32 %r9, %r3, 6; add.u32 %r10, %r3, 7;\n"                             \
  " tcgen05.st.sync.aligned.32x32b.x8.b32 [%r2], {%r3,%r4,%r5,%r6,%r7,%r8,%r9,%r10};\n"            \
  " tcgen05.wait::st.sync.aligned;\n"                                                              \
  " tcgen05.ld.sync.aligned." shape ".b32 {%r11,%r12,%r13,%r14}, [%r2];\n"                         \
  " tcgen05.wait::ld.sync.aligned;\n"                                                              \
  " mul.wide.u32 %rd1, %r0, 16; add.u64 %rd2, %rd0, %rd1;\n"                                       \
  " st.global.v4.b32 [%rd2], {%r11,%r12,%r13,%r14};\n"                                             \
  " tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;\n ret;\n}\n"

static const struct {
  const char *ptx;
  /* lane and column of register j of thread t, as coefficient tables over the bits of t
   * (5) and j (2): figures of the ISA read as bit permutations */
  uint8_t lane[7], column[7];
} shapes[] = {
    {SHAPE_KERNEL("32x32b.x4"), {1, 2, 4, 8, 16, 0, 0}, {0, 0, 0, 0, 0, 1, 2}},
    {SHAPE_KERNEL("16x64b.x4"), {8, 0, 1, 2, 4, 0, 0}, {0, 1, 0, 0, 0, 2, 4}},
    {SHAPE_KERNEL("16x128b.x2"), {0, 0, 1, 2, 4, 8, 0}, {1, 2, 0, 0, 0, 0, 4}},
    {SHAPE_KERNEL("16x256b.x1"), {0, 0, 1, 2, 4, 0, 8}, {2, 4, 0, 0, 0, 1, 0}},
};

START_TEST(register_shapes) {
  engine_start(bwt_run_seed(), "all");
  uint64_t out = engine_memory(32 * 16, NULL);
  struct run run = {.ptx = shapes[_i].ptx, .block = 32, .params = &out, .params_size = 8};
  ck_assert_int_eq(engine_run(&run), GRID_complete);
  const uint32_t *got = engine_data(out);
  for (uint32_t t = 0; t < 32; t++)
    for (uint32_t j = 0; j < 4; j++) {
      uint32_t lane = 0, column = 0, bits = t | j << 5;
      for (unsigned i = 0; i < 7; i++)
        if (bits >> i & 1) {
          lane += shapes[_i].lane[i];
          column += shapes[_i].column[i];
        }
      BWT_SAME(got[t * 4 + j], lane * 8 + column);
    }
}
END_TEST

/* ---- mma.sync ------------------------------------------------------------------ */

/* Each lane's fragments come from memory: 4 words of A, 2 of B, 4 of C. */
static const char mma_sync_kernel[] = PTX_HEAD
    ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
    " .reg .b32 %r<12>; .reg .f32 %f<8>; .reg .b64 %rd<8>;\n"
    " mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out];\n"
    " mul.wide.u32 %rd2, %r0, 48; add.u64 %rd3, %rd0, %rd2;\n"
    " ld.global.v4.b32 {%r1,%r2,%r3,%r4}, [%rd3]; ld.global.v4.f32 {%f0,%f1,%f2,%f3}, [%rd3+16];\n"
    " ld.global.v2.b32 {%r5,%r6}, [%rd3+32];\n"
    " mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f4,%f5,%f6,%f7}, {%r1,%r2,%r3,%r4},"
    " {%r5,%r6}, {%f0,%f1,%f2,%f3};\n"
    " mul.wide.u32 %rd4, %r0, 16; add.u64 %rd5, %rd1, %rd4;\n"
    " st.global.v4.f32 [%rd5], {%f4,%f5,%f6,%f7};\n ret;\n}\n";

static uint16_t bf16_of(int v) {
  float f = (float)v;
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return (uint16_t)(bits >> 16);
}

START_TEST(mma_sync_bf16) {
  engine_start(bwt_run_seed(), "all");
  int a[16][16], b[16][8], c[16][8];
  struct bwt_random r;
  bwt_random_seed(&r, bwt_run_seed());
  for (unsigned i = 0; i < 16; i++)
    for (unsigned j = 0; j < 16; j++)
      a[i][j] = (int)bwt_random_below(&r, 41) - 20;
  for (unsigned i = 0; i < 16; i++)
    for (unsigned j = 0; j < 8; j++) {
      b[i][j] = (int)bwt_random_below(&r, 41) - 20;
      c[i][j] = (int)bwt_random_below(&r, 2001) - 1000;
    }
  static uint16_t in[32 * 24];
  for (unsigned lane = 0; lane < 32; lane++) {
    unsigned g = lane / 4, q = lane % 4;
    uint16_t *words = in + (size_t)lane * 24;
    for (unsigned i = 0; i < 8; i++)
      words[i] = bf16_of(a[g + 8 * ((i >> 1) & 1)][2 * q + (i & 1) + 8 * (i >> 2)]);
    for (unsigned i = 0; i < 4; i++) {
      float f = (float)c[g + 8 * (i >> 1)][2 * q + (i & 1)];
      memcpy(words + 8 + 2 * i, &f, 4);
      words[16 + i] = bf16_of(b[2 * q + (i & 1) + 8 * (i >> 1)][g]);
    }
  }
  uint64_t p[2] = {engine_memory(sizeof in, in), engine_memory(512, NULL)};
  struct run run = {.ptx = mma_sync_kernel, .block = 32, .params = p, .params_size = 16};
  ck_assert_int_eq(engine_run(&run), GRID_complete);
  const float *d = engine_data(p[1]);
  for (unsigned lane = 0; lane < 32; lane++)
    for (unsigned i = 0; i < 4; i++) {
      unsigned row = lane / 4 + 8 * (i >> 1), column = 2 * (lane % 4) + (i & 1);
      int want = c[row][column];
      for (unsigned k = 0; k < 16; k++)
        want += a[row][k] * b[k][column];
      ck_assert_float_eq(d[lane * 4 + i], (float)want);
    }
}
END_TEST

/* ---- ldmatrix -------------------------------------------------------------------------------- */

#define LDMATRIX_KERNEL(trans)                                                                     \
  PTX_HEAD                                                                                         \
  ".visible .entry k(.param .u64 out)\n{\n .shared .align 16 .b8 m[512];\n"                        \
  " .reg .b32 %r<12>; .reg .b64 %rd<4>;\n mov.u32 %r0, %tid.x; mov.u32 %r1, m;\n"                  \
  " ld.param.u64 %rd0, [out]; shl.b32 %r2, %r0, 4; add.u32 %r2, %r1, %r2;\n"                       \
  " shl.b32 %r3, %r0, 3; add.u32 %r4, %r3, 1; shl.b32 %r4, %r4, 16; or.b32 %r5, %r3, %r4;\n"       \
  " add.u32 %r6, %r5, 0x20002; add.u32 %r7, %r6, 0x20002; add.u32 %r8, %r7, 0x20002;\n"            \
  " st.shared.v4.b32 [%r2], {%r5,%r6,%r7,%r8};\n bar.sync 0;\n"                                    \
  " ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%r5,%r6,%r7,%r8}, [%r2];\n"                 \
  " mul.wide.u32 %rd1, %r0, 16; add.u64 %rd2, %rd0, %rd1;\n"                                       \
  " st.global.v4.b32 [%rd2], {%r5,%r6,%r7,%r8};\n ret;\n}\n"

START_TEST(ldmatrix) {
  engine_start(bwt_run_seed(), "all");
  uint64_t out = engine_memory(512, NULL);
  struct run run = {.ptx = _i ? LDMATRIX_KERNEL(".trans") : LDMATRIX_KERNEL(""),
                    .block = 32,
                    .params = &out,
                    .params_size = 8};
  ck_assert_int_eq(engine_run(&run), GRID_complete);
  const uint16_t *got = engine_data(out);
  for (unsigned t = 0; t < 32; t++)
    for (unsigned i = 0; i < 4; i++)
      for (unsigned half = 0; half < 2; half++) {
        unsigned row = t / 4, column = 2 * (t % 4) + half;
        unsigned want = _i ? (8 * i + column) * 8 + row : (8 * i + row) * 8 + column;
        BWT_SAME(got[t * 8 + i * 2 + half], want);
      }
}
END_TEST

/* ---- wgmma ----------------------------------------------------------------------------------- */

/* D = A*B then D = A*B + D, m64n8k16; A 64 x 32 bytes and B 8 x 32 bytes in core matrices. */
static const char wgmma_kernel[] =
    ".version 9.0\n.target sm_90a\n.address_size 64\n"
    ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n .shared .align 1024 .b8 img[2560];\n"
    " .reg .b32 %r<12>; .reg .f32 %f<8>; .reg .b64 %rd<12>; .reg .pred %p<2>;\n"
    " mov.u32 %r0, %tid.x; mov.u32 %r2, img; ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out];\n"
    " shl.b32 %r5, %r0, 2;\n"
    "copy: cvt.u64.u32 %rd2, %r5; add.u64 %rd3, %rd0, %rd2; ld.global.b32 %r6, [%rd3];\n"
    " add.u32 %r7, %r2, %r5; st.shared.b32 [%r7], %r6; add.u32 %r5, %r5, 512;\n"
    " setp.lt.u32 %p0, %r5, 2560; @%p0 bra copy;\n"
    " fence.proxy.async.shared::cta; bar.sync 0;\n"
    " and.b32 %r8, %r2, 0x3ffff; shr.u32 %r8, %r8, 4; cvt.u64.u32 %rd4, %r8;\n"
    " or.b64 %rd4, %rd4, 0x0000001000080000; add.u64 %rd5, %rd4, 128;\n"
    " wgmma.fence.sync.aligned;\n"
    " wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3}, %rd4, %rd5, 0, 1, 1, "
    "0,"
    " 0;\n"
    " wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3}, %rd4, %rd5, 1, 1, 1, "
    "0,"
    " 0;\n"
    " wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;\n"
    " mul.wide.u32 %rd6, %r0, 16; add.u64 %rd7, %rd1, %rd6;\n"
    " st.global.v4.f32 [%rd7], {%f0,%f1,%f2,%f3};\n ret;\n}\n";

START_TEST(wgmma_bf16) {
  (void)setenv("EMU_ARCH", "sm_90", 1);
  engine_start(bwt_run_seed() + (uint64_t)_i, "all");
  static uint8_t image[2560];
  int a[64][16], b[8][16];
  struct bwt_random r;
  bwt_random_seed(&r, bwt_run_seed());
  for (unsigned i = 0; i < 72; i++)
    for (unsigned k = 0; k < 16; k++) {
      int v = (int)bwt_random_below(&r, 41) - 20;
      uint16_t code = bf16_of(v);
      *(i < 64 ? &a[i][k] : &b[i - 64][k]) = v;
      memcpy(image + (i < 64 ? core_offset(i, 2 * k) : 2048 + core_offset(i - 64, 2 * k)), &code,
             2);
    }
  uint64_t p[2] = {engine_memory(sizeof image, image), engine_memory(128 * 16, NULL)};
  struct run run = {.ptx = wgmma_kernel, .block = 128, .params = p, .params_size = 16};
  ck_assert_int_eq(engine_run(&run), GRID_complete);
  const float *d = engine_data(p[1]);
  for (unsigned t = 0; t < 128; t++)
    for (unsigned i = 0; i < 4; i++) {
      unsigned row = t / 32 * 16 + t % 32 / 4 + 8 * (i >> 1), column = 2 * (t % 4) + (i & 1);
      int want = 0;
      for (unsigned k = 0; k < 16; k++)
        want += 2 * a[row][k] * b[column][k];
      ck_assert_float_eq(d[t * 4 + i], (float)want);
    }
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_LOOP("tcgen05", block_scaled_mma, 0, 8, 60),
      BWT_TEST("tcgen05", mma_then_ld_races, 120),
      BWT_TEST("tcgen05", leak_is_reported, 60),
      BWT_TEST("tcgen05", bad_instruction_descriptor, 60),
      BWT_LOOP("tcgen05", register_shapes, 0, (int)BWT_COUNT(shapes), 30),
      BWT_LOOP("wgmma", wgmma_bf16, 0, 3, 30),
      BWT_TEST("mma.sync", mma_sync_bf16, 30),
      BWT_LOOP("matrix", ldmatrix, 0, 2, 30),
  };
  return bwt_suite_main("emu_units_tensor", tests, BWT_COUNT(tests));
}
