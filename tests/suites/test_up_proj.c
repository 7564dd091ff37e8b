/* SPDX-License-Identifier: Apache-2.0
 *
 * up_proj and lamport_copy, one launch at a time: every row count, both shards of the model,
 * 1, 2, 8 and 16 ranks, each way of storing, against the bit-exact reference; hard values;
 * launch options; the reader alone.  Steps of many ranks are in test_mailbox_*.
 */
#include "bundle.h"
#include "harness/random.h"
#include "harness/suite.h"
#include "harness/verify_up_proj.h"
#include "ref/formats.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LATENT = 3584, HIDDEN = 7168 };

static bw_bundle *bundle;
static struct bwt_ranks ranks;

static void setup(void) {
  struct bwt_text why = {0};
  ck_assert_msg(bw_bundle_open(NULL, &bundle) == BW_OK, "%s", bw_last_error());
  ck_assert_msg(bwt_ranks_open(&ranks, NULL, bundle, &why), "%s", why.chars);
}

static void teardown(void) {
  bwt_ranks_close(&ranks);
  bw_bundle_close(bundle);
}

/* Multicast is for the emulated driver: see bwt_allow_multicast. */
static bool no_multicast(bw_mailbox_mode mode) {
  return bwt_on_gpu() && mode == BW_MAILBOX_MULTICAST;
}

static void expect_pass(const struct bwt_up_proj_case *c) {
  static struct bwt_mail_result result;
  bwt_up_proj_verify(&ranks, c, &result);
  ck_assert_msg(result.passed, "failures 0x%x:\n%s%s", result.failures, result.why.chars,
                result.replay.chars);
}

/* ---- the reference -------------------------------------------------------------------- */

START_TEST(last_step_of_a_column) {
  static const struct {
    float sum;
    uint16_t shared, out;
  } wanted[] = {
      {0.0f, 0x0000, 0x0000},       {-0x1p-140f, 0x8000, 0x0000}, /* -0 becomes +0 */
      {-0.0f, 0x8000, 0x0000},      {0.0f, 0x8000, 0x0000},
      {-0x1p-140f, 0x8001, 0x8001}, {0.0f, 0x0001, 0x0001},
      {1.0f, 0xbf80, 0x0000},       {1.0f, 0x3f80, 0x4000},
      {NAN, 0x3f80, 0x7fff},        {1.0f, 0xffc1, 0x7fff},
      {INFINITY, 0x3f80, 0x7f80},   {INFINITY, 0xff80, 0x7fff},
      {0x1p127f, 0x7f00, 0x7f80},   {1.00390625f, 0x0000, 0x3f80}, /* a tie, to even */
  };
  for (size_t i = 0; i < BWT_COUNT(wanted); i++)
    BWT_SAME(ref_up_proj_finish(wanted[i].sum, wanted[i].shared), wanted[i].out);
  BWT_SAME(ref_up_proj_finish_raw(-0x1p-140f, 0x8000), 0x8000);
}
END_TEST

/* Where each product lands: 2^24 in one place and 1 in another leave 2^24 when they meet
 * first, and keep the 1 when it meets its own kind before. */
START_TEST(order_of_additions) {
  enum { BLOCK = 64, VECTOR = 8, L = 2 * BLOCK * VECTOR };
  const struct ref_up_proj_order order = {BLOCK, VECTOR};
  static float a[L], w[L];
  for (int k = 0; k < L; k++)
    w[k] = 1;
#define SUM_OF(...) (memset(a, 0, sizeof a), (__VA_ARGS__), ref_up_proj_sum(a, w, L, order))
  const float big = 0x1p24f;
  /* Within a thread in rising k: (big + 1) + 1 loses both. */
  ck_assert(SUM_OF(a[0] = big, a[1] = 1, a[2] = 1) == big);
  ck_assert(SUM_OF(a[2] = big, a[0] = 1, a[1] = 1) == big + 2);
  /* The next k tile is the same thread's: BLOCK * VECTOR on. */
  ck_assert(SUM_OF(a[0] = big, a[BLOCK * VECTOR] = 1, a[BLOCK * VECTOR + 1] = 1) == big);
  /* Lanes 0 and 16 meet first, then 8 apart: lane 1's group joins last. */
  ck_assert(SUM_OF(a[0] = big, a[16 * VECTOR] = 1, a[8 * VECTOR] = 1) == big);
  ck_assert(SUM_OF(a[0] = big, a[1 * VECTOR] = 1, a[17 * VECTOR] = 1) == big + 2);
  ck_assert(SUM_OF(a[0] = big, a[8 * VECTOR] = 1, a[24 * VECTOR] = 1) == big + 2);
  ck_assert(SUM_OF(a[0] = big, a[4 * VECTOR] = 1, a[8 * VECTOR] = 1) == big);
  /* Warps come last, in order. */
  ck_assert(SUM_OF(a[0] = big, a[32 * VECTOR] = 1, a[33 * VECTOR] = 1) == big + 2);
#undef SUM_OF
}
END_TEST

/* The hard results are in the operands: -0 before the rule in each half and in both. */
START_TEST(operands_are_hard) {
  enum { ROWS = 8, L = 256, S = 896 };
  struct bwt_up_proj_inputs in;
  unsigned minus_zero[4] = {0}, subnormal[2] = {0}, close = 0;
  ck_assert(bwt_up_proj_inputs_make(&in, BWT_UP_PROJ_mixed, ROWS, L, S, S, bwt_run_seed()));
  static float a[L], w[L];
  for (uint32_t m = 0; m < ROWS; m++)
    for (uint32_t pair = 0; pair < S / 2; pair++) {
      uint16_t raw[2];
      for (uint32_t half = 0; half < 2; half++) {
        uint32_t n = 2 * pair + half;
        for (uint32_t k = 0; k < L; k++) {
          a[k] = ref_bf16_value(in.latent[m * L + k]);
          w[k] = ref_bf16_value(in.weight[n * L + k]);
        }
        float sum = ref_up_proj_sum(a, w, L, (struct ref_up_proj_order){32, 8});
        raw[half] = ref_up_proj_finish_raw(sum, in.shared[m * S + n]);
        if ((raw[half] & 0x7fff) != 0 && (raw[half] & 0x7f80) == 0)
          subnormal[raw[half] >> 15]++;
      }
      uint32_t word = (uint32_t)raw[1] << 16 | raw[0];
      minus_zero[(raw[0] == 0x8000) + 2 * (raw[1] == 0x8000)]++;
      close += __builtin_popcount(word ^ 0x80000000u) == 1;
    }
  for (int i = 1; i < 4; i++)
    ck_assert_uint_gt(minus_zero[i], 10);
  ck_assert_uint_gt(subnormal[0], 10);
  ck_assert_uint_gt(subnormal[1], 10);
  ck_assert_uint_gt(close, 20);
  bwt_up_proj_inputs_free(&in);
}
END_TEST

/* ---- all sizes of the model --------------------------------------------------------------- */

static const struct {
  uint32_t tp_size;
  bw_mailbox_mode mode;
} ways[] = {
    {1, BW_MAILBOX_LOCAL},      {8, BW_MAILBOX_MULTICAST}, {16, BW_MAILBOX_PEERS},
    {2, BW_MAILBOX_MULTICAST},  {8, BW_MAILBOX_PEERS},     {2, BW_MAILBOX_LOCAL},
    {16, BW_MAILBOX_MULTICAST}, {2, BW_MAILBOX_PEERS},     {8, BW_MAILBOX_LOCAL},
    {16, BW_MAILBOX_LOCAL},     {1, BW_MAILBOX_PEERS},
};
enum { WAYS = sizeof ways / sizeof *ways, SIZES = 8 * 2 };

/* _i: rows and shard; with BW_FULL also the way, else one that depends on the seed. */
START_TEST(sizes_of_the_model) {
  uint32_t rows = 1 + (uint32_t)_i % 8, shard = _i / 8 % 2 ? 448 : 896;
  size_t way = bwt_full() ? (size_t)_i / SIZES : (bwt_run_seed() + (unsigned)_i * 7) % WAYS;
  if (no_multicast(ways[way].mode))
    BWT_SKIP("multicast");
  setup();
  uint32_t tp = ways[way].tp_size;
  uint32_t rank = (uint32_t)(bwt_mix(bwt_run_seed(), (uint64_t)_i) % tp);
  struct bwt_up_proj_case c =
      bwt_up_proj_case_for(rows, tp, rank, LATENT, shard * tp, ways[way].mode, bwt_run_seed());
  expect_pass(&c);
  teardown();
}
END_TEST

/* Every rank of 8, all three modes. */
START_TEST(every_rank) {
  setup();
  for (int mode = BW_MAILBOX_MULTICAST; mode <= BW_MAILBOX_LOCAL; mode++) {
    if (!bwt_full() && !bwt_on_gpu() && (bwt_run_seed() + (unsigned)_i) % 3 != (unsigned)mode % 3)
      continue;
    if (no_multicast((bw_mailbox_mode)mode))
      continue;
    struct bwt_up_proj_case c = bwt_up_proj_case_for(
        2, 8, (uint32_t)_i, 1792, 8 * 64, (bw_mailbox_mode)mode, bwt_run_seed() + (unsigned)_i);
    expect_pass(&c);
  }
  teardown();
}
END_TEST

/* ---- other sizes ---------------------------------------------------------------------------- */

static const struct {
  uint32_t rows, latent_dim, shard, tp_size;
  bw_mailbox_mode mode;
} shapes[] = {
    {1, 1792, 512, 2, BW_MAILBOX_MULTICAST}, /* 8 columns a CTA: .v4.f32 */
    {1, 5376, 64, 2, BW_MAILBOX_PEERS},      {1, 3584, 8, 1, BW_MAILBOX_LOCAL},
    {2, 1792, 64, 2, BW_MAILBOX_MULTICAST}, /* 4 columns, 2 tiles in flight, one there */
    {3, 5376, 40, 8, BW_MAILBOX_PEERS},      {8, 3584, 64, 3, BW_MAILBOX_PEERS},
    {7, 7168, 24, 5, BW_MAILBOX_LOCAL},      {5, 7168, 448, 1, BW_MAILBOX_LOCAL},
    {0, 3584, 448, 2, BW_MAILBOX_PEERS}, /* nothing launched, nothing written */
};

START_TEST(other_sizes) {
  if (no_multicast(shapes[_i].mode))
    BWT_SKIP("multicast");
  setup();
  struct bwt_up_proj_case c = bwt_up_proj_case_for(
      shapes[_i].rows, shapes[_i].tp_size, shapes[_i].tp_size - 1, shapes[_i].latent_dim,
      shapes[_i].shard * shapes[_i].tp_size, shapes[_i].mode, bwt_run_seed());
  expect_pass(&c);
  teardown();
}
END_TEST

/* ---- hard values, options ------------------------------------------------------ */

START_TEST(hard_values) {
  setup();
  static const bw_mailbox_mode modes[] = {BW_MAILBOX_LOCAL, BW_MAILBOX_PEERS, BW_MAILBOX_MULTICAST};
  for (uint32_t rows = 3; rows <= (bwt_full() ? 8u : 3u); rows++) {
    struct bwt_up_proj_case c =
        bwt_up_proj_case_for(rows, 2, 1, 3584, 2 * 128,
                             modes[(rows + (unsigned)_i) % (bwt_on_gpu() ? 2 : 3)], bwt_run_seed());
    c.kind = (enum bwt_up_proj_kind)_i;
    expect_pass(&c);
    c.hidden = 2 * 448; /* the other order of additions */
    if (bwt_full())
      expect_pass(&c);
  }
  teardown();
}
END_TEST

START_TEST(options) {
  static const struct {
    uint32_t plan, launch, mailbox;
    bool tight;
  } all[] = {
      {BW_UP_PROJ_WEIGHT_AFTER_WAIT, 0, 0, false},
      {0, BW_LAUNCH_NO_PDL, 0, true},
      {0, BW_LAUNCH_TRIGGER_AFTER_WAIT, 0, false},
      {0, BW_LAUNCH_TRIGGER_LATE, 0, true},
      {0, BW_LAUNCH_TRIGGER_ENTRY, BW_MAILBOX_COPY_WAITS_FIRST, false},
  };
  setup();
  for (size_t i = 0; i < BWT_COUNT(all); i++) {
    struct bwt_up_proj_case c =
        bwt_up_proj_case_for(4, 2, 0, 1792, 2 * 32, BW_MAILBOX_PEERS, bwt_run_seed() + i);
    c.plan_flags = all[i].plan;
    c.launch_flags = all[i].launch;
    c.mailbox_flags = all[i].mailbox;
    c.tight = all[i].tight;
    expect_pass(&c);
  }
  teardown();
}
END_TEST

/* ---- lamport_copy -------------------------------------------------------------- */

static const struct {
  uint32_t rows, tp_size, hidden;
} copies[] = {{1, 8, HIDDEN}, {8, 8, HIDDEN}, {3, 16, HIDDEN}, {5, 1, HIDDEN}, {1, 1, 8},
              {2, 2, 24},     {33, 4, 512},   {0, 8, HIDDEN},  {7, 16, 1024},  {100, 2, 64}};

START_TEST(copies_words) {
  static const uint32_t flags[] = {0, BW_LAUNCH_NO_PDL, BW_LAUNCH_TRIGGER_ENTRY,
                                   BW_LAUNCH_TRIGGER_LATE, BW_LAUNCH_TRIGGER_AFTER_WAIT};
  static struct bwt_mail_result result;
  setup();
  struct bwt_lamport_copy_case c = bwt_lamport_copy_case_for(copies[_i].rows, copies[_i].tp_size,
                                                             copies[_i].hidden, bwt_run_seed());
  c.launch_flags = flags[(size_t)_i % BWT_COUNT(flags)];
  c.mailbox_flags = _i % 3 == 2 ? BW_MAILBOX_COPY_WAITS_FIRST : 0;
  bwt_lamport_copy_verify(&ranks, &c, &result);
  ck_assert_msg(result.passed, "failures 0x%x:\n%s%s", result.failures, result.why.chars,
                result.replay.chars);
  teardown();
}
END_TEST

/* ---- the code of each entry ---------------------------------------------------- */

static unsigned count_of(const char *text, const char *what) {
  unsigned n = 0;
  for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what))
    n++;
  return n;
}

/* A multicast address is written by multimem.st alone, in 32-bit elements; the other modes
 * have none. */
START_TEST(stores_suit_the_mode) {
  unsigned seen = 0;
  ck_assert_msg(bw_bundle_open(NULL, &bundle) == BW_OK, "%s", bw_last_error());
  for (size_t i = 0; i < bw_bundle_count(bundle); i++) {
    bw_kernel_info k;
    char *ptx = NULL;
    size_t size = 0;
    ck_assert(bw_bundle_kernel(bundle, i, &k) == BW_OK);
    if (strcmp(k.family, "up_proj") != 0)
      continue;
    ck_assert_msg(bw_bundle_ptx(bundle, i, &ptx, &size) == BW_OK, "%s", bw_last_error());
    const char *code = strstr(ptx, ".visible .entry"); /* the comments above name them all */
    ck_assert_ptr_nonnull(code);
    bool multicast = strstr(k.key, "_multicast") != NULL;
    unsigned multimem = count_of(code, "multimem.st.relaxed.sys.global.b32 ") +
                        count_of(code, "multimem.st.relaxed.sys.global.v2.f32 ") +
                        count_of(code, "multimem.st.relaxed.sys.global.v4.f32 ");
    const char *plain_store =
        strstr(k.key, "_local") != NULL ? " st.relaxed.gpu.global" : " st.relaxed.sys.global";
    static const char *const widths[] = {".b32 ", ".v2.b32 ", ".v4.b32 "};
    unsigned plain = 0;
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
      char text[48];
      snprintf(text, sizeof text, "%s%s", plain_store, widths[w]);
      plain += count_of(code, text);
    }
    ck_assert_msg(multimem == multicast && count_of(code, "multimem.") == multicast,
                  "%s %s: %u multimem.st", k.arch, k.key, multimem);
    ck_assert_msg(plain == !multicast && count_of(code, "st.relaxed") == multimem + plain &&
                      count_of(code, " st.global") == 0,
                  "%s %s: %u plain stores", k.arch, k.key, plain);
    bw_free(ptx);
    seen += multicast;
  }
  ck_assert_uint_gt(seen, 15);
  bw_bundle_close(bundle);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_TEST("reference", last_step_of_a_column, 10),
      BWT_TEST("reference", order_of_additions, 10),
      BWT_TEST("reference", operands_are_hard, 30),
      BWT_TEST("code", stores_suit_the_mode, 60),
      BWT_LOOP("sizes", sizes_of_the_model, 0, bwt_full() ? SIZES * WAYS : SIZES, 120),
      BWT_LOOP("sizes", every_rank, 0, 8, 120),
      BWT_LOOP("sizes", other_sizes, 0, (int)BWT_COUNT(shapes), 120),
      BWT_LOOP("values", hard_values, 0, BWT_UP_PROJ_KIND_COUNT, 240),
      BWT_TEST("options", options, 120),
      BWT_LOOP("copy", copies_words, 0, (int)BWT_COUNT(copies), 120),
  };
  return bwt_suite_main("up_proj", tests, BWT_COUNT(tests));
}
