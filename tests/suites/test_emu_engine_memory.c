/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads, stores, atomics and cp.async of the emulated machine: every width and space,
 * extension to wider registers, definedness byte by byte, and the value each atomic
 * operation leaves and returns.
 */
#include "emu_engine.h"

#define ENTRY ".visible .entry k(.param .u64 a, .param .u64 b) {\n"
#define REGS                                                                                       \
  "  .reg .b16 %h<8>; .reg .b32 %r<24>; .reg .b64 %rd<24>; .reg .f32 %f<8>; .reg .b128 %q<4>;\n"   \
  "  .reg .pred %p<4>;\n"                                                                          \
  "  ld.param.u64 %rd1, [a];\n"                                                                    \
  "  ld.param.u64 %rd2, [b];\n"

static const char *kernel(const char *declarations, const char *body) {
  static char text[8192];
  (void)snprintf(text, sizeof text, "%s%s%s%s%s  ret;\n}\n", PTX_HEAD, declarations, ENTRY, REGS,
                 body);
  return text;
}

static const uint64_t *run_one(const char *ptx, uint64_t *a, const void *in, size_t size) {
  const uint64_t p[2] = {engine_memory(size, in), engine_memory(512, NULL)};
  if (a)
    *a = p[0];
  const struct run r = {.ptx = ptx, .params = p, .params_size = sizeof p};
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  return engine_data(p[1]);
}

/* ---- widths ------------------------------------------------------------------------------- */

START_TEST(extension) {
  (void)engine_start(1, "all");
  static const uint8_t in[32] = {0x80, 0xff, 0x34, 0x92, 0x78, 0x56, 0xbc, 0xfa,
                                 1,    2,    3,    4,    5,    6,    7,    8};
  static const struct {
    const char *type;
    uint64_t want;
  } t[] = {{"u8", 0x80},
           {"s8", 0xffffffffffffff80},
           {"b8", 0x80},
           {"u16", 0xff80},
           {"s16", 0xffffffffffffff80},
           {"u32", 0x9234ff80},
           {"s32", 0xffffffff9234ff80},
           {"u64", 0xfabc56789234ff80},
           {"b64", 0xfabc56789234ff80}};
  for (size_t i = 0; i < BWT_COUNT(t); i++) {
    static const char *const spaces[] = {".global", ""};
    for (size_t s = 0; s < 2; s++) {
      char body[256];
      (void)snprintf(body, sizeof body,
                     "  ld%s.%s %%rd3, [%%rd1];\n  st.global.u64 [%%rd2], %%rd3;\n", spaces[s],
                     t[i].type);
      BWT_SAME(run_one(kernel("", body), NULL, in, sizeof in)[0], t[i].want);
    }
  }
  /* into a 32-bit register */
  BWT_SAME(run_one(kernel("", "  ld.global.s8 %r1, [%rd1];\n  st.global.u32 [%rd2], %r1;\n"), NULL,
                   in, sizeof in)[0],
           0xffffff80);
}
END_TEST

static const char *const moves[] = {
    "  ld.global.v2.u8 {%h1,%h2}, [%rd1];\n  st.global.v2.u8 [%rd2], {%h1,%h2};\n",
    "  ld.global.v4.u16 {%h1,%h2,%h3,%h4}, [%rd1];\n  st.global.v4.u16 [%rd2], "
    "{%h1,%h2,%h3,%h4};\n",
    "  ld.global.nc.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1];\n  st.global.v4.f32 [%rd2], "
    "{%f1,%f2,%f3,%f4};\n",
    "  ld.global.L1::no_allocate.v2.b64 {%rd3,%rd4}, [%rd1];\n  st.global.cs.v2.b64 [%rd2], "
    "{%rd3,%rd4};\n",
    "  ld.global.b128 %q1, [%rd1];\n  st.global.b128 [%rd2], %q1;\n",
    "  ld.global.L2::evict_first.v8.b32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1];\n"
    "  st.global.v8.b32 [%rd2], {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8};\n",
    "  ld.relaxed.sys.global.v4.b64 {%rd3,%rd4,%rd5,%rd6}, [%rd1];\n"
    "  st.release.sys.global.v4.b64 [%rd2], {%rd3,%rd4,%rd5,%rd6};\n",
    "  ld.volatile.global.u32 %r1, [%rd1];\n  st.volatile.global.u32 [%rd2], %r1;\n",
    "  ld.acquire.gpu.u32 %r1, [%rd1];\n  st.relaxed.cta.u32 [%rd2], %r1;\n",
    "  ld.mmio.relaxed.sys.global.u32 %r1, [%rd1];\n  st.mmio.relaxed.sys.global.u32 [%rd2], "
    "%r1;\n",
    "  ldu.global.v2.u32 {%r1,%r2}, [%rd1];\n  st.wt.v2.u32 [%rd2], {%r1,%r2};\n",
    "  createpolicy.fractional.L2::evict_first.b64 %rd9, 1.0;\n"
    "  ld.global.L2::cache_hint.L2::128B.v4.u32 {%r1,%r2,%r3,%r4}, [%rd1], %rd9;\n"
    "  st.global.L2::cache_hint.v4.u32 [%rd2], {%r1,%r2,%r3,%r4}, %rd9;\n",
    "  ld.global.v4.u32 {%r1,_,_,%r4}, [%rd1];\n  ld.global.v4.u32 {_,%r2,%r3,_}, [%rd1];\n"
    "  st.global.v4.u32 [%rd2], {%r1,%r2,%r3,%r4};\n",
    /* through shared and local memory, by name and by address */
    "  .shared .align 16 .b8 box[64];\n  .local .align 16 .b8 own[64];\n"
    "  ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd1];\n"
    "  st.shared.v4.u32 [box+16], {%r1,%r2,%r3,%r4};\n"
    "  mov.u32 %r9, box;\n"
    "  ld.shared.v2.u64 {%rd3,%rd4}, [%r9+16];\n"
    "  st.local.v2.u64 [own], {%rd3,%rd4};\n"
    "  mov.u64 %rd5, own;\n"
    "  cvta.local.u64 %rd5, %rd5;\n"
    "  ld.b128 %q1, [%rd5];\n"
    "  cvta.shared.u64 %rd6, box;\n"
    "  st.b128 [%rd6], %q1;\n"
    "  ld.shared::cluster.u64 %rd7, [%r9];\n"
    "  ld.volatile.shared.u64 %rd8, [%r9+8];\n"
    "  st.global.u64 [%rd2], %rd7;\n"
    "  st.global.u64 [%rd2+8], %rd8;\n",
};
static const size_t moved[] = {2, 8, 16, 16, 16, 32, 32, 4, 4, 4, 8, 16, 16, 16};

START_TEST(moves_bytes) {
  (void)engine_start(1, "all");
  uint8_t in[64];
  for (size_t i = 0; i < sizeof in; i++)
    in[i] = (uint8_t)(37 * i + 129);
  const uint8_t *o = (const uint8_t *)run_one(kernel("", moves[_i]), NULL, in, sizeof in);
  for (size_t i = 0; i < 64; i++)
    ck_assert_msg(o[i] == (i < moved[_i] ? in[i] : 0), "byte %zu: 0x%02x", i, o[i]);
}
END_TEST

/* A warp whose lanes go to scattered places, some switched off, in one allocation and in
 * two: fast and slow paths must agree. */
START_TEST(scattered) {
  (void)engine_start(1, "all");
  uint32_t in[64];
  for (uint32_t i = 0; i < 64; i++)
    in[i] = i * 0x01010101u;
  static const char body[] = "  mov.u32 %r1, %laneid;\n"
                             "  mul.lo.u32 %r2, %r1, 5;\n"
                             "  and.b32 %r2, %r2, 31;\n"
                             "  setp.eq.u32 %p1, %r1, 9;\n"
                             "  setp.ge.u32 %p2, %r1, 16;\n"
                             "  mul.wide.u32 %rd3, %r2, 4;\n"
                             "  add.u64 %rd4, %rd1, %rd3;\n"
                             "  add.u64 %rd5, %rd2, %rd3;\n"
                             "  SPLIT\n"
                             "  mov.u32 %r3, 77;\n"
                             "  @!%p1 ld.global.u32 %r3, [%rd4];\n"
                             "  st.global.u32 [%rd5], %r3;\n";
  for (int split = 0; split < 2; split++) {
    char text[1024];
    const char *at = strstr(body, "SPLIT");
    (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - body), body,
                   split ? "@%p2 add.u64 %rd4, %rd5, 256;" : "", at + 5);
    const uint64_t p[2] = {engine_memory(sizeof in, in), engine_memory(512, NULL)};
    const struct run r = {
        .ptx = kernel("", text), .block = 32, .params = p, .params_size = sizeof p};
    uint32_t *o = engine_data(p[1]);
    for (uint32_t i = 64; i < 128; i++)
      o[i] = 5000 + i;
    ck_assert_int_eq(engine_run(&r), GRID_complete);
    for (uint32_t l = 0; l < 32; l++) {
      uint32_t k = l * 5 % 32;
      uint32_t want = l == 9 ? 77 : split && l >= 16 ? 5064 + k : in[k];
      ck_assert_msg(o[k] == want, "lane %u: %u, not %u", l, o[k], want);
    }
  }
}
END_TEST

START_TEST(variables) {
  (void)engine_start(1, "all");
  static const char declarations[] = ".global .align 8 .u64 counter = 41;\n"
                                     ".const .align 4 .u32 table[4] = {10, 20, 30, 40};\n";
  const char *ptx = kernel(declarations, "  ld.global.u64 %rd3, [counter];\n"
                                         "  add.u64 %rd3, %rd3, 1;\n"
                                         "  st.global.u64 [counter], %rd3;\n"
                                         "  ld.const.u32 %r1, [table+8];\n"
                                         "  mov.u64 %rd4, table;\n"
                                         "  ld.const.u32 %r2, [%rd4+12];\n"
                                         "  ld.global.u64 %rd5, [counter];\n"
                                         "  st.global.u64 [%rd2], %rd5;\n"
                                         "  st.global.v2.u32 [%rd2+8], {%r1,%r2};\n");
  char err[256];
  struct module *m = ptx_load(ptx, strlen(ptx), err, sizeof err);
  ck_assert_ptr_nonnull(m);
  for (uint32_t i = 0; i < m->nvar; i++)
    m->var[i].address = engine_memory(m->var[i].size, m->var[i].init);
  ptx_place(m);
  const uint64_t p[2] = {engine_memory(8, NULL), engine_memory(16, NULL)};
  struct grid g = {.dev = &machine_get()->dev[0],
                   .fn = ptx_function(m, "k"),
                   .id = 1,
                   .dim = {1, 1, 1},
                   .block = {1, 1, 1},
                   .param = (uint8_t *)p};
  ck_assert(grid_submit(&g));
  ck_assert(machine_run(machine_get(), grid_done, &g));
  ck_assert_int_eq(g.state, GRID_complete);
  const uint64_t *o = engine_data(p[1]);
  ck_assert_uint_eq(o[0], 42);
  ck_assert_uint_eq(o[1], 40ull << 32 | 30);
  ptx_free(m);
}
END_TEST

/* ---- definedness --------------------------------------------------------------- */

/* One defined byte of a word defines eight bits of it, not more. */
START_TEST(definedness_by_byte) {
  (void)engine_start(1, "all");
  static const char good[] = "  .shared .align 4 .b8 box[8];\n"
                             "  mov.u16 %h1, 0x12;\n"
                             "  st.shared.u8 [box+1], %h1;\n"
                             "  ld.shared.u32 %r1, [box];\n"
                             "  and.b32 %r1, %r1, 0xff00;\n"
                             "  st.global.u32 [%rd2], %r1;\n";
  BWT_SAME(run_one(kernel("", good), NULL, "", 1)[0], 0x1200);
  static const char bad[] = "  .shared .align 4 .b8 box[8];\n"
                            "  mov.u16 %h1, 0x12;\n"
                            "  st.shared.u8 [box+1], %h1;\n"
                            "  ld.shared.u32 %r1, [box];\n"
                            "  and.b32 %r1, %r1, 0x1ff00;\n"
                            "  st.global.u32 [%rd2], %r1;\n";
  const uint64_t p[2] = {engine_memory(8, NULL), engine_memory(8, NULL)};
  const struct run r = {.ptx = kernel("", bad), .params = p, .params_size = sizeof p};
  expect_report(&r, "undef-store", "st.global.u32");
}
END_TEST

/* ---- atomics --------------------------------------------------------------------------------- */

struct atom {
  const char *op; /* after "atom.global." */
  unsigned bytes;
  uint64_t memory, b, c, after;
};
static const struct atom atoms[] = {
    {"add.u32", 4, 0xffffffff, 2, 0, 1},
    {"add.s32", 4, 5, (uint32_t)-7, 0, (uint32_t)-2},
    {"add.u64", 8, 0xffffffff, 1, 0, 0x100000000},
    {"min.s32", 4, 5, (uint32_t)-7, 0, (uint32_t)-7},
    {"min.u32", 4, 5, (uint32_t)-7, 0, 5},
    {"max.s64", 8, 5, (uint64_t)-7, 0, 5},
    {"max.u64", 8, 5, (uint64_t)-7, 0, (uint64_t)-7},
    {"and.b32", 4, 0xf0f0, 0xff00, 0, 0xf000},
    {"or.b32", 4, 0xf0f0, 0xff00, 0, 0xfff0},
    {"xor.b64", 8, 0xf0f0, 0xff00, 0, 0x0ff0},
    {"inc.u32", 4, 4, 5, 0, 5},
    {"inc.u32", 4, 5, 5, 0, 0},
    {"dec.u32", 4, 0, 5, 0, 5},
    {"dec.u32", 4, 7, 5, 0, 5},
    {"dec.u32", 4, 3, 5, 0, 2},
    {"exch.b32", 4, 1, 2, 0, 2},
    {"cas.b32", 4, 1, 1, 9, 9},
    {"cas.b32", 4, 1, 2, 9, 1},
    {"cas.b64", 8, 1ull << 40, 1ull << 40, 9, 9},
    {"cas.b16", 2, 0x8001, 0x8001, 0x7fff, 0x7fff},
    {"add.f32", 4, 0x3f800000, 0x33800000, 0, 0x3f800000}, /* a tie, to even */
    {"add.f32", 4, 0x3f800001, 0x33800000, 0, 0x3f800002}, /* a tie, to even */
    {"add.f32", 4, 0x00400000, 0x80000001, 0, 0},          /* subnormals are flushed */
    {"add.f32", 4, 0x80800000, 0x00000001, 0, 0x80800000}, /* one of them */
    {"add.f64", 8, 0x3ff0000000000000, 0x3ff0000000000000, 0, 0x4000000000000000},
    {"add.noftz.f16", 2, 0x0001, 0x0001, 0, 0x0002}, /* subnormals are kept */
    {"add.noftz.f16", 2, 0x7bff, 0x7bff, 0, 0x7c00}, /* overflow */
    {"add.noftz.f16", 2, 0x3c00, 0x1000, 0, 0x3c00}, /* 1 + 2^-11: a tie */
    {"add.noftz.f16", 2, 0x3c01, 0x1000, 0, 0x3c02},
    {"add.noftz.bf16", 2, 0x3f80, 0x3b80, 0, 0x3f80}, /* 1 + 2^-8: a tie */
    {"add.noftz.bf16", 2, 0x3f81, 0x3b80, 0, 0x3f82},
    {"add.noftz.bf16", 2, 0x3f80, 0x7fc0, 0, 0x7fff},              /* NaN */
    {"add.noftz.f16x2", 4, 0x3c004000, 0x40003c00, 0, 0x42004200}, /* 1+2, 2+1 */
    {"add.noftz.bf16x2", 4, 0x3f804000, 0xbf804000, 0, 0x00004080},
};

START_TEST(atomic_values) {
  (void)engine_start(1, "all");
  for (size_t i = 0; i < BWT_COUNT(atoms); i++) {
    const struct atom *t = &atoms[i];
    const char *reg = t->bytes == 2 ? "%h" : t->bytes == 4 ? "%r" : "%rd";
    char body[1024], extra[32] = "";
    if (!strncmp(t->op, "cas", 3))
      (void)snprintf(extra, sizeof extra, ", %s6", reg);
    (void)snprintf(body, sizeof body,
                   "  ld.global.b%u %s5, [%%rd1+8];\n  ld.global.b%u %s6, [%%rd1+16];\n"
                   "  atom.global.%s %s7, [%%rd1], %s5%s;\n"
                   "  ld.global.b%u %s4, [%%rd1];\n"
                   "  st.global.b%u [%%rd2], %s4;\n  st.global.b%u [%%rd2+8], %s7;\n",
                   8 * t->bytes, reg, 8 * t->bytes, reg, t->op, reg, reg, extra, 8 * t->bytes, reg,
                   8 * t->bytes, reg, 8 * t->bytes, reg);
    const uint64_t in[3] = {t->memory, t->b, t->c};
    const uint64_t *o = run_one(kernel("", body), NULL, in, sizeof in);
    ck_assert_msg(o[0] == t->after, "%s: 0x%llx, not 0x%llx", t->op, (unsigned long long)o[0],
                  (unsigned long long)t->after);
    ck_assert_msg(o[1] == t->memory, "%s returns 0x%llx", t->op, (unsigned long long)o[1]);
    if (strstr(t->op, "cas") || strstr(t->op, "exch"))
      continue;
    (void)snprintf(body, sizeof body,
                   "  ld.global.b%u %s5, [%%rd1+8];\n  red.relaxed.gpu.global.%s [%%rd1], %s5;\n"
                   "  ld.global.b%u %s4, [%%rd1];\n  st.global.b%u [%%rd2], %s4;\n",
                   8 * t->bytes, reg, t->op, reg, 8 * t->bytes, reg, 8 * t->bytes, reg);
    BWT_SAME(run_one(kernel("", body), NULL, in, sizeof in)[0], t->after);
  }
}
END_TEST

START_TEST(atomic_wide_and_vector) {
  (void)engine_start(1, "all");
  const float in[8] = {1, 2, 3, 4, 10, 20, 30, 40};
  const uint64_t *o =
      run_one(kernel("", "  ld.global.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1+16];\n"
                         "  red.global.add.v4.f32 [%rd1], {%f1,%f2,%f3,%f4};\n"
                         "  atom.global.add.v2.f32 {%f5,%f6}, [%rd1+8], {%f1,%f2};\n"
                         "  ld.global.b128 %q1, [%rd1];\n"
                         "  st.global.b128 [%rd2], %q1;\n"
                         "  st.global.v2.f32 [%rd2+16], {%f5,%f6};\n"
                         "  atom.global.exch.b128 %q2, [%rd1], %q1;\n"
                         "  atom.global.cas.b128 %q3, [%rd1], %q2, %q1;\n"
                         "  st.global.b128 [%rd2+32], %q3;\n"),
              NULL, in, sizeof in);
  const float want[] = {11, 22, 43, 64, 33, 44, 0, 0, 11, 22, 43, 64};
  ck_assert_mem_eq(o, want, sizeof want);
}
END_TEST

/* Subnormal f32 sums are kept in shared memory. */
START_TEST(atomic_shared_keeps_subnormals) {
  (void)engine_start(1, "all");
  static const char body[] = "  .shared .align 4 .b32 box;\n"
                             "  mov.b32 %r1, 3;\n  mov.b32 %f1, 0f00000004;\n"
                             "  st.shared.u32 [box], %r1;\n"
                             "  atom.shared.add.f32 %f2, [box], %f1;\n"
                             "  ld.shared.u32 %r2, [box];\n"
                             "  st.global.u32 [%rd2], %r2;\n";
  BWT_SAME(run_one(kernel("", body), NULL, "", 1)[0], 7);
}
END_TEST

/* Every lane of several CTAs counts once. */
START_TEST(atomic_counts) {
  (void)engine_start((uint64_t)_i, "all");
  const uint64_t p[2] = {engine_memory(8, NULL), engine_memory(4096, NULL)};
  const struct run r = {.ptx = kernel("", "  atom.global.add.u32 %r1, [%rd1], 1;\n"
                                          "  mul.wide.u32 %rd3, %r1, 4;\n"
                                          "  add.u64 %rd3, %rd2, %rd3;\n"
                                          "  red.global.add.u32 [%rd3], 1;\n"),
                        .grid = 8,
                        .block = 100,
                        .params = p,
                        .params_size = sizeof p};
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  const uint32_t *o = engine_data(p[1]);
  for (uint32_t i = 0; i < 1024; i++)
    ck_assert_uint_eq(o[i], i < 800);
}
END_TEST

/* ---- cp.async -------------------------------------------------------------------------------- */

/* Zero fill past src-size and by predicate; groups; arrival on an mbarrier. */
START_TEST(cp_async) {
  (void)engine_start((uint64_t)_i, "all");
  uint32_t in[8];
  for (uint32_t i = 0; i < 8; i++)
    in[i] = 0x11111111u * (i + 1);
  static const char body[] = "  .shared .align 16 .b8 box[64];\n  .shared .align 8 .b64 mb;\n"
                             "  mov.u32 %r1, box;\n  mov.u32 %r2, mb;\n  mov.u32 %r3, 6;\n"
                             "  mbarrier.init.shared::cta.b64 [%r2], 1;\n"
                             "  cp.async.cg.shared.global [%r1], [%rd1], 16;\n"
                             "  cp.async.commit_group;\n"
                             "  cp.async.ca.shared.global [%r1+16], [%rd1], 8, %r3;\n"
                             "  cp.async.commit_group;\n"
                             "  setp.eq.u32 %p1, %r3, 6;\n"
                             "  cp.async.ca.shared.global [%r1+24], [%rd1], 4, %p1;\n"
                             "  cp.async.ca.shared.global.L2::128B [%r1+28], [%rd1+4], 4;\n"
                             "  cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r2];\n"
                             "  cp.async.wait_group 1;\n"
                             "  ld.shared.v4.u32 {%r4,%r5,%r6,%r7}, [%r1];\n"
                             "  st.global.v4.u32 [%rd2], {%r4,%r5,%r6,%r7};\n"
                             "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n"
                             "  @!%p2 bra W;\n"
                             "  ld.shared.v4.u32 {%r4,%r5,%r6,%r7}, [%r1+16];\n"
                             "  st.global.v4.u32 [%rd2+16], {%r4,%r5,%r6,%r7};\n"
                             "  cp.async.wait_all;\n";
  const uint32_t *o = (const uint32_t *)run_one(kernel("", body), NULL, in, sizeof in);
  const uint32_t want[8] = {in[0], in[1], in[2], in[3], in[0], in[1] & 0xffff, 0, in[1]};
  ck_assert_mem_eq(o, want, sizeof want);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_TEST("width", extension, 20),
      BWT_LOOP("width", moves_bytes, 0, (int)BWT_COUNT(moves), 20),
      BWT_TEST("lanes", scattered, 20),
      BWT_TEST("variables", variables, 20),
      BWT_TEST("undef", definedness_by_byte, 20),
      BWT_TEST("atomic", atomic_values, 20),
      BWT_TEST("atomic", atomic_wide_and_vector, 20),
      BWT_TEST("atomic", atomic_shared_keeps_subnormals, 20),
      BWT_LOOP("atomic", atomic_counts, 0, 3, 20),
      BWT_LOOP("cp.async", cp_async, 0, 20, 20),
  };
  return bwt_suite_main("emulator engine memory", tests, BWT_COUNT(tests));
}
