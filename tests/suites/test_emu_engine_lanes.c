/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes that part go on as PTX allows: together again where their ways meet, or apart until
 * an instruction waits for all of them.  Each program tells the schedules apart by what its
 * lanes see of one another: over some seeds both must show, and never a third.  What waits
 * for lanes gets all of them on every seed.
 */
#include "emu_engine.h"

enum { SEEDS = 40 };

#define ALL 0xffffffffu

/* %r1: the lane, %p1: not in lane 0; %r4: the thread, %p4: the first; %r2: address of a shared
 * word, 0; %r9: what lane 31 returns. */
#define BEGIN                                                                                      \
  PTX_HEAD ".visible .entry k(.param .u64 out) {\n"                                                \
           "  .reg .b64 %rd<4>; .reg .b32 %r<12>; .reg .pred %p<6>;\n"                             \
           "  .shared .align 8 .b64 word, bell;\n"                                                 \
           "  ld.param.u64 %rd1, [out];\n"                                                         \
           "  mov.u32 %r1, %laneid;\n"                                                             \
           "  mov.u32 %r2, word;\n"                                                                \
           "  setp.ne.u32 %p1, %r1, 0;\n"                                                          \
           "  setp.eq.u32 %p2, %r1, 31;\n"                                                         \
           "  mov.u32 %r4, %tid.x;\n"                                                              \
           "  setp.eq.u32 %p4, %r4, 0;\n"                                                          \
           "  @%p4 st.shared.u32 [%r2], 0;\n"                                                      \
           "  bar.warp.sync 0xffffffff;\n"
#define END                                                                                        \
  "  @%p2 st.global.u32 [%rd1], %r9;\n"                                                            \
  "  ret;\n"                                                                                       \
  "}\n"

static const struct apart {
  const char *what, *ptx;
  uint64_t one, other; /* what lane 31 may return; other 0: only one */
} programs[] = {
    {"lane 0 stores before, or after, the others read behind its block",
     BEGIN "  mov.u32 %r3, 7;\n"
           "  @%p1 bra JOIN;\n"
           "  st.relaxed.cta.shared.u32 [%r2], %r3;\n"
           "JOIN:\n"
           "  ld.relaxed.cta.shared.u32 %r9, [%r2];\n"
           "  add.u32 %r9, %r9, 1;\n" END,
     8, 1},
    {"behind a block of lane 0 the lanes are together, or all but it",
     BEGIN "  @%p1 bra JOIN;\n"
           "  st.shared.u32 [%r2], 1;\n"
           "JOIN:\n"
           "  activemask.b32 %r9;\n" END,
     ALL, ALL - 1},
    {"lane 31 may be the one that runs ahead of the others",
     BEGIN "  @!%p2 bra JOIN;\n"
           "  st.shared.u32 [%r2], 1;\n"
           "JOIN:\n"
           "  activemask.b32 %r9;\n" END,
     ALL, 0x80000000},
    {"behind a loop that one lane leaves late",
     BEGIN "  selp.u32 %r3, 2, 5, %p1;\n"
           "TURN:\n"
           "  sub.u32 %r3, %r3, 1;\n"
           "  setp.ne.u32 %p3, %r3, 0;\n"
           "  @%p3 bra TURN;\n"
           "  activemask.b32 %r9;\n" END,
     ALL, ALL - 1},
    {"behind a branch by a table",
     BEGIN "  min.u32 %r3, %r1, 1;\n"
           "  TABLE: .branchtargets ZERO, JOIN;\n"
           "  brx.idx %r3, TABLE;\n"
           "ZERO:\n"
           "  st.shared.u32 [%r2], 1;\n"
           "JOIN:\n"
           "  activemask.b32 %r9;\n" END,
     ALL, ALL - 1},
    {"bar.warp.sync brings all together",
     BEGIN "  @%p1 bra JOIN;\n"
           "  st.shared.u32 [%r2], 7;\n"
           "JOIN:\n"
           "  bar.warp.sync 0xffffffff;\n"
           "  activemask.b32 %r9;\n"
           "  ld.shared.u32 %r3, [%r2];\n"
           "  sub.u32 %r3, %r3, 7;\n"
           "  add.u32 %r9, %r9, %r3;\n" END,
     ALL, 0},
    {"so do vote.sync and shfl.sync, each with all lanes",
     BEGIN "  mov.u32 %r4, 3;\n"
           "  @%p1 bra JOIN;\n"
           "  mov.u32 %r4, 7;\n"
           "JOIN:\n"
           "  shfl.sync.idx.b32 %r5, %r4, 0, 0x1f, 0xffffffff;\n"
           "  setp.eq.u32 %p3, %r5, 7;\n"
           "  @%p1 bra AGAIN;\n"
           "  st.shared.u32 [%r2], 1;\n"
           "AGAIN:\n"
           "  vote.sync.ballot.b32 %r9, %p3, 0xffffffff;\n" END,
     ALL, 0},
    {".aligned instructions wait for lanes that are apart",
     BEGIN "  @%p1 bra JOIN;\n"
           "  st.shared.u32 [%r2], 7;\n"
           "JOIN:\n"
           "  bar.sync 0;\n"
           "  ld.shared.u32 %r9, [%r2];\n"
           "  mul.lo.u32 %r9, %r9, 0x10001;\n"
           "  @%p1 bra AGAIN;\n"
           "  add.u32 %r9, %r9, 8;\n"
           "AGAIN:\n"
           "  movmatrix.sync.aligned.m8n8.trans.b16 %r9, %r9;\n" END,
     0x00070007, 0},
};

static const struct apart *program;
static uint32_t block = 32;

static uint64_t run_program(void) {
  const uint64_t out = engine_memory(4, NULL);
  const struct run r = {
      .ptx = program->ptx, .block = block, .params = &out, .params_size = sizeof out};
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  return *(const uint32_t *)engine_data(out);
}

START_TEST(lanes_apart) {
  program = &programs[_i];
  unsigned one = 0, other = 0;
  for (unsigned seed = 0; seed < SEEDS; seed++) {
    const uint64_t v = in_child(seed, "all", run_program);
    one += v == program->one;
    other += v == program->other;
    BWT_REQUIRE(v == program->one || (program->other && v == program->other),
                "%s: 0x%llx, EMU_SEED=%u", program->what, (unsigned long long)v, seed);
  }
  BWT_REQUIRE(one > 0, "%s: never 0x%llx over %d seeds", program->what,
              (unsigned long long)program->one, SEEDS);
  BWT_REQUIRE(other > 0 || !program->other, "%s: never 0x%llx over %d seeds", program->what,
              (unsigned long long)program->other, SEEDS);
}
END_TEST

/* Lanes that waited together for a phase of an mbarrier, until the other warp arrived, go on
 * together, or some of them later. */
static const char waiting_ptx[] = BEGIN "  mov.u32 %r4, %tid.x;\n"
                                        "  setp.eq.u32 %p4, %r4, 0;\n"
                                        "  @%p4 mbarrier.init.shared::cta.b64 [%r2], 64;\n"
                                        "  bar.sync 0;\n"
                                        "  mov.u32 %r3, 300;\n"
                                        "  setp.lt.u32 %p5, %r4, 32;\n"
                                        "  @%p5 bra ARRIVE;\n"
                                        "SPIN:\n"
                                        "  sub.u32 %r3, %r3, 1;\n"
                                        "  setp.ne.u32 %p3, %r3, 0;\n"
                                        "  @%p3 bra SPIN;\n"
                                        "ARRIVE:\n"
                                        "  mbarrier.arrive.shared::cta.b64 %rd2, [%r2];\n"
                                        "  @!%p5 exit;\n"
                                        "WAIT:\n"
                                        "  mbarrier.try_wait.shared::cta.b64 %p3, [%r2], %rd2;\n"
                                        "  @!%p3 bra WAIT;\n"
                                        "  activemask.b32 %r9;\n" END;

START_TEST(waits_end_apart) {
  const struct apart waiting = {.ptx = waiting_ptx};
  unsigned whole = 0, parts = 0;
  block = 64;
  program = &waiting;
  for (unsigned seed = 0; seed < SEEDS; seed++) {
    const uint32_t v = (uint32_t)in_child(seed, "all", run_program);
    whole += v == ALL;
    parts += v != ALL;
  }
  BWT_REQUIRE(whole > 0 && parts > 0, "the waiting lanes go on together %u times, in parts %u",
              whole, parts);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_LOOP("apart", lanes_apart, 0, (int)BWT_COUNT(programs), 60),
      BWT_TEST("apart", waits_end_apart, 60),
  };
  return bwt_suite_main("emulator engine: lanes", tests, BWT_COUNT(tests));
}
