/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulated machine: divergence and reconvergence, spinning lanes, barriers, clusters,
 * mbarriers, programmatic dependent launch, races that show by seed, hangs that are
 * reported, and that a seed determines the run.
 */
#include "emu_engine.h"

#define SEEDS 20

/* ---- SIMT -------------------------------------------------------------------------- */

/* Each lane loops as often as its number says; what comes after the loop is executed by
 * the whole warp at once, which the ballot shows. */
static const char reconverge_ptx[] =
    PTX_HEAD ".visible .entry k(.param .u64 out) {\n"
             "  .reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p<3>;\n"
             "  ld.param.u64 %rd1, [out];\n"
             "  mov.u32 %r1, %laneid;\n"
             "  mov.u32 %r2, 0;\n"
             "  mov.u32 %r3, 0;\n"
             "LOOP:\n"
             "  setp.ge.u32 %p1, %r2, %r1;\n"
             "  @%p1 bra DONE;\n"
             "  add.u32 %r2, %r2, 1;\n"
             "  add.u32 %r3, %r3, %r2;\n"
             "  bra LOOP;\n"
             "DONE:\n"
             "  and.b32 %r4, %r1, 1;\n"
             "  setp.eq.u32 %p2, %r4, 0;\n"
             "  @%p2 bra EVEN;\n"
             "  add.u32 %r3, %r3, 1000;\n"
             "  bra JOIN;\n"
             "EVEN:\n"
             "  add.u32 %r3, %r3, 2000;\n"
             "JOIN:\n"
             "  mul.wide.u32 %rd2, %r1, 4;\n"
             "  add.u64 %rd2, %rd1, %rd2;\n"
             "  bar.sync 0;\n"
             "  st.global.u32 [%rd2], %r3;\n"
             "  ret;\n"
             "}\n";

START_TEST(reconvergence) {
  (void)engine_start(3, "all");
  uint64_t out = engine_memory(128, NULL);
  const struct run r = {
      .ptx = reconverge_ptx, .block = 32, .params = &out, .params_size = sizeof out};
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  const uint32_t *o = engine_data(out);
  for (uint32_t l = 0; l < 32; l++)
    ck_assert_uint_eq(o[l], l * (l + 1) / 2 + (l & 1 ? 1000 : 2000));
}
END_TEST

/* Lane 0 stores the flag that its sibling lanes poll, behind the loop they poll in: a
 * schedule that always preferred the smallest pc would never let it run.  The polls
 * change a register in the second kernel, so nothing is recognised as a spin. */
static const char siblings_ptx[] =
    PTX_HEAD ".visible .entry k(.param .u64 flag, .param .u64 out) {\n"
             "  .reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p<3>;\n"
             "  ld.param.u64 %rd1, [flag];\n"
             "  ld.param.u64 %rd2, [out];\n"
             "  mov.u32 %r1, %laneid;\n"
             "  mov.u32 %r4, 0;\n"
             "  setp.eq.u32 %p1, %r1, 0;\n"
             "  @%p1 bra SET;\n"
             "POLL:\n"
             "  ld.relaxed.gpu.global.u32 %r2, [%rd1];\n"
             "  STEP\n"
             "  setp.eq.u32 %p2, %r2, 0;\n"
             "  @%p2 bra POLL;\n"
             "  mul.wide.u32 %rd3, %r1, 4;\n"
             "  add.u64 %rd2, %rd2, %rd3;\n"
             "  st.global.u32 [%rd2], %r2;\n"
             "  ret;\n"
             "SET:\n"
             "  mov.u32 %r3, 7;\n"
             "  st.relaxed.gpu.global.u32 [%rd1], %r3;\n"
             "  ret;\n"
             "}\n";

static const char *with_step(const char *ptx, const char *step) {
  static char text[4096];
  const char *at = strstr(ptx, "STEP");
  (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - ptx), ptx, step, at + 4);
  return text;
}

START_TEST(spinning_siblings) {
  (void)engine_start(1, "all");
  for (int counting = 0; counting < 2; counting++) {
    const uint64_t p[2] = {engine_memory(4, NULL), engine_memory(128, NULL)};
    const struct run r = {.ptx = with_step(siblings_ptx, counting ? "add.u32 %r4, %r4, 1;" : ""),
                          .block = 32,
                          .params = p,
                          .params_size = sizeof p};
    ck_assert_int_eq(engine_run(&r), GRID_complete);
    const uint32_t *o = engine_data(p[1]);
    for (int l = 1; l < 32; l++)
      ck_assert_uint_eq(o[l], 7);
  }
}
END_TEST

/* ---- barriers of a CTA ------------------------------------------------------------------- */

/* Named barriers between producers and consumers, and the reductions. */
static const char barrier_ptx[] =
    PTX_HEAD ".visible .entry k(.param .u64 out) {\n"
             "  .reg .b64 %rd<4>; .reg .b32 %r<10>; .reg .pred %p<5>;\n"
             "  .shared .b32 box[64];\n"
             "  ld.param.u64 %rd1, [out];\n"
             "  mov.u32 %r1, %tid.x;\n"
             "  mul.wide.u32 %rd2, %r1, 4;\n"
             "  add.u64 %rd1, %rd1, %rd2;\n"
             "  setp.ge.u32 %p1, %r1, 64;\n"
             "  @%p1 bra CONSUME;\n"
             "  mov.u32 %r2, box;\n"
             "  mad.lo.u32 %r2, %r1, 4, %r2;\n"
             "  add.u32 %r3, %r1, 100;\n"
             "  st.shared.u32 [%r2], %r3;\n"
             "  bar.arrive 3, 128;\n"
             "  mov.u32 %r4, 0;\n"
             "  bra JOIN;\n"
             "CONSUME:\n"
             "  bar.sync 3, 128;\n"
             "  mov.u32 %r2, box;\n"
             "  sub.u32 %r3, 127, %r1;\n"
             "  mad.lo.u32 %r2, %r3, 4, %r2;\n"
             "  ld.shared.u32 %r4, [%r2];\n"
             "JOIN:\n"
             "  setp.lt.u32 %p2, %r1, 10;\n"
             "  bar.red.popc.u32 %r5, 1, %p2;\n"
             "  bar.red.and.pred %p3, 1, %p2;\n"
             "  bar.red.or.pred %p4, 1, %p2;\n"
             "  shl.b32 %r5, %r5, 16;\n"
             "  add.u32 %r4, %r4, %r5;\n"
             "  @%p3 add.u32 %r4, %r4, 0x1000;\n"
             "  @%p4 add.u32 %r4, %r4, 0x2000;\n"
             "  st.global.u32 [%rd1], %r4;\n"
             "  ret;\n"
             "}\n";

START_TEST(named_barriers) {
  (void)engine_start((uint64_t)_i, "all");
  uint64_t out = engine_memory(512, NULL);
  const struct run r = {
      .ptx = barrier_ptx, .block = 128, .params = &out, .params_size = sizeof out};
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  const uint32_t *o = engine_data(out);
  for (uint32_t t = 0; t < 128; t++)
    ck_assert_uint_eq(o[t], (t < 64 ? 0 : 227 - t) + (10 << 16) + 0x2000);
}
END_TEST

/* Threads that have exited are not expected any more. */
static const char exited_ptx[] = PTX_HEAD ".visible .entry k(.param .u64 out) {\n"
                                          "  .reg .b64 %rd<2>; .reg .b32 %r<4>; .reg .pred %p<2>;\n"
                                          "  ld.param.u64 %rd1, [out];\n"
                                          "  mov.u32 %r1, %tid.x;\n"
                                          "  setp.lt.u32 %p1, %r1, 64;\n"
                                          "  @%p1 exit;\n"
                                          "  bar.sync 0;\n"
                                          "  atom.global.add.u32 %r2, [%rd1], 1;\n"
                                          "  ret;\n"
                                          "}\n";

START_TEST(barrier_without_the_exited) {
  (void)engine_start(5, "all");
  uint64_t out = engine_memory(4, NULL);
  const struct run r = {.ptx = exited_ptx, .block = 100, .params = &out, .params_size = sizeof out};
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  ck_assert_uint_eq(*(uint32_t *)engine_data(out), 36);
}
END_TEST

/* ---- clusters -------------------------------------------------------------------------------- */

/* Every CTA stores into the next one's shared memory between two cluster barriers. */
static const char cluster_ptx[] = PTX_HEAD ".visible .entry k(.param .u64 out) {\n"
                                           "  .reg .b64 %rd<4>; .reg .b32 %r<10>;\n"
                                           "  .shared .b32 box[32];\n"
                                           "  ld.param.u64 %rd1, [out];\n"
                                           "  mov.u32 %r1, %cluster_ctarank;\n"
                                           "  mov.u32 %r2, %cluster_nctarank;\n"
                                           "  add.u32 %r3, %r1, 1;\n"
                                           "  rem.u32 %r3, %r3, %r2;\n"
                                           "  mov.u32 %r4, box;\n"
                                           "  mov.u32 %r5, %tid.x;\n"
                                           "  mad.lo.u32 %r4, %r5, 4, %r4;\n"
                                           "  mapa.shared::cluster.u32 %r6, %r4, %r3;\n"
                                           "  mov.u32 %r7, %ctaid.x;\n"
                                           "  mad.lo.u32 %r7, %r7, 100, %r5;\n"
                                           "  barrier.cluster.arrive.relaxed.aligned;\n"
                                           "  barrier.cluster.wait.aligned;\n"
                                           "  st.shared::cluster.u32 [%r6], %r7;\n"
                                           "  barrier.cluster.arrive;\n"
                                           "  barrier.cluster.wait;\n"
                                           "  ld.shared.u32 %r8, [%r4];\n"
                                           "  mov.u32 %r9, %ctaid.x;\n"
                                           "  mad.lo.u32 %r9, %r9, 32, %r5;\n"
                                           "  mul.wide.u32 %rd2, %r9, 4;\n"
                                           "  add.u64 %rd1, %rd1, %rd2;\n"
                                           "  st.global.u32 [%rd1], %r8;\n"
                                           "  ret;\n"
                                           "}\n";

START_TEST(cluster_barrier) {
  (void)engine_start((uint64_t)_i, "all");
  const uint32_t size = 4, n = 12;
  uint64_t out = engine_memory(n * 128, NULL);
  const struct run r = {.ptx = cluster_ptx,
                        .grid = n,
                        .block = 32,
                        .cluster = size,
                        .params = &out,
                        .params_size = sizeof out};
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  const uint32_t *o = engine_data(out);
  for (uint32_t c = 0; c < n; c++) {
    uint32_t from = c / size * size + (c % size + size - 1) % size;
    for (uint32_t t = 0; t < 32; t++)
      ck_assert_uint_eq(o[c * 32 + t], from * 100 + t);
  }
}
END_TEST

/* ---- mbarrier -------------------------------------------------------------------------------- */

/* Records what each operation shows: see the expectations below. */
static const char mbarrier_ptx[] =
    PTX_HEAD ".visible .entry k(.param .u64 out) {\n"
             "  .reg .b64 %rd<8>; .reg .b32 %r<24>; .reg .pred %p<8>;\n"
             "  .shared .align 8 .b64 mb;\n"
             "  ld.param.u64 %rd1, [out];\n"
             "  mov.u32 %r1, mb;\n"
             "  mbarrier.init.shared::cta.b64 [%r1], 2;\n"
             "  mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 0;\n"
             "  selp.u32 %r2, 1, 0, %p1;\n"
             "  st.global.u32 [%rd1], %r2;\n" /* 0: phase 0 is not over */
             "  mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 1;\n"
             "  selp.u32 %r2, 1, 0, %p1;\n"
             "  st.global.u32 [%rd1+4], %r2;\n" /* 1: the phase before it is */
             "  mbarrier.arrive.shared::cta.b64 %rd2, [%r1];\n"
             "  mbarrier.pending_count.b64 %r2, %rd2;\n"
             "  st.global.u32 [%rd1+8], %r2;\n" /* 2 pending before this arrival */
             "  mbarrier.test_wait.shared::cta.b64 %p1, [%r1], %rd2;\n"
             "  selp.u32 %r2, 1, 0, %p1;\n"
             "  st.global.u32 [%rd1+12], %r2;\n" /* 0 */
             "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 64;\n"
             "  mbarrier.test_wait.shared::cta.b64 %p1, [%r1], %rd2;\n"
             "  selp.u32 %r2, 1, 0, %p1;\n"
             "  st.global.u32 [%rd1+16], %r2;\n" /* 0: bytes are missing */
             "  mbarrier.complete_tx.shared::cta.b64 [%r1], 60;\n"
             "  mbarrier.complete_tx.shared::cta.b64 [%r1], 4;\n"
             "  mbarrier.test_wait.shared::cta.b64 %p1, [%r1], %rd2;\n"
             "  selp.u32 %r2, 1, 0, %p1;\n"
             "  st.global.u32 [%rd1+20], %r2;\n" /* 1 */
             "  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;\n"
             "  selp.u32 %r2, 1, 0, %p1;\n"
             "  st.global.u32 [%rd1+24], %r2;\n" /* 1: phase 0 is over */
             "  mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 1;\n"
             "  selp.u32 %r2, 1, 0, %p1;\n"
             "  st.global.u32 [%rd1+28], %r2;\n"                   /* 0: phase 1 is not */
             "  mbarrier.complete_tx.shared::cta.b64 [%r1], 16;\n" /* the count goes negative */
             "  mbarrier.arrive_drop.shared::cta.b64 _, [%r1];\n"
             "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 16;\n"
             "  mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 1;\n"
             "  selp.u32 %r2, 1, 0, %p1;\n"
             "  st.global.u32 [%rd1+32], %r2;\n" /* 1: phase 1 is over */
             "  mbarrier.arrive.shared::cta.b64 %rd3, [%r1];\n"
             "  mbarrier.pending_count.b64 %r2, %rd3;\n"
             "  st.global.u32 [%rd1+36], %r2;\n" /* 1: one dropped out */
             "  mbarrier.test_wait.shared::cta.b64 %p1, [%r1], %rd3;\n"
             "  selp.u32 %r2, 1, 0, %p1;\n"
             "  st.global.u32 [%rd1+40], %r2;\n" /* 1 */
             "  mbarrier.inval.shared::cta.b64 [%r1];\n"
             "  mbarrier.init.shared::cta.b64 [%r1], 1;\n"
             "  ret;\n"
             "}\n";

START_TEST(mbarrier_model) {
  (void)engine_start(2, "all");
  static const uint32_t want[] = {0, 1, 2, 0, 0, 1, 1, 0, 1, 1, 1};
  uint64_t out = engine_memory(sizeof want, NULL);
  const struct run r = {.ptx = mbarrier_ptx, .params = &out, .params_size = sizeof out};
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  const uint32_t *o = engine_data(out);
  for (size_t i = 0; i < BWT_COUNT(want); i++)
    ck_assert_msg(o[i] == want[i], "step %zu: %u, not %u", i, o[i], want[i]);
}
END_TEST

/* A ring of two stages between a producing and a consuming warp, many times around, with
 * barriers of both parities; the values show that nothing was overwritten unread. */
static const char ring_ptx[] =
    PTX_HEAD ".visible .entry k(.param .u64 out) {\n"
             "  .reg .b64 %rd<8>; .reg .b32 %r<24>; .reg .pred %p<8>;\n"
             "  .shared .align 8 .b64 full[2];\n"
             "  .shared .align 8 .b64 empty[2];\n"
             "  .shared .b32 box[64];\n"
             "  ld.param.u64 %rd1, [out];\n"
             "  mov.u32 %r1, %tid.x;\n"
             "  mov.u32 %r2, full;\n"
             "  mov.u32 %r3, empty;\n"
             "  mov.u32 %r4, box;\n"
             "  setp.ne.u32 %p1, %r1, 0;\n"
             "  @%p1 bra READY;\n"
             "  mbarrier.init.shared::cta.b64 [%r2], 32;\n"
             "  mbarrier.init.shared::cta.b64 [%r2+8], 32;\n"
             "  mbarrier.init.shared::cta.b64 [%r3], 32;\n"
             "  mbarrier.init.shared::cta.b64 [%r3+8], 32;\n"
             "READY:\n"
             "  bar.sync 0;\n"
             "  mov.u32 %r5, 0;\n" /* round */
             "  and.b32 %r6, %r1, 31;\n"
             "  setp.ge.u32 %p2, %r1, 32;\n"
             "  mov.u32 %r15, 0;\n"
             "TURN:\n"
             "  and.b32 %r7, %r5, 1;\n" /* stage */
             "  shr.u32 %r8, %r5, 1;\n"
             "  and.b32 %r8, %r8, 1;\n" /* parity */
             "  mad.lo.u32 %r9, %r7, 8, %r2;\n"
             "  mad.lo.u32 %r10, %r7, 8, %r3;\n"
             "  mad.lo.u32 %r11, %r7, 128, %r4;\n"
             "  mad.lo.u32 %r11, %r6, 4, %r11;\n"
             "  @%p2 bra CONSUME;\n"
             "  xor.b32 %r12, %r8, 1;\n"
             "W1: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r10], %r12;\n"
             "  @!%p3 bra W1;\n"
             "  mad.lo.u32 %r13, %r5, 64, %r6;\n"
             "  st.shared.u32 [%r11], %r13;\n"
             "  mbarrier.arrive.shared::cta.b64 _, [%r9];\n"
             "  bra NEXT;\n"
             "CONSUME:\n"
             "W2: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r9], %r8;\n"
             "  @!%p3 bra W2;\n"
             "  ld.shared.u32 %r14, [%r11];\n"
             "  add.u32 %r15, %r15, %r14;\n"
             "  mbarrier.arrive.shared::cta.b64 _, [%r10];\n"
             "NEXT:\n"
             "  add.u32 %r5, %r5, 1;\n"
             "  setp.lt.u32 %p4, %r5, 50;\n"
             "  @%p4 bra TURN;\n"
             "  @!%p2 exit;\n"
             "  mul.wide.u32 %rd2, %r6, 4;\n"
             "  add.u64 %rd1, %rd1, %rd2;\n"
             "  st.global.u32 [%rd1], %r15;\n"
             "  ret;\n"
             "}\n";

START_TEST(mbarrier_ring) {
  (void)engine_start((uint64_t)_i, "all");
  uint64_t out = engine_memory(128, NULL);
  const struct run r = {.ptx = ring_ptx, .block = 64, .params = &out, .params_size = sizeof out};
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  const uint32_t *o = engine_data(out);
  for (uint32_t l = 0; l < 32; l++)
    ck_assert_uint_eq(o[l], 64 * (49 * 50 / 2) + 50 * l);
}
END_TEST

/* Checks for programs that are racy on purpose: none of the order of accesses. */
#define RACY "bounds,undef"

/* ---- programmatic dependent launch ----------------------------------------------------------- */

/* The first grid triggers at once, then works and stores; the second looks at the value
 * before and after its wait. */
static const char pdl_ptx[] =
    PTX_HEAD ".visible .entry first(.param .u64 data, .param .u64 seen) {\n"
             "  .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p<2>;\n"
             "  ld.param.u64 %rd1, [data];\n"
             "  griddepcontrol.launch_dependents;\n"
             "  mov.u32 %r1, 0;\n"
             "WORK:\n"
             "  add.u32 %r1, %r1, 1;\n"
             "  setp.lt.u32 %p1, %r1, 300;\n"
             "  @%p1 bra WORK;\n"
             "  st.global.u32 [%rd1], %r1;\n"
             "  ret;\n"
             "}\n"
             ".visible .entry second(.param .u64 data, .param .u64 seen) {\n"
             "  .reg .b64 %rd<4>; .reg .b32 %r<4>;\n"
             "  ld.param.u64 %rd1, [data];\n"
             "  ld.param.u64 %rd2, [seen];\n"
             "  ld.relaxed.gpu.global.u32 %r1, [%rd1];\n"
             "  st.global.u32 [%rd2], %r1;\n"
             "  griddepcontrol.wait;\n"
             "  ld.global.u32 %r2, [%rd1];\n"
             "  st.global.u32 [%rd2+4], %r2;\n"
             "  ret;\n"
             "}\n";

static void submit(struct grid *g, void *next) {
  (void)g;
  ck_assert(grid_submit(next));
}

static uint64_t pdl_run(void) {
  const uint64_t p[2] = {engine_memory(4, NULL), engine_memory(8, NULL)};
  struct run r = {.ptx = pdl_ptx, .name = "first", .params = p, .params_size = sizeof p};
  struct grid *first = engine_grid(&r);
  r.name = "second";
  struct grid *second = engine_grid(&r);
  second->pdl = true;
  second->prereq = &first;
  second->nprereq = 1;
  first->on_triggered = submit;
  first->arg = second;
  ck_assert(grid_submit(first));
  ck_assert(machine_run(machine_get(), grid_done, second));
  ck_assert_int_eq(first->state, GRID_complete);
  ck_assert(second->waited);
  const uint32_t *seen = engine_data(p[1]);
  ck_assert_uint_eq(seen[1], 300);
  return seen[0];
}

START_TEST(dependent_starts_early_or_not) {
  unsigned early = 0, late = 0;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    uint64_t v = in_child(seed, RACY, pdl_run);
    early += v == 0;
    late += v == 300;
  }
  ck_assert_uint_eq(early + late, SEEDS);
  ck_assert_uint_gt(early, 0);
  ck_assert_uint_gt(late, 0);
}
END_TEST

/* ---- races show ------------------------------------------------------------------------------ */

/* CTA 0 writes data, then the flag; CTA 1 reads data without looking at the flag. */
static const char race_ptx[] = PTX_HEAD ".visible .entry k(.param .u64 data, .param .u64 out) {\n"
                                        "  .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p<2>;\n"
                                        "  ld.param.u64 %rd1, [data];\n"
                                        "  ld.param.u64 %rd2, [out];\n"
                                        "  mov.u32 %r1, %ctaid.x;\n"
                                        "  setp.eq.u32 %p1, %r1, 1;\n"
                                        "  @%p1 bra READ;\n"
                                        "  mov.u32 %r2, 5;\n"
                                        "  st.relaxed.gpu.global.u32 [%rd1], %r2;\n"
                                        "  ret;\n"
                                        "READ:\n"
                                        "  ld.relaxed.gpu.global.u32 %r2, [%rd1];\n"
                                        "  st.global.u32 [%rd2], %r2;\n"
                                        "  ret;\n"
                                        "}\n";

static uint64_t race_run(void) {
  const uint64_t p[2] = {engine_memory(4, NULL), engine_memory(4, NULL)};
  const struct run r = {.ptx = race_ptx, .grid = 2, .params = p, .params_size = sizeof p};
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  return *(uint32_t *)engine_data(p[1]);
}

/* A lost update between two threads of different warps of one CTA: read, add, write. */
static const char lost_ptx[] = PTX_HEAD ".visible .entry k(.param .u64 data) {\n"
                                        "  .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p<2>;\n"
                                        "  ld.param.u64 %rd1, [data];\n"
                                        "  mov.u32 %r1, %laneid;\n"
                                        "  setp.ne.u32 %p1, %r1, 0;\n"
                                        "  @%p1 exit;\n"
                                        "  ld.relaxed.gpu.global.u32 %r2, [%rd1];\n"
                                        "  add.u32 %r2, %r2, 1;\n"
                                        "  st.relaxed.gpu.global.u32 [%rd1], %r2;\n"
                                        "  ret;\n"
                                        "}\n";

static uint64_t lost_run(void) {
  const uint64_t p = engine_memory(4, NULL);
  const struct run r = {.ptx = lost_ptx, .block = 64, .params = &p, .params_size = sizeof p};
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  return *(uint32_t *)engine_data(p);
}

/* A copy in flight: read without and with its wait. */
static const char copy_ptx[] = PTX_HEAD ".visible .entry k(.param .u64 data, .param .u64 out) {\n"
                                        "  .reg .b64 %rd<4>; .reg .b32 %r<4>;\n"
                                        "  .shared .align 16 .b32 box[4];\n"
                                        "  ld.param.u64 %rd1, [data];\n"
                                        "  ld.param.u64 %rd2, [out];\n"
                                        "  mov.u32 %r1, box;\n"
                                        "  mov.u32 %r2, 1;\n"
                                        "  st.shared.u32 [%r1], %r2;\n"
                                        "  cp.async.ca.shared.global [%r1], [%rd1], 4;\n"
                                        "  cp.async.commit_group;\n"
                                        "  ld.shared.u32 %r2, [%r1];\n"
                                        "  st.global.u32 [%rd2], %r2;\n"
                                        "  cp.async.wait_group 0;\n"
                                        "  ld.shared.u32 %r2, [%r1];\n"
                                        "  st.global.u32 [%rd2+4], %r2;\n"
                                        "  ret;\n"
                                        "}\n";

static uint64_t copy_run(void) {
  const uint32_t nine = 9;
  const uint64_t p[2] = {engine_memory(4, &nine), engine_memory(8, NULL)};
  const struct run r = {.ptx = copy_ptx, .params = p, .params_size = sizeof p};
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  const uint32_t *o = engine_data(p[1]);
  ck_assert_uint_eq(o[1], 9);
  return o[0];
}

static const struct racy {
  uint64_t (*run)(void);
  uint64_t one, other;
} racy[] = {{race_run, 0, 5}, {lost_run, 1, 2}, {copy_run, 1, 9}};

START_TEST(races_show_both_outcomes) {
  const struct racy *t = &racy[_i];
  unsigned n[2] = {0, 0};
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    uint64_t v = in_child(seed, RACY, t->run);
    n[0] += v == t->one;
    n[1] += v == t->other;
  }
  ck_assert_uint_eq(n[0] + n[1], SEEDS);
  ck_assert_uint_gt(n[0], 0);
  ck_assert_uint_gt(n[1], 0);
}
END_TEST

/* ---- no progress ----------------------------------------------------------------------------- */

struct hang {
  const char *body, *rule, *line, *says;
};
#define HANG_HEAD                                                                                  \
  PTX_HEAD ".visible .entry k(.param .u64 flag) {\n"                                               \
           "  .reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p<4>;\n"                              \
           "  .shared .align 8 .b64 mb;\n"                                                         \
           "  ld.param.u64 %rd1, [flag];\n"                                                        \
           "  mov.u32 %r1, mb;\n"                                                                  \
           "  mov.u32 %r2, %tid.x;\n"                                                              \
           "  mov.u32 %r3, 0;\n"                                                                   \
           "  setp.lt.u32 %p1, %r2, 32;\n"
static const struct hang hangs[] = {
    {HANG_HEAD "POLL: ld.acquire.gpu.global.u32 %r4, [%rd1];\n"
               "  setp.eq.u32 %p2, %r4, 0;\n"
               "  @%p2 bra POLL;\n  ret;\n}\n",
     "no-progress", "ld.acquire", "memory to change"},
    {HANG_HEAD "POLL: ld.acquire.gpu.global.u32 %r4, [%rd1];\n"
               "  add.u32 %r3, %r3, 1;\n"
               "  setp.eq.u32 %p2, %r4, 0;\n"
               "  @%p2 bra POLL;\n  ret;\n}\n",
     "no-progress", "ld.acquire", "memory to change"},
    {HANG_HEAD "  @%p1 exit;\n"
               "  mbarrier.init.shared::cta.b64 [%r1], 64;\n"
               "POLL: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0;\n"
               "  @!%p2 bra POLL;\n  ret;\n}\n",
     "no-progress", "mbarrier.try_wait",
     "it polls (0x0): phase 0, 64 of 64 arrivals pending, 0 bytes outstanding"},
    {HANG_HEAD "  @%p1 bra OTHER;\n"
               "  bar.sync 1;\n"
               "OTHER: bar.sync 2;\n  ret;\n}\n",
     "barrier-mismatch", "bar.sync 1", "expects 64 threads, 32 have arrived"},
    {HANG_HEAD "  barrier.cluster.arrive;\n"
               "  @%p1 bra HERE;\n"
               "  barrier.cluster.wait;\n"
               "  barrier.cluster.arrive;\n"
               "  barrier.cluster.wait;\n"
               "HERE: bar.sync 0;\n  ret;\n}\n",
     "barrier-mismatch", NULL, "barrier"},
    /* threads that meet again and again, and do nothing else */
    {HANG_HEAD "AGAIN: add.u32 %r3, %r3, 1;\n"
               "  bar.sync 0;\n"
               "  bra AGAIN;\n}\n",
     "no-progress", NULL, "bar.sync 0"},
    {HANG_HEAD "AGAIN: barrier.cluster.arrive;\n"
               "  barrier.cluster.wait;\n"
               "  bra AGAIN;\n}\n",
     "no-progress", NULL, "barrier.cluster"},
};

START_TEST(hang_is_reported) {
  const struct hang *h = &hangs[_i];
  (void)engine_start(4, "all");
  uint64_t flag = engine_memory(4, NULL);
  const struct run r = {.ptx = h->body,
                        .block = strstr(h->body, "exit") ? 33 : 64,
                        .params = &flag,
                        .params_size = sizeof flag};
  ck_assert_int_eq(engine_run(&r), GRID_failed);
  const struct report_record *q = report_at(machine_get(), 0);
  ck_assert_ptr_nonnull(q);
  ck_assert_str_eq(q->rule, h->rule);
  ck_assert_msg(strstr(q->text, h->says) != NULL, "%s", q->text);
  if (h->line) {
    char line[32];
    (void)snprintf(line, sizeof line, "k line %u:", line_of(h->body, h->line));
    ck_assert_msg(strstr(q->text, line) != NULL, "%s in %s", line, q->text);
  }
}
END_TEST

/* ---- polls --------------------------------------------------------------------- */

/* A chain: every thread polls its word, then writes the next one; so lanes leave the loop one
 * by one.  It counts its rounds, so that no lap equals the one before. */
static const char chain_ptx[] = PTX_HEAD ".visible .entry k(.param .u64 data) {\n"
                                         "  .reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p<2>;\n"
                                         "  ld.param.u64 %rd1, [data];\n"
                                         "  mov.u32 %r1, %tid.x;\n"
                                         "  mov.u32 %r2, %ctaid.x;\n"
                                         "  mov.u32 %r3, %ntid.x;\n"
                                         "  mad.lo.u32 %r1, %r2, %r3, %r1;\n"
                                         "  mad.wide.u32 %rd1, %r1, 4, %rd1;\n"
                                         "  mov.u32 %r5, 0;\n"
                                         "POLL: ld.relaxed.gpu.global.u32 %r4, [%rd1];\n"
                                         "  add.u32 %r5, %r5, 1;\n"
                                         "  setp.eq.u32 %p1, %r4, 0;\n"
                                         "  @%p1 bra POLL;\n"
                                         "  add.u32 %r4, %r4, 1;\n"
                                         "  st.relaxed.gpu.global.u32 [%rd1+4], %r4;\n"
                                         "  ret;\n"
                                         "}\n";

static uint64_t chain_run(void) {
  enum { N = 5 * 96 };
  static const uint32_t words[N + 1] = {1};
  const uint64_t p = engine_memory(sizeof words, words);
  const struct run r = {
      .ptx = chain_ptx, .grid = 5, .block = 96, .params = &p, .params_size = sizeof p};
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  return ((uint32_t *)engine_data(p))[N] == N + 1;
}

/* Nobody writes what it polls: it gives up after exactly so many rounds. */
static const char gives_up_ptx[] =
    PTX_HEAD ".visible .entry k(.param .u64 data) {\n"
             "  .reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p<4>;\n"
             "  ld.param.u64 %rd1, [data];\n"
             "  mov.u32 %r1, 0;\n"
             "POLL: ld.volatile.global.v2.u32 {%r2, %r3}, [%rd1];\n"
             "  or.b32 %r4, %r2, %r3;\n"
             "  setp.ne.u32 %p1, %r4, 0;\n"
             "  @%p1 bra DONE;\n"
             "  add.u32 %r1, %r1, 1;\n"
             "  setp.lt.u32 %p2, %r1, 20000;\n"
             "  @%p2 bra POLL;\n"
             "DONE: st.global.u32 [%rd1+8], %r1;\n"
             "  ret;\n"
             "}\n";

static uint64_t gives_up_run(void) {
  const uint64_t p = engine_memory(12, NULL);
  const struct run r = {.ptx = gives_up_ptx, .params = &p, .params_size = sizeof p};
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  return ((uint32_t *)engine_data(p))[2];
}

/* Strong loads from an address that moves: no poll. */
static const char sum_ptx[] = PTX_HEAD ".visible .entry k(.param .u64 data) {\n"
                                       "  .reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p<2>;\n"
                                       "  ld.param.u64 %rd1, [data];\n"
                                       "  add.u64 %rd2, %rd1, 400;\n"
                                       "  mov.u32 %r1, 0;\n"
                                       "NEXT: ld.relaxed.sys.global.u32 %r2, [%rd1];\n"
                                       "  add.u32 %r1, %r1, %r2;\n"
                                       "  add.u64 %rd1, %rd1, 4;\n"
                                       "  setp.lt.u64 %p1, %rd1, %rd2;\n"
                                       "  @%p1 bra NEXT;\n"
                                       "  st.global.u32 [%rd2], %r1;\n"
                                       "  ret;\n"
                                       "}\n";

static uint64_t sum_run(void) {
  uint32_t words[101];
  for (uint32_t i = 0; i < 101; i++)
    words[i] = 7;
  const uint64_t p = engine_memory(sizeof words, words);
  const struct run r = {.ptx = sum_ptx, .params = &p, .params_size = sizeof p};
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  ck_assert_uint_lt(machine_get()->now, 1000); /* nor did it wait between */
  return ((uint32_t *)engine_data(p))[100];
}

START_TEST(polls) {
  for (uint64_t seed = 0; seed < 4; seed++) {
    ck_assert_uint_eq(in_child(seed, "all", chain_run), 1);
    ck_assert_uint_eq(in_child(seed, "all", gives_up_run), 20000);
    ck_assert_uint_eq(in_child(seed, "all", sum_run), 700);
  }
}
END_TEST

/* ---- determinism ----------------------------------------------------------------------------- */

static uint64_t ring_steps(void) {
  uint64_t out = engine_memory(128, NULL);
  const struct run r = {
      .ptx = ring_ptx, .grid = 7, .block = 64, .params = &out, .params_size = sizeof out};
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  return machine_get()->now;
}

START_TEST(seed_determines_the_run) {
  uint64_t first[4];
  bool differ = false;
  for (uint64_t seed = 0; seed < 4; seed++) {
    first[seed] = in_child(seed, RACY, ring_steps);
    ck_assert_uint_eq(first[seed], in_child(seed, RACY, ring_steps));
    differ = differ || first[seed] != first[0];
  }
  ck_assert(differ);
}
END_TEST

/* ---- many grids ---------------------------------------------------------------- */

/* More CTAs than fit at once, and a grid that can never fit. */
START_TEST(placement) {
  struct machine *m = engine_start(9, "all");
  uint64_t out = engine_memory(4, NULL);
  struct run r = {
      .ptx = exited_ptx, .grid = 1000, .block = 1024, .params = &out, .params_size = sizeof out};
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  ck_assert_uint_eq(*(uint32_t *)engine_data(out), 1000 * 960);
  for (uint32_t i = 0; i < m->dev[0].nsm; i++) {
    const struct sm *sm = &m->dev[0].sm[i];
    ck_assert_uint_eq(sm->threads + sm->ctas + sm->shared_bytes + sm->registers, 0);
  }
  r.shared = 228 * 1024;
  struct grid *g = engine_grid(&r);
  ck_assert(!grid_submit(g));
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_TEST("simt", reconvergence, 20),
      BWT_TEST("simt", spinning_siblings, 20),
      BWT_LOOP("barrier", named_barriers, 0, 5, 20),
      BWT_TEST("barrier", barrier_without_the_exited, 20),
      BWT_LOOP("cluster", cluster_barrier, 0, 5, 20),
      BWT_TEST("mbarrier", mbarrier_model, 20),
      BWT_LOOP("mbarrier", mbarrier_ring, 0, 10, 20),
      BWT_TEST("pdl", dependent_starts_early_or_not, 60),
      BWT_LOOP("race", races_show_both_outcomes, 0, (int)BWT_COUNT(racy), 60),
      BWT_LOOP("progress", hang_is_reported, 0, (int)BWT_COUNT(hangs), 300),
      BWT_TEST("polls", polls, 60),
      BWT_TEST("seed", seed_determines_the_run, 60),
      BWT_TEST("grids", placement, 60),
  };
  return bwt_suite_main("emulator engine", tests, BWT_COUNT(tests));
}
