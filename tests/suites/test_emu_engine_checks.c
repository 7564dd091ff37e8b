/* SPDX-License-Identifier: Apache-2.0
 *
 * What the emulated machine refuses: each small kernel breaks one rule, and the report
 * must name the rule and the line; its twin, without the fault, must run clean.
 */
#include "emu_engine.h"

/* A kernel's body with "BAD" where the faulty line stands; clean: what stands there in
 * the twin.  The parameters are a pointer to 64 defined bytes and one to 64 bytes that
 * nobody wrote. */
struct broken {
  const char *rule, *bad, *clean, *before, *after;
  uint32_t block, cluster;
};

#define HEAD                                                                                       \
  PTX_HEAD ".visible .entry k(.param .u64 def, .param .u64 undef) {\n"                             \
           "  .reg .b64 %rd<16>; .reg .b32 %r<24>; .reg .pred %p<8>; .reg .b128 %q<2>;\n"          \
           "  .local .align 8 .b8 scratch[32];\n"                                                  \
           "  .shared .align 128 .b8 box[256];\n"                                                  \
           "  ld.param.u64 %rd1, [def];\n"                                                         \
           "  ld.param.u64 %rd2, [undef];\n"                                                       \
           "  mov.u32 %r1, box;\n"                                                                 \
           "  mov.u32 %r2, %tid.x;\n"                                                              \
           "  mov.u32 %r3, 1;\n"
#define INIT "  mbarrier.init.shared::cta.b64 [%r1], 2;\n"

static const struct broken cases[] = {
    /* bounds, alignment, lifetime, space */
    {"oob-global", "ld.global.u32 %r4, [%rd1+64];", "ld.global.u32 %r4, [%rd1+60];", "", "", 1, 1},
    {"oob-global", "ld.global.u32 %r4, [%rd1+-4];", "ld.global.u32 %r4, [%rd1];", "", "", 1, 1},
    {"oob-global", "st.global.v4.u32 [%rd1+64], {%r3,%r3,%r3,%r3};",
     "st.global.v4.u32 [%rd1+48], {%r3,%r3,%r3,%r3};", "", "", 1, 1},
    {"oob-global", "atom.global.add.u32 %r4, [%rd1+64], 1;",
     "atom.global.add.u32 %r4, [%rd1+60], 1;", "", "", 1, 1},
    {"oob-global", "ld.global.u32 %r4, [%rd3];", "ld.global.u32 %r4, [%rd1];",
     "  mov.u64 %rd3, 0;\n", "", 1, 1},
    {"oob-global", "ld.u32 %r4, [%rd1+64];", "ld.u32 %r4, [%rd1+60];", "", "", 1, 1},
    {"oob-shared", "st.shared.u32 [%r1+256], %r3;", "st.shared.u32 [%r1+252], %r3;", "", "", 1, 1},
    {"oob-shared", "st.shared.u32 [%r5], %r3;", "st.shared.u32 [%r1], %r3;",
     "  mov.u32 %r5, 0x40000;\n", "", 1, 1},
    {"oob-local", "st.local.u32 [scratch+32], %r3;", "st.local.u32 [scratch+28], %r3;", "", "", 1,
     1},
    {"oob-param", "ld.param.u32 %r4, [undef+8];", "ld.param.u32 %r4, [undef+4];", "", "", 1, 1},
    {"oob-cluster", "st.shared::cluster.u32 [%r4], %r3;", "st.shared::cluster.u32 [%r1], %r3;",
     "  or.b32 %r4, %r1, 0x5000000;\n", "", 1, 1},
    {"misaligned-access", "ld.global.u32 %r4, [%rd1+2];", "ld.global.u32 %r4, [%rd1+4];", "", "", 1,
     1},
    {"misaligned-access", "ld.global.v4.u32 {%r4,%r5,%r6,%r7}, [%rd1+8];",
     "ld.global.v4.u32 {%r4,%r5,%r6,%r7}, [%rd1+16];", "", "", 1, 1},
    {"misaligned-access", "st.shared.u64 [%r1+4], %rd1;", "st.shared.u64 [%r1+8], %rd1;", "", "", 1,
     1},
    {"misaligned-access", "ld.global.v8.b32 {%r4,%r5,%r6,%r7,%r8,%r9,%r10,%r11}, [%rd1+16];",
     "ld.global.v8.b32 {%r4,%r5,%r6,%r7,%r8,%r9,%r10,%r11}, [%rd1+32];", "", "", 1, 1},
    {"misaligned-access", "cp.async.ca.shared.global [%r1], [%rd1+4], 8;",
     "cp.async.ca.shared.global [%r1], [%rd1+8], 8;", "", "", 1, 1},
    {"wrong-space", "ld.global.u32 %r4, [%rd3];", "ld.u32 %r4, [%rd3];",
     "  st.shared.u32 [%r1], %r3;\n  cvta.shared.u64 %rd3, box;\n", "", 1, 1},
    {"wrong-space", "ld.shared.u32 %r4, [%r5];", "ld.shared::cluster.u32 %r4, [%r5];",
     "  st.shared.u32 [%r1], %r3;\n  barrier.cluster.arrive;\n  barrier.cluster.wait;\n"
     "  mov.u32 %r6, %cluster_ctarank;\n  xor.b32 %r6, %r6, 1;\n"
     "  mapa.shared::cluster.u32 %r5, %r1, %r6;\n",
     "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n", 1, 2},
    /* undefined values that decide something or get out */
    {"undef-branch", "@%p1 bra OUT;", "@%p2 bra OUT;",
     "  setp.eq.u32 %p1, %r9, 0;\n  setp.eq.u32 %p2, %r3, 0;\n", "OUT:\n", 1, 1},
    {"undef-predicate", "@%p1 add.u32 %r3, %r3, 1;", "@%p2 add.u32 %r3, %r3, 1;",
     "  ld.shared.u32 %r4, [%r1];\n  setp.eq.u32 %p1, %r4, 0;\n  setp.eq.u32 %p2, %r3, 0;\n", "", 1,
     1},
    {"undef-address", "ld.global.u32 %r4, [%rd3];", "ld.global.u32 %r4, [%rd1];", "", "", 1, 1},
    {"undef-address", "st.shared.u32 [%r4], %r3;", "st.shared.u32 [%r1], %r3;",
     "  ld.global.u32 %r4, [%rd2];\n", "", 1, 1},
    {"undef-count", "bar.sync 1, %r4;", "bar.sync 1, %r5;", "  mov.u32 %r5, 32;\n", "", 32, 1},
    {"undef-count", "mbarrier.arrive.shared::cta.b64 _, [%r1], %r4;",
     "mbarrier.arrive.shared::cta.b64 _, [%r1], %r3;", INIT, "", 1, 1},
    {"undef-mask", "bar.warp.sync %r4;", "bar.warp.sync %r3;", "", "", 1, 1},
    {"undef-store", "st.global.u32 [%rd1], %r4;", "st.global.u32 [%rd1], %r3;", "", "", 1, 1},
    {"undef-store", "st.global.u32 [%rd1], %r4;", "st.shared.u32 [%r1+4], %r4;",
     "  ld.shared.u32 %r4, [%r1];\n", "", 1, 1},
    {"undef-store", "st.global.u32 [%rd1], %r4;", "st.local.u32 [scratch], %r4;",
     "  ld.local.u32 %r4, [scratch+4];\n", "", 1, 1},
    {"undef-store", "st.global.v2.u32 [%rd1], {%r3,%r4};", "st.global.v2.u32 [%rd1], {%r3,%r3};",
     "", "", 1, 1},
    {"undef-store", "st.global.b128 [%rd1], %q1;", "st.global.b64 [%rd1], %rd1;", "", "", 1, 1},
    {"undef-store", "red.global.add.u32 [%rd1], %r4;", "red.global.add.u32 [%rd1], %r3;", "", "", 1,
     1},
    {"undef-store", "atom.global.add.u32 %r4, [%rd2], 1;", "atom.global.exch.b32 %r4, [%rd2], 1;",
     "", "", 1, 1},
    {"undef-compare", "atom.global.cas.b32 %r4, [%rd2], 0, 1;",
     "atom.global.cas.b32 %r4, [%rd1], 0, 1;", "", "", 1, 1},
    {"undef-store", "st.shared::cluster.u32 [%r5], %r4;", "st.shared::cluster.u32 [%r5], %r3;",
     "  mov.u32 %r6, %cluster_ctarank;\n  xor.b32 %r6, %r6, 1;\n"
     "  mapa.shared::cluster.u32 %r5, %r1, %r6;\n"
     "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n",
     "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n", 1, 2},
    /* mbarrier */
    {"mbarrier-uninitialised", "mbarrier.arrive.shared::cta.b64 _, [%r1+8];",
     "mbarrier.arrive.shared::cta.b64 _, [%r1];", INIT, "", 1, 1},
    {"mbarrier-overflow", "mbarrier.arrive.shared::cta.b64 _, [%r1], 3;",
     "mbarrier.arrive.shared::cta.b64 _, [%r1], 2;", INIT, "", 1, 1},
    {"mbarrier-tx-range", "mbarrier.expect_tx.shared::cta.b64 [%r1], 0x100000;",
     "mbarrier.expect_tx.shared::cta.b64 [%r1], 0xfffff;", INIT,
     "  mbarrier.complete_tx.shared::cta.b64 [%r1], 0xfffff;\n", 1, 1},
    {"mbarrier-reinit", "mbarrier.init.shared::cta.b64 [%r1], 1;",
     "mbarrier.init.shared::cta.b64 [%r1+8], 1;", INIT, "", 1, 1},
    {"mbarrier-count", "mbarrier.init.shared::cta.b64 [%r1], %r4;",
     "mbarrier.init.shared::cta.b64 [%r1], %r3;", "  mov.u32 %r4, 0;\n", "", 1, 1},
    {"mbarrier-overwritten", "st.shared.u32 [%r1+4], %r3;", "st.shared.u32 [%r1+8], %r3;", INIT, "",
     1, 1},
    {"mbarrier-remote", "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r5], 1;",
     "mbarrier.arrive.shared::cluster.b64 _, [%r5];",
     INIT "  mov.u32 %r6, %cluster_ctarank;\n  xor.b32 %r6, %r6, 1;\n"
          "  mapa.shared::cluster.u32 %r5, %r1, %r6;\n"
          "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n",
     "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n", 1, 2},
    {"misaligned-access", "mbarrier.init.shared::cta.b64 [%r1+4], 1;",
     "mbarrier.init.shared::cta.b64 [%r1+8], 1;", "", "", 1, 1},
    {"mbarrier-nocomplete", "mbarrier.arrive.noComplete.shared::cta.b64 %rd3, [%r1], 2;",
     "mbarrier.arrive.noComplete.shared::cta.b64 %rd3, [%r1], 1;", INIT, "", 1, 1},
    /* participation */
    {"aligned-divergent", "@%p1 bar.sync 0;", "@%p2 bar.sync 0;",
     "  setp.lt.u32 %p1, %r2, 7;\n  setp.lt.u32 %p2, %r2, 64;\n", "", 32, 1},
    {"aligned-divergent", "bar.sync 0;", "barrier.sync 0;",
     "  setp.lt.u32 %p1, %r2, 7;\n  @%p1 bra OUT;\n", "OUT:\n", 32, 1},
    {"member-divergent", "bar.warp.sync 0xffffffff;", "bar.warp.sync 0x3;",
     "  setp.ge.u32 %p1, %r2, 2;\n  @%p1 bra OUT;\n",
     "  bra END;\nOUT:\n  bar.warp.sync 0xfffffffe;\nEND:\n", 32, 1},
    {"member-mask", "bar.warp.sync 0x7fffffff;", "bar.warp.sync 0xffffffff;", "", "", 32, 1},
    {"barrier-count", "@%p1 bar.sync 1, 64;", "@%p1 bar.sync 1, 32;",
     "  setp.lt.u32 %p1, %r2, 32;\n  setp.ge.u32 %p2, %r2, 32;\n  @%p2 bar.sync 2, 32;\n"
     "  @%p2 bar.arrive 1, 96;\n  bar.sync 3;\n",
     NULL, 96, 1},
    {"barrier-id", "barrier.sync %r4;", "barrier.sync %r3;", "  mov.u32 %r4, 16;\n", "", 32, 1},
    {"cluster-wait-without-arrive", "barrier.cluster.wait;", "barrier.cluster.arrive;", "", "", 1,
     1},
    {"cluster-arrive-twice", "barrier.cluster.arrive.release;", "barrier.cluster.wait;",
     "  barrier.cluster.arrive;\n", "", 1, 1},
};

static const char *source_of(const struct broken *c, const char *line) {
  static char text[8192];
  (void)snprintf(text, sizeof text, "%s%s  %s\n%s  ret;\n}\n", HEAD, c->before, line,
                 c->after ? c->after : "");
  return text;
}

static struct run run_of(const struct broken *c, const char *line, uint64_t p[2]) {
  p[0] = engine_memory(64, NULL);
  p[1] = global_alloc(&machine_get()->dev[0], 64, 64, "never written")->base;
  return (struct run){.ptx = source_of(c, line),
                      .grid = c->cluster,
                      .block = c->block,
                      .cluster = c->cluster,
                      .params = p,
                      .params_size = 2 * sizeof *p};
}

START_TEST(broken_rule_is_reported) {
  const struct broken *c = &cases[_i];
  (void)engine_start(1, "all");
  uint64_t p[2];
  struct run r = run_of(c, c->bad, p);
  expect_report(&r, c->rule, c->bad);
}
END_TEST

START_TEST(twin_is_clean) {
  const struct broken *c = &cases[_i];
  if (!c->after)
    return; /* the surroundings are part of the fault */
  (void)engine_start(1, "all");
  uint64_t p[2];
  struct run r = run_of(c, c->clean, p);
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  ck_assert_uint_eq(report_count(machine_get()), 0);
}
END_TEST

/* With checks off, undefined values are whatever they are and nothing is reported. */
START_TEST(checks_off) {
  (void)engine_start(1, "none");
  unsigned ran = 0;
  for (size_t i = 0; i < BWT_COUNT(cases); i++) {
    const struct broken *c = &cases[i];
    if (strncmp(c->rule, "undef-store", 11) != 0)
      continue;
    uint64_t p[2];
    struct run r = run_of(c, c->bad, p);
    ck_assert_int_eq(engine_run(&r), GRID_complete);
    ran++;
  }
  ck_assert_uint_gt(ran, 5);
  ck_assert_uint_eq(report_count(machine_get()), 0);
}
END_TEST

START_TEST(freed_memory) {
  struct machine *m = engine_start(1, "all");
  const struct broken c = {.before = "", .after = "", .block = 1, .cluster = 1};
  uint64_t p[2];
  struct run r = run_of(&c, "ld.global.u32 %r4, [%rd1];", p);
  global_free(global_find(m, p[0]));
  expect_report(&r, "use-after-free", "ld.global.u32 %r4");
}
END_TEST

/* A CTA that has exited is no place to write to. */
START_TEST(exited_peer) {
  (void)engine_start(1, "all");
  static const char ptx[] = HEAD "  mov.u32 %r6, %cluster_ctarank;\n"
                                 "  setp.eq.u32 %p1, %r6, 1;\n"
                                 "  @%p1 exit;\n"
                                 "  mapa.shared::cluster.u32 %r5, %r1, 1;\n"
                                 "  mov.u32 %r7, 0;\n"
                                 "LOOP: add.u32 %r7, %r7, 1;\n"
                                 "  setp.lt.u32 %p2, %r7, 5000;\n"
                                 "  @%p2 bra LOOP;\n"
                                 "  st.shared::cluster.u32 [%r5], %r7;\n"
                                 "  ret;\n}\n";
  const uint64_t p[2] = {engine_memory(64, NULL), engine_memory(64, NULL)};
  const struct run r = {
      .ptx = ptx, .grid = 2, .cluster = 2, .block = 1, .params = p, .params_size = sizeof p};
  expect_report(&r, "dsmem-exited", "st.shared::cluster");
}
END_TEST

/* Told to go on, a launch ends well and every report is counted. */
START_TEST(keep_going) {
  (void)setenv("EMU_KEEP_GOING", "1", 1);
  (void)engine_start(1, "all");
  const struct broken c = {.before = "", .after = "", .block = 32, .cluster = 1};
  uint64_t p[2];
  struct run r = run_of(&c, "st.global.u32 [%rd1], %r4;", p);
  ck_assert_int_eq(engine_run(&r), GRID_complete);
  ck_assert_uint_eq(report_count(machine_get()), 32);
}
END_TEST

/* One JSON object a line, with what a program needs. */
START_TEST(json_lines) {
  char path[] = "/tmp/emu_report_XXXXXX";
  int fd = mkstemp(path);
  ck_assert_int_ge(fd, 0);
  (void)setenv("EMU_REPORT", path, 1);
  (void)engine_start(1, "all");
  const struct broken c = {.before = "", .after = "", .block = 1, .cluster = 1};
  uint64_t p[2];
  struct run r = run_of(&c, "st.global.u32 [%rd1], %r4;", p);
  ck_assert_int_eq(engine_run(&r), GRID_failed);
  char text[4096] = "";
  ck_assert_int_gt(read(fd, text, sizeof text - 1), 0);
  (void)close(fd);
  (void)unlink(path);
  static const char *const parts[] = {"{\"check\":2,\"group\":\"undef\",\"rule\":\"undef-store\",",
                                      "\"kernel\":\"k\",\"line\":",
                                      "\"text\":\"st.global.u32 [%rd1], %r4\"",
                                      "\"cta\":[0,0,0]",
                                      "\"thread\":[0,0,0]",
                                      "\"space\":\"global\",\"address\":\"0x",
                                      "\"other\":null}\n"};
  for (size_t i = 0; i < BWT_COUNT(parts); i++)
    ck_assert_msg(strstr(text, parts[i]) != NULL, "%s not in %s", parts[i], text);
}
END_TEST

/* A poll that never ends: its words are named with their values, neighbours that are alike
 * together.  Lane i polls words 4i to 4i+3; those of lanes 2 and 3 stay empty. */
START_TEST(polled_words_are_named) {
  static const char *const text =
      PTX_HEAD ".visible .entry k(.param .u64 ring) {\n"
               "  .reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p<6>;\n"
               "  ld.param.u64 %rd1, [ring];\n"
               "  mov.u32 %r1, %tid.x;\n"
               "  mad.wide.u32 %rd2, %r1, 16, %rd1;\n"
               "  shr.u32 %r2, %r1, 1;\n"
               "  setp.eq.u32 %p1, %r2, 1;\n"
               "  @%p1 st.relaxed.sys.global.v4.b32 [%rd2], "
               "{0x80000000, 0x80000000, 0x80000000, 0x80000000};\n"
               "again:\n"
               "  ld.relaxed.sys.global.v4.b32 {%r3, %r4, %r5, %r6}, [%rd2];\n"
               "  setp.eq.u32 %p2, %r3, 0x80000000;\n"
               "  @%p2 bra again;\n"
               "  ret;\n}\n";
  (void)engine_start(6, "all");
  uint64_t ring = engine_memory(512, NULL);
  const struct run r = {.ptx = text, .block = 32, .params = &ring, .params_size = sizeof ring};
  char words[160];
  ck_assert_int_eq(engine_run(&r), GRID_failed);
  const struct report_record *q = report_at(machine_get(), 0);
  ck_assert_ptr_nonnull(q);
  ck_assert_str_eq(q->rule, "no-progress");
  (void)snprintf(words, sizeof words,
                 "0x%llx and 7 words behind it = 0x80000000, last written by k line %u (device 0, ",
                 (unsigned long long)ring + 32, line_of(text, "@%p1 st.relaxed"));
  ck_assert_msg(strstr(q->text, words) != NULL, "%s in %s", words, q->text);
  ck_assert_msg(strstr(q->text, "= 0x00000000") == NULL, "words that nobody polls: %s", q->text);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_LOOP("rule", broken_rule_is_reported, 0, (int)BWT_COUNT(cases), 20),
      BWT_LOOP("twin", twin_is_clean, 0, (int)BWT_COUNT(cases), 20),
      BWT_TEST("off", checks_off, 20),
      BWT_TEST("lifetime", freed_memory, 20),
      BWT_TEST("lifetime", exited_peer, 20),
      BWT_TEST("report", keep_going, 20),
      BWT_TEST("report", json_lines, 20),
      BWT_TEST("progress", polled_words_are_named, 60),
  };
  return bwt_suite_main("emulator engine checks", tests, BWT_COUNT(tests));
}
