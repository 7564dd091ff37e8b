/* SPDX-License-Identifier: Apache-2.0
 *
 * wo_a among other work: captured and replayed, on two streams, from several threads,
 * and in chains of programmatic dependent launches, where it starts before its
 * predecessor has written its input and ends after its successor has started.  The
 * outcome is the same bytes as one call after the other.
 */
#include "harness/kernel.h"
#include "harness/random.h"
#include "harness/suite.h"
#include "harness/verify_wo_a.h"
#include "ref/formats.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bw_bundle *bundle;
static struct bwt_session session;
static struct bwt_wo_a_result result;

/* seed: of the emulator's schedule, on top of the run's. */
static void open_session(int seed) {
  struct bwt_text why = {0};
  char text[32];
  snprintf(text, sizeof text, "%llu",
           (unsigned long long)(bwt_mix(bwt_run_seed(), 77 + (uint64_t)seed) >> 40));
  setenv("EMU_SEED", text, 1);
  ck_assert_msg(bw_bundle_open(NULL, &bundle) == BW_OK, "%s", bw_last_error());
  ck_assert_msg(bwt_session_open(&session, NULL, bundle, &why), "%s", why.chars);
}

static void close_session(void) {
  bwt_session_close(&session);
  bw_bundle_close(bundle);
}

static void open_run(struct bwt_wo_a_run *run, const struct bwt_wo_a_case *c) {
  bwt_wo_a_result_start(&result, &session, c);
  ck_assert_msg(bwt_wo_a_run_open(run, &session, c, &result), "%s", result.why.chars);
}

static void assert_ok(CUresult error, const char *what) {
  struct bwt_text report = {0};
  if (error != CUDA_SUCCESS)
    bwt_session_report(&session, &report);
  ck_assert_msg(error == CUDA_SUCCESS, "%s: %s\nEMU_SEED=%s\n%s", what,
                bwt_driver_error(&session.driver, error), getenv("EMU_SEED"), report.chars);
}
#define OK(call) assert_ok(session.driver.call, #call)

static void launch(const struct bwt_wo_a_run *run, uint32_t flags, CUstream stream) {
  bw_wo_a_args args = run->args;
  args.flags = flags;
  ck_assert_msg(bw_wo_a_launch(run->plan, &args, stream) == BW_OK, "%s", bw_last_error());
}

/* Outputs, bands and inputs of a run whose work is complete. */
static void check(struct bwt_wo_a_run *run, const char *when) {
  bwt_wo_a_run_check(run, false, &result);
  ck_assert_msg(bwt_wo_a_result_finish(&result, &session), "%s, EMU_SEED=%s:\n%s", when,
                getenv("EMU_SEED"), result.why.chars);
}

static CUstream new_stream(void) {
  CUstream stream;
  OK(StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

/* ---- graphs --------------------------------------------------------------------------- */

static CUgraphExec capture(const struct bwt_wo_a_run *run, CUstream stream) {
  CUgraph graph;
  CUgraphExec exec;
  OK(StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  launch(run, 0, stream);
  OK(StreamEndCapture(stream, &graph));
  OK(GraphInstantiateWithFlags(&exec, graph, 0));
  OK(GraphDestroy(graph));
  return exec;
}

/* The plan's first launch is captured; capturing runs nothing; 100 replays follow, each
 * with a new x. */
START_TEST(graph_replay) {
  struct bwt_wo_a_run run;
  open_session(0);
  struct bwt_wo_a_case c = bwt_wo_a_case_for(3, 1, _i == 0 ? 1 : 2, 128, bwt_run_seed());
  open_run(&run, &c);
  CUstream stream = new_stream();
  CUgraphExec exec = capture(&run, stream);
  OK(StreamSynchronize(stream));
  struct bwt_text why = {0};
  ck_assert_msg(bwt_buffer_check_unchanged(&run.q, &why) == 0, "capturing ran: %s", why.chars);
  for (int replay = 0; replay < (_i == 0 || bwt_full() ? 100 : 10); replay++) {
    ck_assert(bwt_wo_a_run_next_x(&run, bwt_mix(bwt_run_seed(), (uint64_t)replay), &result));
    ck_assert(bwt_wo_a_run_poison(&run, &result));
    OK(GraphLaunch(exec, stream));
    OK(StreamSynchronize(stream));
    char when[32];
    snprintf(when, sizeof when, "replay %d", replay);
    check(&run, when);
  }
  OK(GraphExecDestroy(exec));
  OK(StreamDestroy(stream));
  bwt_wo_a_run_close(&run);
  close_session();
}
END_TEST

/* A graph outlives the plan that it was captured from. */
START_TEST(graph_without_plan) {
  struct bwt_wo_a_run run;
  open_session(0);
  struct bwt_wo_a_case c = bwt_wo_a_case_for(2, 1, 1, 128, bwt_run_seed());
  open_run(&run, &c);
  CUstream stream = new_stream();
  CUgraphExec exec = capture(&run, stream);
  bw_wo_a_plan_destroy(run.plan);
  run.plan = NULL;
  OK(GraphLaunch(exec, stream));
  OK(StreamSynchronize(stream));
  check(&run, "after the plan");
  OK(GraphExecDestroy(exec));
  OK(StreamDestroy(stream));
  bwt_wo_a_run_close(&run);
  close_session();
}
END_TEST

/* ---- several streams, several threads ---------------------------------------------------- */

START_TEST(two_streams) {
  struct bwt_wo_a_run runs[2];
  CUstream streams[2];
  open_session(_i);
  for (uint32_t i = 0; i < 2; i++) {
    struct bwt_wo_a_case c =
        bwt_wo_a_case_for(4 + 3 * i, 1, 2 + 2 * i, 128, bwt_mix(bwt_run_seed(), i));
    open_run(&runs[i], &c);
    streams[i] = new_stream();
  }
  for (int round = 0; round < 3; round++)
    for (int i = 0; i < 2; i++)
      launch(&runs[i], 0, streams[i]);
  for (int i = 0; i < 2; i++)
    OK(StreamSynchronize(streams[i]));
  for (int i = 0; i < 2; i++) {
    check(&runs[i], i == 0 ? "first stream" : "second stream");
    OK(StreamDestroy(streams[i]));
    bwt_wo_a_run_close(&runs[i]);
  }
  close_session();
}
END_TEST

enum { THREADS = 4, LAUNCHES = 4 };

struct worker {
  pthread_t thread;
  const struct bwt_wo_a_run *run;
  bw_wo_a_args args;
  CUstream stream;
  bw_status status;
  char error[256];
};

static void *work(void *arg) {
  struct worker *w = arg;
  for (int i = 0; i < LAUNCHES && w->status == BW_OK; i++)
    w->status = bw_wo_a_launch(w->run->plan, &w->args, w->stream);
  snprintf(w->error, sizeof w->error, "%s", bw_last_error());
  return NULL;
}

/* Several threads launch on one plan, each on its stream into its own outputs.  None has
 * a current context. */
START_TEST(threads_share_a_plan) {
  struct bwt_wo_a_run run;
  struct worker workers[THREADS] = {0};
  struct bwt_buffer q[THREADS], qs[THREADS];
  struct bwt_text why = {0};
  open_session(_i);
  struct bwt_wo_a_case c = bwt_wo_a_case_for(2, 1, 1, 128, bwt_run_seed());
  open_run(&run, &c);
  for (int i = 0; i < THREADS; i++) {
    ck_assert(bwt_buffer_open(&q[i], &session.driver, "q", run.q.size, BWT_GUARDED, 0, 0, &why));
    ck_assert(bwt_buffer_open(&qs[i], &session.driver, "qs", run.qs.size, BWT_GUARDED, 1, 0, &why));
    workers[i] = (struct worker){.run = &run, .args = run.args, .stream = new_stream()};
    workers[i].args.q = q[i].data;
    workers[i].args.qs = qs[i].data;
  }
  for (int i = 0; i < THREADS; i++)
    ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  uint8_t *got = malloc(run.q.size + run.qs.size);
  for (int i = 0; i < THREADS; i++) {
    ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
    ck_assert_msg(workers[i].status == BW_OK, "%s", workers[i].error);
    OK(StreamSynchronize(workers[i].stream));
    ck_assert(bwt_buffer_read(&q[i], got, &why));
    ck_assert_mem_eq(got, run.want_q, run.q.size);
    ck_assert(bwt_buffer_read(&qs[i], got, &why));
    ck_assert_mem_eq(got, run.want_qs, run.qs.size);
    OK(StreamDestroy(workers[i].stream));
    bwt_buffer_close(&q[i]);
    bwt_buffer_close(&qs[i]);
  }
  free(got);
  bwt_wo_a_run_close(&run);
  close_session();
}
END_TEST

/* ---- chains -------------------------------------------------------------------------------- */

/* What next_x.ptx does. */
static void host_next_x(struct bwt_wo_a_inputs *in, const uint8_t *q, const uint8_t *qs) {
  uint32_t width = in->ref.groups * in->ref.heads * REF_WO_A_HEAD;
  uint32_t outputs = in->ref.groups * in->ref.rank;
  for (uint32_t t = 0; t < in->ref.tokens; t++)
    for (uint32_t i = 0; i < width; i++) {
      uint32_t n = i % outputs;
      double v = ref_e4m3_value(q[(size_t)t * outputs + n]) *
                 ref_ue8m0_value(qs[ref_wo_a_qs_offset(t, n)]);
      in->x[t * in->ref.token_stride + i] = ref_bf16_from_f64(v);
    }
}

static void launch_next_x(const struct bwt_kernel *k, const struct bwt_wo_a_run *run, bool pdl,
                          CUstream stream) {
  const struct ref_wo_a *c = &run->inputs.ref;
  uint64_t stride = c->token_stride * 2;
  uint32_t outputs = c->groups * c->rank, width = c->groups * c->heads * REF_WO_A_HEAD;
  CUdeviceptr q = run->q.data, qs = run->qs.data, x = run->x.data;
  void *parameters[] = {&q, &qs, &x, &stride, &outputs, &width};
  assert_ok(bwt_kernel_launch(k, c->tokens, 128, stream, pdl, parameters), "next_x");
}

enum chain { SERIAL, NO_PDL, PDL };

/* Three calls, q and qs of each turned into the x of the next, all through the same
 * buffers: whatever starts too early or ends too late shows in the last outputs. */
static void run_chain(struct bwt_wo_a_run *run, const struct bwt_kernel *next_x, enum chain how,
                      uint32_t flags, CUstream stream) {
  flags |= how == PDL ? 0u : BW_LAUNCH_NO_PDL;
  for (int call = 0; call < 3; call++) {
    launch(run, flags, stream);
    if (how == SERIAL)
      OK(StreamSynchronize(stream));
    if (call < 2)
      launch_next_x(next_x, run, how == PDL, stream);
    if (how == SERIAL)
      OK(StreamSynchronize(stream));
  }
  OK(StreamSynchronize(stream));
}

START_TEST(chain_of_three) {
  static const uint32_t triggers[] = {0, BW_LAUNCH_TRIGGER_ENTRY, BW_LAUNCH_TRIGGER_AFTER_WAIT,
                                      BW_LAUNCH_TRIGGER_LATE};
  static const struct {
    uint32_t tokens, groups, heads;
  } sizes[] = {{3, 1, 1}, {5, 1, 2}, {2, 2, 4}, {35, 1, 1}, {1, 1, 8}};
  struct bwt_wo_a_run run;
  struct bwt_kernel next_x;
  struct bwt_text why = {0};
  open_session(_i);
  ck_assert_msg(bwt_kernel_open(&next_x, &session, "next_x", &why), "%s", why.chars);
  struct bwt_wo_a_case c = bwt_wo_a_case_for(sizes[_i % 5].tokens, sizes[_i % 5].groups,
                                             sizes[_i % 5].heads, 128, bwt_run_seed());
  c.kind = BWT_WO_A_normal;
  open_run(&run, &c);
  CUstream stream = new_stream();
  size_t x_size = run.inputs.x_size;
  uint16_t *first_x = malloc(x_size);
  memcpy(first_x, run.inputs.x, x_size);
  for (int call = 0; call < 2; call++) {
    host_next_x(&run.inputs, run.want_q, run.want_qs);
    ck_assert(ref_wo_a_model(&run.inputs.ref, run.want_q, run.want_qs));
  }
  for (int how = SERIAL; how <= PDL; how++) {
    static const char *const names[] = {"one after the other", "without PDL", "with PDL"};
    ck_assert(bwt_buffer_write(&run.x, first_x, &why) && bwt_wo_a_run_poison(&run, &result));
    run_chain(&run, &next_x, (enum chain)how, triggers[_i % 4], stream);
    /* x is now what the host made of it. */
    memcpy(run.x.expected + run.x.band, run.inputs.x, x_size);
    check(&run, names[how]);
  }
  free(first_x);
  OK(StreamDestroy(stream));
  bwt_wo_a_run_close(&run);
  bwt_kernel_close(&next_x);
  close_session();
}
END_TEST

/* Fills `to` from a staging buffer, late, by a kernel that lets its dependents start at
 * once. */
static void launch_late_writer(const struct bwt_kernel *k, const struct bwt_buffer *from,
                               const struct bwt_buffer *to, CUstream stream) {
  CUdeviceptr source = from->data, target = to->data;
  uint32_t words = (uint32_t)(to->size / 4), spins = 200;
  void *parameters[] = {&source, &target, &words, &spins};
  assert_ok(bwt_kernel_launch(k, 2, 64, stream, true, parameters), "late_writer");
}

START_TEST(predecessor_writes_late) {
  struct bwt_wo_a_run run;
  struct bwt_kernel late_writer;
  struct bwt_buffer x, positions;
  struct bwt_text why = {0};
  open_session(_i);
  ck_assert_msg(bwt_kernel_open(&late_writer, &session, "late_writer", &why), "%s", why.chars);
  struct bwt_wo_a_case c = bwt_wo_a_case_for(4, 1, _i % 2 ? 2 : 1, 128, bwt_run_seed());
  c.kind = BWT_WO_A_normal;
  c.plan_flags = _i % 3 == 2 ? BW_WO_A_WEIGHTS_AFTER_WAIT : 0;
  open_run(&run, &c);
  CUstream stream = new_stream();
  const struct bwt_driver *d = &session.driver;
  /* The real x and positions wait aside; in their place are others, harmless ones, so
   * that reading too early gives wrong results and not a fault. */
  ck_assert(bwt_buffer_open(&x, d, "staged x", run.x.size, BWT_GUARDED, 0, 0, &why));
  ck_assert(bwt_buffer_open(&positions, d, "staged positions", run.positions.size, BWT_GUARDED, 0,
                            0, &why));
  uint8_t *zeros = calloc(1, run.x.size);
  for (int round = 0; round < 2; round++) {
    ck_assert(bwt_wo_a_run_next_x(&run, bwt_mix(c.seed, (uint64_t)round), &result));
    ck_assert(bwt_wo_a_run_poison(&run, &result));
    ck_assert(bwt_buffer_write(&x, run.inputs.x, &why) &&
              bwt_buffer_write(&positions, run.inputs.positions, &why));
    ck_assert(bwt_buffer_write(&run.x, zeros, &why) &&
              bwt_buffer_write(&run.positions, zeros, &why));
    launch_late_writer(&late_writer, &x, &run.x, stream);
    launch_late_writer(&late_writer, &positions, &run.positions, stream);
    launch(&run, 0, stream);
    OK(StreamSynchronize(stream));
    memcpy(run.x.expected + run.x.band, run.inputs.x, run.x.size);
    memcpy(run.positions.expected + run.positions.band, run.inputs.positions, run.positions.size);
    check(&run, "after a late writer");
  }
  free(zeros);
  bwt_buffer_close(&x);
  bwt_buffer_close(&positions);
  OK(StreamDestroy(stream));
  bwt_wo_a_run_close(&run);
  bwt_kernel_close(&late_writer);
  close_session();
}
END_TEST

/* A successor that takes all of tensor memory before its wait, and overwrites x after. */
START_TEST(successor_takes_tensor_memory) {
  static const uint32_t triggers[] = {BW_LAUNCH_TRIGGER_ENTRY, 0, BW_LAUNCH_TRIGGER_AFTER_WAIT,
                                      BW_LAUNCH_TRIGGER_LATE};
  struct bwt_wo_a_run run;
  struct bwt_kernel hog;
  struct bwt_text why = {0};
  open_session(_i);
  bw_device_info info;
  ck_assert_int_eq(bw_device_query(session.device, &info), BW_OK);
  if (info.compute_major < 10) {
    close_session();
    BWT_SKIP("there is no tensor memory");
  }
  ck_assert_msg(bwt_kernel_open(&hog, &session, "tmem_hog", &why), "%s", why.chars);
  struct bwt_wo_a_case c = bwt_wo_a_case_for(3, 1, _i % 2 ? 4 : 1, 128, bwt_run_seed());
  c.kind = BWT_WO_A_normal;
  open_run(&run, &c);
  CUstream stream = new_stream();
  for (int round = 0; round < 2; round++) {
    ck_assert(bwt_wo_a_run_next_x(&run, bwt_mix(c.seed, (uint64_t)round), &result));
    ck_assert(bwt_wo_a_run_poison(&run, &result));
    launch(&run, triggers[_i % 4], stream);
    CUdeviceptr x = run.x.data;
    uint32_t words = (uint32_t)(run.x.size / 4);
    void *parameters[] = {&x, &words};
    assert_ok(bwt_kernel_launch(&hog, 8, 128, stream, true, parameters), "tmem_hog");
    OK(StreamSynchronize(stream));
    memset(run.x.expected + run.x.band, 0xff, run.x.size);
    check(&run, "before a successor that takes tensor memory");
  }
  OK(StreamDestroy(stream));
  bwt_wo_a_run_close(&run);
  bwt_kernel_close(&hog);
  close_session();
}
END_TEST

/* ---- weights that change ------------------------------------------------------------------- */

/* Weights rewritten in place: once without PDL, then as before; and moved by update. */
START_TEST(weights_change) {
  struct bwt_wo_a_run run;
  struct bwt_text why = {0};
  open_session(0);
  struct bwt_wo_a_case c = bwt_wo_a_case_for(3, 1, 2, 128, bwt_run_seed());
  open_run(&run, &c);
  launch(&run, 0, NULL);
  OK(CtxSynchronize());
  check(&run, "first weights");

  for (size_t i = 0; i < run.inputs.weight_size; i++)
    run.inputs.weight[i] ^= 0x80;
  ck_assert(ref_wo_a_model(&run.inputs.ref, run.want_q, run.want_qs));
  ck_assert(bwt_buffer_write(&run.weight, run.inputs.weight, &why));
  ck_assert(bwt_wo_a_run_poison(&run, &result));
  launch(&run, BW_LAUNCH_NO_PDL, NULL);
  OK(CtxSynchronize());
  check(&run, "rewritten in place");

  struct bwt_buffer moved, moved_scale;
  ck_assert(bwt_buffer_open(&moved, &session.driver, "moved weight", run.weight.size, BWT_GUARDED,
                            0xff, 0, &why));
  ck_assert(bwt_buffer_open(&moved_scale, &session.driver, "moved weight_scale",
                            run.weight_scale.size, BWT_GUARDED, 0xff, 0, &why));
  memset(run.inputs.weight_scale, 120, run.weight_scale.size);
  ck_assert(ref_wo_a_model(&run.inputs.ref, run.want_q, run.want_qs));
  ck_assert(bwt_buffer_write(&moved, run.inputs.weight, &why) &&
            bwt_buffer_write(&moved_scale, run.inputs.weight_scale, &why));
  ck_assert_msg(bw_wo_a_plan_update(run.plan, moved.data, moved_scale.data) == BW_OK, "%s",
                bw_last_error());
  ck_assert(bwt_wo_a_run_poison(&run, &result));
  launch(&run, 0, NULL);
  OK(CtxSynchronize());
  check(&run, "moved");
  bwt_buffer_close(&moved);
  bwt_buffer_close(&moved_scale);
  bwt_wo_a_run_close(&run);
  close_session();
}
END_TEST

int main(void) {
  int seeds = bwt_full() ? 20 : 5;
  const struct bwt_test tests[] = {
      BWT_LOOP("graphs", graph_replay, 0, 2, 240),
      BWT_TEST("graphs", graph_without_plan, 30),
      BWT_LOOP("parallel", two_streams, 0, seeds, 60),
      BWT_LOOP("parallel", threads_share_a_plan, 0, 2, 60),
      BWT_LOOP("chains", chain_of_three, 0, seeds, 120),
      BWT_LOOP("chains", predecessor_writes_late, 0, seeds + 1, 60),
      BWT_LOOP("chains", successor_takes_tensor_memory, 0, seeds, 60),
      BWT_TEST("weights", weights_change, 60),
  };
  return bwt_suite_main("wo_a_streams", tests, BWT_COUNT(tests));
}
