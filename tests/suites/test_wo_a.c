/* SPDX-License-Identifier: Apache-2.0
 *
 * wo_a against its references, case by case; the body of a case is verify_wo_a.
 *
 * What decides the time is the number of CTAs: G * R/128 * H * tiles.  Without BW_FULL
 * each token count runs with one number of heads (which one, the seed decides); with it
 * each runs with all.
 */
#include "harness/kernel.h"
#include "harness/random.h"
#include "harness/rebundle.h"
#include "harness/suite.h"
#include "harness/verify_wo_a.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bw_bundle *bundle;
static struct bwt_session session;

static void open_bundle(const char *path) {
  struct bwt_text why = {0};
  bwt_replay_bundle(path);
  ck_assert_msg(bw_bundle_open(path, &bundle) == BW_OK, "%s", bw_last_error());
  ck_assert_msg(bwt_session_open(&session, NULL, bundle, &why), "%s", why.chars);
}

static void close_bundle(void) {
  bwt_session_close(&session);
  bw_bundle_close(bundle);
}

static void verify(const struct bwt_wo_a_case *c) {
  struct bwt_wo_a_result result;
  bool passed = bwt_wo_a_verify(&session, c, &result);
  ck_assert_msg(passed, "T=%u G=%u H=%u R=%u kind=%s\n%sagain: %s", c->tokens, c->groups,
                c->heads_per_group, c->lora_rank, bwt_wo_a_kind_name(c->kind), result.why.chars,
                result.replay.chars);
  if (c->tokens > 0 && c->kind == BWT_WO_A_mixed)
    ck_assert_msg(result.judgement.worst_error < 0.57, "worst error %g steps",
                  result.judgement.worst_error);
}

static struct bwt_wo_a_case small_case(uint32_t tokens, uint32_t heads) {
  return bwt_wo_a_case_for(tokens, 1, heads, 128, bwt_run_seed());
}

struct size {
  uint32_t tokens, groups, heads, rank;
  bool always; /* also without BW_FULL */
};

static const uint32_t shipped_heads[] = {1, 2, 4, 8};

/* ---- sizes ------------------------------------------------------------------------- */

/* Every token count; odd ones with exact allocations, so that the emulator's bounds
 * check guards the buffers, even ones with guard bands. */
START_TEST(token_counts) {
  uint32_t t = (uint32_t)_i;
  open_bundle(NULL);
  for (uint32_t h = 0; h < BWT_COUNT(shipped_heads); h++) {
    if (!bwt_full() && !bwt_on_gpu() && h != (t + bwt_run_seed()) % BWT_COUNT(shipped_heads))
      continue;
    struct bwt_wo_a_case c = small_case(t, shipped_heads[h]);
    c.guard = t % 2 == 1 ? BWT_TIGHT : BWT_GUARDED;
    verify(&c);
  }
  close_bundle();
}
END_TEST

/* The same kernel family on an emulated Hopper: each of the templates' ways through (T up to
 * 2, 4, 8, 24, 32, one CTA for several tiles, two), with the fewest and the most heads.  Normal
 * values let it fold all scales into the operands, mixed ones send it the long way. */
static const uint32_t hopper_tokens[] = {1, 2, 3, 5, 8, 9, 16, 25, 32, 37, 70, 96, 100};

START_TEST(hopper_token_counts) {
  setenv("EMU_ARCH", "sm_90", 1);
  open_bundle(NULL);
  for (uint32_t h = 0; h < BWT_COUNT(shipped_heads); h++) {
    if (!bwt_full() && h % 3 != 0)
      continue;
    struct bwt_wo_a_case c = small_case(hopper_tokens[_i], shipped_heads[h]);
    if (bwt_full() || (h + (uint32_t)_i) % 2 == 0)
      verify(&c);
    c.kind = BWT_WO_A_normal;
    if (bwt_full() || (h + (uint32_t)_i) % 2 == 1)
      verify(&c);
  }
  close_bundle();
}
END_TEST

START_TEST(hopper_kinds) {
  setenv("EMU_ARCH", "sm_90", 1);
  open_bundle(NULL);
  static const uint32_t tokens[] = {3, 9}; /* of each template */
  for (size_t i = 0; i < BWT_COUNT(tokens); i++) {
    struct bwt_wo_a_case c = small_case(tokens[i], 2);
    c.kind = (enum bwt_wo_a_kind)_i;
    verify(&c);
  }
  close_bundle();
}
END_TEST

/* A device with room for two clusters only: each has several n tiles, of two groups. */
static bool leave_two_clusters(bwi_entry *entry, void *arg) {
  static bwi_attribute changed[64];
  (void)arg;
  ck_assert_uint_le(entry->attribute_count, BWT_COUNT(changed));
  for (size_t i = 0; i < entry->attribute_count; i++) {
    changed[i] = entry->attributes[i];
    if (strcmp(changed[i].name, "any_clusters") == 0)
      changed[i].value = 2;
  }
  entry->attributes = changed;
  entry->cubin = "-"; /* emulated drivers read none, and compressing all takes seconds */
  entry->cubin_size = 1;
  return strcmp(entry->info.family, "wo_a") == 0;
}

START_TEST(hopper_few_clusters) {
  if (bwt_on_gpu())
    BWT_SKIP("enough for it are in token_counts");
  static const struct size shapes[] = {{5, 3, 2, 384, true},   {9, 3, 1, 384, true},
                                       {30, 3, 1, 384, true},  {33, 3, 2, 256, true},
                                       {56, 1, 8, 1024, true}, {26, 3, 4, 384, true},
                                       {97, 1, 1, 640, false}, {25, 2, 2, 1024, false}};
  char seed[32];
  snprintf(seed, sizeof seed, "%llu",
           (unsigned long long)(bwt_mix(bwt_run_seed(), 77 + (uint64_t)_i) >> 40));
  setenv("EMU_ARCH", "sm_90", 1);
  setenv("EMU_SEED", seed, 1);
  struct bwt_text why = {0};
  struct bwt_rebundled few;
  open_bundle(NULL);
  bwt_session_close(&session);
  ck_assert_msg(bwt_rebundle_all(bundle, "sm_90a", leave_two_clusters, NULL, &few, &why), "%s",
                why.chars);
  ck_assert_msg(bwt_session_open(&session, NULL, few.bundle, &why), "%s", why.chars);
  for (size_t i = 0; i < BWT_COUNT(shapes); i++) {
    bool not_drawn = bwt_sampled() && (i + bwt_run_seed()) % 3 != 0;
    if (!bwt_full() && (not_drawn || !shapes[i].always))
      continue;
    struct bwt_wo_a_case c = bwt_wo_a_case_for(shapes[i].tokens, shapes[i].groups, shapes[i].heads,
                                               shapes[i].rank, bwt_run_seed() + (uint64_t)_i);
    c.kind = _i % 2 ? BWT_WO_A_mixed : BWT_WO_A_normal;
    verify(&c);
  }
  bwt_session_close(&session);
  bwt_rebundle_close(&few);
  bw_bundle_close(bundle);
}
END_TEST

/* Several tiles of tokens, one team a CTA and two, the last tile full and ragged.  A sample has
 * two of them, one with each kind of values, and half the rows. */
enum { TOKEN_TILES = 8, SAMPLED_TOKEN_TILES = 2 };

START_TEST(hopper_token_tiles) {
  static const uint32_t tokens[TOKEN_TILES] = {49, 64, 65, 72, 77, 84, 85, 96};
  uint64_t i = bwt_sampled() ? (bwt_run_seed() + 5 * (uint64_t)_i) % TOKEN_TILES : (uint64_t)_i;
  setenv("EMU_ARCH", "sm_90", 1);
  open_bundle(NULL);
  struct bwt_wo_a_case c =
      bwt_wo_a_case_for(tokens[i], 1, 8, bwt_sampled() ? 128 : 256, bwt_run_seed() + i);
  c.kind = i % 2 ? BWT_WO_A_mixed : BWT_WO_A_normal;
  verify(&c);
  close_bundle();
}
END_TEST

START_TEST(hopper_flags) {
  static const uint32_t triggers[] = {0, BW_LAUNCH_TRIGGER_ENTRY, BW_LAUNCH_TRIGGER_AFTER_WAIT,
                                      BW_LAUNCH_TRIGGER_LATE};
  setenv("EMU_ARCH", "sm_90", 1);
  open_bundle(NULL);
  /* One of each kind of kernel: T <= 4, a team, two of them, several batches of tokens. */
  static const uint32_t tokens[] = {4, 9, 20, 40, 70};
  for (uint32_t other = 0; other < 4; other++) {
    struct bwt_wo_a_case c = small_case(tokens[(other + (uint32_t)_i) % BWT_COUNT(tokens)], 2);
    c.launch_flags = triggers[_i] | (other & 1 ? BW_LAUNCH_NO_PDL : 0);
    c.plan_flags = other & 2 ? BW_WO_A_WEIGHTS_AFTER_WAIT : 0;
    verify(&c);
  }
  close_bundle();
}
END_TEST

/* Weights that wait for x and rope, of every kind of kernel. */
START_TEST(hopper_weights_wait) {
  static const uint32_t tokens[] = {1, 7, 25, 33, 66};
  setenv("EMU_ARCH", "sm_90", 1);
  open_bundle(NULL);
  struct bwt_wo_a_case c = small_case(tokens[_i], 2);
  c.launch_flags = BW_LAUNCH_NO_PDL;
  verify(&c);
  close_bundle();
}
END_TEST

START_TEST(no_tokens) {
  open_bundle(NULL);
  struct bwt_wo_a_case c = small_case(0, 2);
  verify(&c);
  c.max_tokens = 128;
  verify(&c);
  close_bundle();
}
END_TEST

static const struct size sizes[] = {
    {5, 2, 1, 128, true},    {3, 3, 2, 128, true},     {9, 1, 4, 256, true},
    {2, 2, 8, 128, true},    {1, 3, 1, 1024, true},    {4, 2, 2, 256, true},
    {33, 2, 1, 128, true},   {1, 2, 8, 1024, true},    {7, 1, 1, 1024, true},
    {70, 1, 1, 256, true},   {8, 3, 4, 128, true},     {1, 16, 1, 128, true},
    {40, 3, 2, 256, false},  {8, 2, 8, 1024, false},   {17, 1, 8, 1024, false},
    {32, 2, 8, 1024, false}, {96, 2, 8, 1024, false},  {128, 1, 8, 1024, false},
    {100, 3, 4, 256, false}, {128, 2, 2, 1024, false},
};

START_TEST(groups_and_ranks) {
  const struct size *s = &sizes[_i];
  if (!s->always && !bwt_full() && !bwt_on_gpu())
    return;
  open_bundle(NULL);
  struct bwt_wo_a_case c =
      bwt_wo_a_case_for(s->tokens, s->groups, s->heads, s->rank, bwt_run_seed());
  verify(&c);
  close_bundle();
}
END_TEST

/* Of the device that the tests use. */
static const char *arch_in_use(bw_bundle *from) {
  struct bwt_text why = {0};
  bw_device_info info;
  ck_assert_msg(bwt_session_open(&session, NULL, from, &why), "%s", why.chars);
  ck_assert_int_eq(bw_device_query(session.device, &info), BW_OK);
  bwt_session_close(&session);
  return strcmp(info.arch, "sm_90a") == 0 ? "sm_90a" : "sm_100f";
}

/* Cluster sizes that do not ship: of each the bundle made for tests has three keys.  A
 * plan loads the kernels of all token counts up to its largest; those that are missing
 * and will not run are stood in for by the one that will. */
START_TEST(other_cluster_sizes) {
  static const uint32_t heads[] = {3, 5, 6, 7}, tokens[] = {1, 7, 37};
  uint32_t h = heads[_i / 3], t = tokens[_i % 3];
  char path[PATH_MAX], names[128][BW_WO_A_KEY_NAME_SIZE];
  ck_assert_msg(bwt_build_file("test.bundle", path), "no test.bundle in the build");
  bw_bundle *from;
  ck_assert_msg(bw_bundle_open(path, &from) == BW_OK, "%s", bw_last_error());
  bw_wo_a_key keys[128], key;
  size_t count;
  ck_assert_int_eq(bw_wo_a_keys(t, h, keys, 128, &count), BW_OK);
  for (size_t i = 0; i < count; i++)
    ck_assert_int_eq(bw_wo_a_key_name(&keys[i], names[i]), BW_OK);
  ck_assert_int_eq(bw_wo_a_dispatch(t, h, &key), BW_OK);
  char name[BW_WO_A_KEY_NAME_SIZE];
  ck_assert_int_eq(bw_wo_a_key_name(&key, name), BW_OK);

  struct bwt_rebundled r;
  struct bwt_text why = {0};
  const char *arch = arch_in_use(from);
  ck_assert_msg(bwt_rebundle_as(from, "wo_a", arch, name, names, count, NULL, NULL, &r, &why), "%s",
                why.chars);
  ck_assert_msg(bwt_session_open(&session, NULL, r.bundle, &why), "%s", why.chars);
  struct bwt_wo_a_case c = small_case(t, h);
  verify(&c);
  bwt_session_close(&session);
  bwt_rebundle_close(&r);
  bw_bundle_close(from);
}
END_TEST

/* A plan for 128 tokens serves every count. */
START_TEST(one_plan_for_all) {
  static const uint32_t counts[] = {1, 31, 32, 33, 128};
  open_bundle(NULL);
  for (size_t i = 0; i < BWT_COUNT(counts); i++) {
    struct bwt_wo_a_case c = small_case(counts[i], 1);
    c.max_tokens = 128;
    verify(&c);
  }
  close_bundle();
}
END_TEST

/* ---- strides, flags, values ---------------------------------------------------------- */

START_TEST(token_strides) {
  static const uint64_t extra[] = {8, 24, 512, 4104, 100000};
  open_bundle(NULL);
  struct bwt_wo_a_case c = small_case(6, 2);
  c.stride_extra = extra[_i];
  c.guard = _i % 2 ? BWT_TIGHT : BWT_GUARDED;
  verify(&c);
  close_bundle();
}
END_TEST

START_TEST(kinds) {
  open_bundle(NULL);
  for (int i = 0; i < (bwt_full() ? 4 : 2); i++) {
    static const uint32_t tokens[] = {5, 34, 17, 96};
    struct bwt_wo_a_case c =
        bwt_wo_a_case_for(tokens[i], 2, shipped_heads[(unsigned)(_i + i) % 2], 128, bwt_run_seed());
    c.kind = (enum bwt_wo_a_kind)_i;
    verify(&c);
  }
  close_bundle();
}
END_TEST

/* Many draws of each kind at a small size: what one value in a thousand brings out, such as a
 * sum whose sign is decided below the last bit of f32. */
START_TEST(many_draws) {
  open_bundle(NULL);
  for (int draw = 0; draw < (bwt_full() ? 60 : 3); draw++) {
    struct bwt_wo_a_case c =
        bwt_wo_a_case_for(3 + 2 * ((unsigned)draw % 2), 2, shipped_heads[(unsigned)draw % 2], 128,
                          bwt_mix(bwt_run_seed(), (uint64_t)draw) >> 32);
    c.kind = (enum bwt_wo_a_kind)_i;
    verify(&c);
  }
  close_bundle();
}
END_TEST

/* NaN and infinity across a cluster: each head's partial sum takes it to the owner.  And
 * sums whose order shows. */
START_TEST(odd_values_in_clusters) {
  static const enum bwt_wo_a_kind odd[] = {
      BWT_WO_A_nan,       BWT_WO_A_inf,    BWT_WO_A_minus_inf, BWT_WO_A_weight_nan,
      BWT_WO_A_scale_nan, BWT_WO_A_cancel, BWT_WO_A_cancel};
  open_bundle(NULL);
  struct bwt_wo_a_case c = small_case(3, _i % 2 ? 4 : 8);
  c.kind = odd[_i];
  verify(&c);
  close_bundle();
}
END_TEST

START_TEST(flags) {
  static const uint32_t triggers[] = {0, BW_LAUNCH_TRIGGER_ENTRY, BW_LAUNCH_TRIGGER_AFTER_WAIT,
                                      BW_LAUNCH_TRIGGER_LATE};
  open_bundle(NULL);
  for (uint32_t other = 0; other < 4; other++) {
    struct bwt_wo_a_case c = small_case(4, 2);
    c.launch_flags = triggers[_i] | (other & 1 ? BW_LAUNCH_NO_PDL : 0);
    c.plan_flags = other & 2 ? BW_WO_A_WEIGHTS_AFTER_WAIT : 0;
    verify(&c);
  }
  close_bundle();
}
END_TEST

/* ---- schedules --------------------------------------------------------------------------- */

/* The order in which asynchronous work completes is the seed's choice. */
START_TEST(schedules) {
  if (bwt_on_gpu() && _i > 0)
    BWT_SKIP("a schedule of the emulator");
  static const struct size shapes[] = {
      {1, 1, 1, 128, true}, {4, 1, 2, 128, true}, {33, 1, 2, 128, true}, {9, 1, 8, 128, true}};
  char seed[32];
  snprintf(seed, sizeof seed, "%llu",
           (unsigned long long)(bwt_mix(bwt_run_seed(), (uint64_t)_i) >> 40));
  setenv("EMU_SEED", seed, 1);
  open_bundle(NULL);
  for (size_t i = 0; i < BWT_COUNT(shapes); i++) {
    struct bwt_wo_a_case c = bwt_wo_a_case_for(shapes[i].tokens, shapes[i].groups, shapes[i].heads,
                                               shapes[i].rank, bwt_run_seed());
    verify(&c);
  }
  close_bundle();
}
END_TEST

int main(void) {
  int seeds = bwt_full() ? 40 : 5, tiles = bwt_sampled() ? SAMPLED_TOKEN_TILES : TOKEN_TILES;
  const struct bwt_test tests[] = {
      BWT_LOOP("tokens", token_counts, 1, 129, 120),
      BWT_LOOP("hopper", hopper_token_counts, 0, BWT_COUNT(hopper_tokens), 240),
      BWT_LOOP("hopper", hopper_kinds, 0, BWT_WO_A_KIND_COUNT, 120),
      BWT_LOOP("hopper", hopper_token_tiles, 0, tiles, 120),
      BWT_LOOP("hopper", hopper_few_clusters, 0, bwt_full() ? 20 : 1, 240),
      BWT_LOOP("hopper", hopper_flags, 0, 4, 60),
      BWT_LOOP("hopper", hopper_weights_wait, 0, 5, 60),
      BWT_TEST("sizes", no_tokens, 60),
      BWT_LOOP("sizes", groups_and_ranks, 0, BWT_COUNT(sizes), 240),
      BWT_LOOP("sizes", other_cluster_sizes, 0, 12, 120),
      BWT_TEST("sizes", one_plan_for_all, 120),
      BWT_LOOP("strides", token_strides, 0, 5, 60),
      BWT_LOOP("values", kinds, 0, BWT_WO_A_KIND_COUNT, 120),
      BWT_LOOP("values", many_draws, 0, BWT_WO_A_KIND_COUNT, 120),
      BWT_LOOP("values", odd_values_in_clusters, 0, 7, 60),
      BWT_LOOP("flags", flags, 0, 4, 60),
      BWT_LOOP("schedules", schedules, 0, seeds, 120),
  };
  return bwt_suite_main("wo_a", tests, BWT_COUNT(tests));
}
