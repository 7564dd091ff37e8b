/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutation testing (tests/mutate): what it makes of a text, and a sample of the mutants of
 * the shipped kernels, each of which must be caught.  `make mutate` runs all of them.
 */
#include "harness/command.h"
#include "harness/kernel.h"
#include "harness/suite.h"
#include "mutate/mutant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Spread evenly over what `make mutate` takes whole; Hopper's long kernels take the longest. */
static const struct {
  const char *options;
  int count;
} samples[] = {
    {"--match 'wo_a/sm_100f/*'", 32},    {"--match 'up_proj/*'", 10},
    {"--match 'lamport_copy/*'", 6},     {"--match 'wo_a/sm_90a/t[17]x*'", 12},
    {"--match 'wo_a/sm_90a/t[23]*'", 4},
};

/* ---- what can be broken ------------------------------------------------------------------ */

static const char text[] = ".version 9.0 // fence.sc.gpu;\n"
                           "  // ---- the step ------\n"
                           "  mbarrier.init.shared::cta.b64 [a+8], 2;  // bar.sync 0;\n"
                           "  @p fence.acq_rel.sys;\n"
                           "again:\n"
                           "  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 q, [a], r;\n"
                           "  st.relaxed.sys.global.b32 [b], c;\n"
                           "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [a], 64;\n"
                           "  mbarrier.arrive.shared::cta.b64 _, [a];\n"
                           "  bar.sync 1, 64;\n"
                           "  atom.acq_rel.gpu.global.add.u32 d, [b], 1;\n"
                           "  and.b32 generation, step, 1;\n"
                           "  fence.mbarrier_init.release.cluster;\n"
                           "  fence.release.sync_restrict::shared::cta.cluster;\n"
                           "  add.u32 d, d, 1;\n";

static const struct {
  uint32_t line;
  enum bwm_kind kind;
  const char *replacement;
} wanted[] = {
    {3, BWM_delete, ""},
    {3, BWM_arrivals, "mbarrier.init.shared::cta.b64 [a+8], 3;"},
    {3, BWM_arrivals, "mbarrier.init.shared::cta.b64 [a+8], 1;"},
    {4, BWM_delete, ""},
    {4, BWM_scope, "@p fence.acq_rel.gpu ;"},
    {4, BWM_semantics, "@p fence.acquire.sys ;"},
    {4, BWM_semantics, "@p fence.release.sys ;"},
    {6, BWM_delete, "setp.eq.u32 q, 0, 0;"},
    {6, BWM_scope, "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 q, [a], r;"},
    {6, BWM_semantics, "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 q, [a], r;"},
    {6, BWM_parity,
     "{ .reg .b32 mutated; xor.b32 mutated, r, 1; "
     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 q, [a], mutated; }"},
    {7, BWM_scope, "st.relaxed.gpu.global.b32 [b], c;"},
    {7, BWM_semantics, "st.global.b32 [b], c;"},
    {8, BWM_delete, ""},
    {8, BWM_bytes, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [a], 80;"},
    {8, BWM_bytes, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [a], 48;"},
    {9, BWM_delete, ""},
    {9, BWM_semantics, "mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [a];"},
    {9, BWM_arrivals, "mbarrier.arrive.shared::cta.b64 _, [a], 2;"},
    {10, BWM_delete, ""},
    {10, BWM_arrivals, "bar.sync 1, 96;"},
    {10, BWM_arrivals, "bar.sync 1, 32;"},
    {11, BWM_scope, "atom.acq_rel.cta.global.add.u32 d, [b], 1;"},
    {11, BWM_semantics, "atom.acquire.gpu.global.add.u32 d, [b], 1;"},
    {11, BWM_semantics, "atom.release.gpu.global.add.u32 d, [b], 1;"},
    {11, BWM_semantics, "atom.relaxed.gpu.global.add.u32 d, [b], 1;"},
    {12, BWM_generation, "and.b32 generation, step, 0;"},
    {12, BWM_generation, "and.b32 generation, step, 3;"},
    {13, BWM_delete, ""},
    {14, BWM_delete, ""},
};

START_TEST(mutants_of_a_text) {
  struct bwm_mutant *list;
  size_t count;
  ck_assert(bwm_mutants(text, &list, &count));
  for (size_t i = 0; i < count && i < BWT_COUNT(wanted); i++) {
    ck_assert_msg(list[i].line == wanted[i].line && list[i].kind == wanted[i].kind &&
                      strcmp(list[i].replacement, wanted[i].replacement) == 0,
                  "mutant %zu, line %u, %s, is \"%s\", must be line %u: \"%s\"", i, list[i].line,
                  bwm_kind_name(list[i].kind), list[i].replacement, wanted[i].line,
                  wanted[i].replacement);
    ck_assert_str_eq(list[i].step, "the step");
  }
  ck_assert_uint_eq(count, BWT_COUNT(wanted));
  free(list);
}
END_TEST

/* One line changes, and stays one. */
START_TEST(applied) {
  struct bwm_mutant *list;
  size_t count;
  ck_assert(bwm_mutants(text, &list, &count));
  for (size_t i = 0; i < count; i++) {
    char *broken = bwm_apply(text, &list[i]);
    ck_assert_ptr_nonnull(broken);
    const char *a = text, *b = broken;
    for (uint32_t line = 1; *a != '\0'; line++) {
      size_t la = strcspn(a, "\n"), lb = strcspn(b, "\n");
      bool same = la == lb && memcmp(a, b, la) == 0;
      ck_assert_msg(same == (line != list[i].line), "mutant %zu, line %u", i, line);
      a += la + 1;
      b += lb + 1;
    }
    ck_assert_int_eq(*b, '\0');
    free(broken);
  }
  free(list);
}
END_TEST

/* ---- a sample of the shipped kernels' ---------------------------------------------------- */

START_TEST(a_sample_is_caught) {
  static char output[1 << 16];
  char program[PATH_MAX];
  ck_assert_msg(bwt_build_file("tests/mutate", program), "no tests/mutate in the build");
  int status = bwt_command(output, sizeof output, "'%s' --sample %d %s", program,
                           samples[_i].count * (bwt_full() ? 4 : 1), samples[_i].options);
  printf("%s", output);
  size_t length = strlen(output);
  ck_assert_msg(status == 0, "exit status %d:\n%s", status,
                length > 6000 ? output + length - 6000 : output);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_TEST("text", mutants_of_a_text, 30),
      BWT_TEST("text", applied, 30),
      BWT_LOOP("kernels", a_sample_is_caught, 0, (int)BWT_COUNT(samples), 3000),
  };
  return bwt_suite_main("mutate", tests, BWT_COUNT(tests));
}
