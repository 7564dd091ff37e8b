/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs wo_a and judges it; see verify_wo_a.h.
 */
#include "harness/verify_wo_a.h"

#include "harness/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- cases and how to run one again ------------------------------------------- */

static void apply_override(struct bwt_wo_a_case *c, const char *key, const char *value) {
  uint64_t number = strtoull(value, NULL, 0);
  if (strcmp(key, "kind") == 0) {
    enum bwt_wo_a_kind kind = bwt_wo_a_kind_find(value);
    if (kind == BWT_WO_A_KIND_COUNT) {
      fprintf(stderr, "BW_CASE: there is no kind %s\n", value);
      exit(2);
    }
    c->kind = kind;
  } else if (strcmp(key, "stride") == 0) {
    c->stride_extra = number;
  } else if (strcmp(key, "max") == 0) {
    c->max_tokens = (uint32_t)number;
  } else if (strcmp(key, "plan") == 0) {
    c->plan_flags = (uint32_t)number;
  } else if (strcmp(key, "launch") == 0) {
    c->launch_flags = (uint32_t)number;
  } else if (strcmp(key, "tight") == 0) {
    c->guard = number ? BWT_TIGHT : BWT_GUARDED;
  } else {
    fprintf(stderr, "BW_CASE: there is no key %s\n", key);
    exit(2);
  }
}

struct bwt_wo_a_case bwt_wo_a_case_for(uint32_t tokens, uint32_t groups, uint32_t heads_per_group,
                                       uint32_t lora_rank, uint64_t seed) {
  struct bwt_wo_a_case c = {.tokens = tokens,
                            .groups = groups,
                            .heads_per_group = heads_per_group,
                            .lora_rank = lora_rank,
                            .seed = seed};
  const char *set = getenv("BW_CASE");
  char text[256];
  snprintf(text, sizeof text, "%s", set != NULL ? set : "");
  char *rest = text, *item;
  while ((item = strsep(&rest, ",")) != NULL) {
    char *value = strchr(item, '=');
    if (value == NULL)
      continue;
    *value++ = '\0';
    apply_override(&c, item, value);
  }
  return c;
}

static void write_replay(const struct bwt_session *s, const struct bwt_wo_a_case *c,
                         struct bwt_text *t) {
  static const char *const passed_on[] = {"EMU_SEED", "EMU_ARCH", "EMU_CHECKS"};
  for (size_t i = 0; s->driver.emulated && i < sizeof passed_on / sizeof *passed_on; i++)
    if (getenv(passed_on[i]) != NULL)
      bwt_say(t, "%s=%s ", passed_on[i], getenv(passed_on[i]));
  struct bwt_text o = {0};
  if (c->kind != BWT_WO_A_mixed)
    bwt_say(&o, ",kind=%s", bwt_wo_a_kind_name(c->kind));
  if (c->stride_extra != 0)
    bwt_say(&o, ",stride=%llu", (unsigned long long)c->stride_extra);
  if (c->max_tokens != 0)
    bwt_say(&o, ",max=%u", c->max_tokens);
  if (c->plan_flags != 0)
    bwt_say(&o, ",plan=%u", c->plan_flags);
  if (c->launch_flags != 0)
    bwt_say(&o, ",launch=%u", c->launch_flags);
  if (c->guard == BWT_TIGHT)
    bwt_say(&o, ",tight=1");
  if (o.length > 0)
    bwt_say(t, "BW_CASE=%s ", o.chars + 1);
  bwt_say(t,
          "build/bin/barewarp verify wo_a --tokens %u --groups %u --heads-per-group %u "
          "--lora-rank %u --seed %llu",
          c->tokens, c->groups, c->heads_per_group, c->lora_rank, (unsigned long long)c->seed);
  bwt_replay_options(s, t);
}

/* ---- results -------------------------------------------------------------------- */

void bwt_wo_a_result_start(struct bwt_wo_a_result *result, const struct bwt_session *s,
                           const struct bwt_wo_a_case *c) {
  memset(result, 0, sizeof *result);
  result->usable = true;
  write_replay(s, c, &result->replay);
}

static bool fail(struct bwt_wo_a_result *result, unsigned failure) {
  result->failures |= failure;
  return false;
}

static bool fail_status(struct bwt_wo_a_result *result, const char *call, bw_status status) {
  bwt_say(&result->why, "%s: %s: %s\n", call, bw_status_text(status), bw_last_error());
  return fail(result, status == BW_ERROR_DRIVER ? BWT_FAIL_FAULT : BWT_FAIL_STATUS);
}

void bwt_wo_a_fault(struct bwt_wo_a_result *result, struct bwt_session *s, CUresult error) {
  bwt_say(&result->why, "the kernel ended with %s\n", bwt_driver_error(&s->driver, error));
  bwt_session_report(s, &result->why);
  fail(result, BWT_FAIL_FAULT);
  result->usable = false;
}

/* The model is that of Blackwell's block-scaled mma, which only the emulator runs to the
 * last bit.  A real device, and Hopper's kernel, which forms its partial sums in another
 * way, are held to the bounds around the truth. */
static bool model_is_exact(const struct bwt_session *s) {
  bw_device_info info;
  return s->driver.emulated && bw_device_query(s->device, &info) == BW_OK &&
         strcmp(info.arch, "sm_100f") == 0;
}

bool bwt_wo_a_result_finish(struct bwt_wo_a_result *result, const struct bwt_session *s) {
  result->exact = (result->failures & (BWT_FAIL_SETUP | BWT_FAIL_STATUS | BWT_FAIL_FAULT |
                                       BWT_FAIL_Q | BWT_FAIL_QS | BWT_FAIL_PADDING)) == 0;
  unsigned excused = model_is_exact(s) ? 0 : BWT_FAIL_Q | BWT_FAIL_QS;
  result->passed = (result->failures & ~excused) == 0;
  return result->passed;
}

/* ---- a run ------------------------------------------------------------------------ */

static bool make_reference(struct bwt_wo_a_run *run, struct bwt_wo_a_result *result) {
  if (ref_wo_a_model(&run->inputs.ref, run->want_q, run->want_qs))
    return true;
  bwt_say(&result->why, "no memory for the reference\n");
  return fail(result, BWT_FAIL_SETUP);
}

static bool make_inputs(struct bwt_wo_a_run *run, struct bwt_wo_a_result *result) {
  const struct bwt_wo_a_case *c = &run->c;
  uint64_t seed = c->seed; /* mixed with the sizes: no case repeats another's values */
  seed = bwt_mix(seed, (uint64_t)c->tokens << 32 | c->groups);
  seed = bwt_mix(seed, (uint64_t)c->heads_per_group << 32 | c->lora_rank);
  bool made = bwt_wo_a_inputs_make(&run->inputs, c->kind, c->tokens, c->groups, c->heads_per_group,
                                   c->lora_rank, c->stride_extra, seed);
  if (made) {
    run->want_q = malloc(ref_wo_a_q_size(&run->inputs.ref) + 1);
    run->want_qs = calloc(1, ref_wo_a_qs_size(&run->inputs.ref));
    if (run->want_q != NULL && run->want_qs != NULL)
      return make_reference(run, result);
  }
  bwt_say(&result->why, "no memory for the operands\n");
  return fail(result, BWT_FAIL_SETUP);
}

static bool open_input(struct bwt_wo_a_run *run, struct bwt_buffer *b, const char *name,
                       const void *data, size_t size, struct bwt_text *why) {
  return bwt_buffer_open(b, &run->session->driver, name, size, run->c.guard, 0xff, 0, why) &&
         bwt_buffer_write(b, data, why);
}

static bool open_buffers(struct bwt_wo_a_run *run, struct bwt_wo_a_result *result) {
  const struct bwt_driver *d = &run->session->driver;
  const struct bwt_wo_a_inputs *in = &run->inputs;
  struct bwt_text *why = &result->why;
  enum bwt_guard guard = run->c.guard;
  bool ok =
      open_input(run, &run->x, "x", in->x, in->x_size, why) &&
      open_input(run, &run->positions, "positions", in->positions, in->positions_size, why) &&
      open_input(run, &run->rope, "rope", in->rope, in->rope_size, why) &&
      open_input(run, &run->weight, "weight", in->weight, in->weight_size, why) &&
      open_input(run, &run->weight_scale, "weight_scale", in->weight_scale, in->weight_scale_size,
                 why) &&
      bwt_buffer_open(&run->q, d, "q", ref_wo_a_q_size(&in->ref), guard, -1, run->c.seed, why) &&
      bwt_buffer_open(&run->qs, d, "qs", ref_wo_a_qs_size(&in->ref), guard, -1, run->c.seed + 1,
                      why);
  return ok || fail(result, BWT_FAIL_SETUP);
}

static bw_wo_a_shape shape_of(const struct bwt_wo_a_case *c) {
  bw_wo_a_shape shape = {c->groups, c->heads_per_group, c->lora_rank, c->max_tokens};
  if (shape.max_tokens == 0)
    shape.max_tokens = c->tokens > 0 ? c->tokens : 1;
  return shape;
}

/* First: operands and references are made for possible shapes only. */
static bool check_shape(struct bwt_wo_a_run *run, struct bwt_wo_a_result *result) {
  const bw_wo_a_shape shape = shape_of(&run->c);
  bw_status status = bw_wo_a_supported(run->session->device, &shape);
  return status == BW_OK || fail_status(result, "bw_wo_a_supported", status);
}

static bool make_plan(struct bwt_wo_a_run *run, struct bwt_wo_a_result *result) {
  const struct bwt_wo_a_case *c = &run->c;
  bw_wo_a_config config = {
      .shape = shape_of(c),
      .weight = run->weight.data,
      .weight_scale = run->weight_scale.data,
      .flags = c->plan_flags,
  };
  bw_status status = bw_wo_a_plan_create(run->session->device, &config, &run->plan);
  if (status != BW_OK)
    return fail_status(result, "bw_wo_a_plan_create", status);
  run->args = (bw_wo_a_args){
      .x = run->x.data,
      .x_token_stride = run->inputs.ref.token_stride,
      .positions = run->positions.data,
      .rope = run->rope.data,
      .q = run->q.data,
      .qs = run->qs.data,
      .tokens = c->tokens,
      .flags = c->launch_flags,
  };
  return true;
}

bool bwt_wo_a_run_open(struct bwt_wo_a_run *run, struct bwt_session *s,
                       const struct bwt_wo_a_case *c, struct bwt_wo_a_result *result) {
  memset(run, 0, sizeof *run);
  run->session = s;
  run->c = *c;
  if (check_shape(run, result) && make_inputs(run, result) && open_buffers(run, result) &&
      make_plan(run, result) && bwt_wo_a_run_poison(run, result))
    return true;
  bwt_wo_a_run_close(run);
  return false;
}

bool bwt_wo_a_run_next_x(struct bwt_wo_a_run *run, uint64_t seed, struct bwt_wo_a_result *result) {
  bwt_wo_a_inputs_next_x(&run->inputs, run->c.kind, seed);
  if (!make_reference(run, result))
    return false;
  return (bwt_buffer_write(&run->x, run->inputs.x, &result->why) &&
          bwt_buffer_write(&run->positions, run->inputs.positions, &result->why)) ||
         fail(result, BWT_FAIL_SETUP);
}

static bool poison(struct bwt_buffer *b, const uint8_t *want, struct bwt_wo_a_result *result) {
  uint8_t *bytes = malloc(b->size + 1);
  bool ok = bytes != NULL;
  for (size_t i = 0; ok && i < b->size; i++)
    bytes[i] = (uint8_t)~want[i];
  ok = ok && bwt_buffer_write(b, bytes, &result->why);
  free(bytes);
  return ok || fail(result, BWT_FAIL_SETUP);
}

bool bwt_wo_a_run_poison(struct bwt_wo_a_run *run, struct bwt_wo_a_result *result) {
  return poison(&run->q, run->want_q, result) && poison(&run->qs, run->want_qs, result);
}

static void check_outputs(struct bwt_wo_a_run *run, bool judge, const uint8_t *q, const uint8_t *qs,
                          struct bwt_wo_a_result *result) {
  struct bwt_text *why = &result->why;
  const struct ref_wo_a *ref = &run->inputs.ref;
  struct bwt_difference *d = &result->difference;
  bwt_compare_exact(ref, q, qs, run->want_q, run->want_qs, d, why);
  fail(result,
       (d->q ? BWT_FAIL_Q : 0) | (d->qs ? BWT_FAIL_QS : 0) | (d->padding ? BWT_FAIL_PADDING : 0));
  struct bwt_truth truth;
  /* Where large sums cancel on purpose, what is left is rounding. */
  if (!judge || ref->tokens == 0 || run->c.kind == BWT_WO_A_cancel)
    return;
  if (!bwt_truth_make(&truth, ref)) {
    bwt_say(why, "no memory for the truth\n");
    fail(result, BWT_FAIL_SETUP);
    return;
  }
  bwt_judge(ref, &truth, q, qs, &result->judgement, why);
  if (result->judgement.out_of_bounds > 0)
    fail(result, BWT_FAIL_TRUTH);
  bwt_truth_free(&truth);
}

void bwt_wo_a_run_check(struct bwt_wo_a_run *run, bool judge, struct bwt_wo_a_result *result) {
  struct bwt_text *why = &result->why;
  uint8_t *q = malloc(run->q.size + 1), *qs = malloc(run->qs.size);
  if (q != NULL && qs != NULL && bwt_buffer_read(&run->q, q, why) &&
      bwt_buffer_read(&run->qs, qs, why)) {
    if (run->c.tokens > 0) {
      check_outputs(run, judge, q, qs, result);
    } else if (bwt_buffer_check_unchanged(&run->qs, why) > 0) {
      fail(result, BWT_FAIL_QS); /* no tokens: not even qs is written */
    }
  } else {
    fail(result, BWT_FAIL_SETUP);
  }
  free(q);
  free(qs);

  struct bwt_buffer *const all[] = {&run->q,    &run->qs,     &run->x,           &run->positions,
                                    &run->rope, &run->weight, &run->weight_scale};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (bwt_buffer_check_bands(all[i], why) > 0)
      fail(result, BWT_FAIL_BAND);
    if (i >= 2 && bwt_buffer_check_unchanged(all[i], why) > 0)
      fail(result, BWT_FAIL_INPUT);
  }
}

void bwt_wo_a_run_close(struct bwt_wo_a_run *run) {
  if (run->plan != NULL)
    bw_wo_a_plan_destroy(run->plan);
  struct bwt_buffer *const all[] = {&run->q,    &run->qs,     &run->x,           &run->positions,
                                    &run->rope, &run->weight, &run->weight_scale};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i]->driver != NULL)
      bwt_buffer_close(all[i]);
  free(run->want_q);
  free(run->want_qs);
  bwt_wo_a_inputs_free(&run->inputs);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool bwt_wo_a_verify(struct bwt_session *s, const struct bwt_wo_a_case *c,
                     struct bwt_wo_a_result *result) {
  struct bwt_wo_a_run run;
  bwt_wo_a_result_start(result, s, c);
  if (bwt_wo_a_run_open(&run, s, c, result)) {
    double start = now();
    bw_status status = bw_wo_a_launch(run.plan, &run.args, NULL);
    if (status == BW_OK) {
      CUresult error = s->driver.CtxSynchronize();
      result->seconds = now() - start;
      if (error == CUDA_SUCCESS)
        bwt_wo_a_run_check(&run, true, result);
      else
        bwt_wo_a_fault(result, s, error);
    } else {
      fail_status(result, "bw_wo_a_launch", status);
    }
    bwt_wo_a_run_close(&run);
  }
  return bwt_wo_a_result_finish(result, s);
}
