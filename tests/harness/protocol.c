/* SPDX-License-Identifier: Apache-2.0
 *
 * Many steps of many ranks; see protocol.h.
 */
#include "harness/protocol.h"

#include "harness/kernel.h"
#include "harness/random.h"
#include "harness/ranks.h"
#include "harness/target.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS = 2, MOST_CHAIN = 32, MOST_SPINS = 1500 };

static const uint32_t empty_word = 0x80000000;

struct rank {
  bw_device *device;
  bw_mailbox *mailbox;
  bw_up_proj_plan *plan;
  int ordinal; /* of the device */
  CUcontext context;
  CUstream streams[STREAMS];
  CUevent event; /* behind the last thing on the stream used last */
  CUgraphExec graph;
  struct bwt_kernel delay;
  CUdeviceptr weight, latent;
  CUdeviceptr shared, out; /* of every step of the chain, one after the other */
};

struct run {
  const struct bwt_protocol *p;
  struct bwt_protocol_result *result;
  struct bwt_session session;
  bool session_open;
  CUresult (*event_create)(CUevent *, unsigned);
  CUresult (*event_record)(CUevent, CUstream);
  CUresult (*event_destroy)(CUevent);
  CUresult (*stream_wait)(CUstream, CUevent, unsigned);
  struct bwt_random dice;                            /* what all ranks must agree on */
  struct bwt_random rank_dice[BW_MAILBOX_MAX_RANKS]; /* each one's delays and flags */
  uint32_t first, end;                               /* this process has ranks first..end-1 */
  struct rank rank[BW_MAILBOX_MAX_RANKS];
  uint32_t shard, row_stride;   /* row_stride: elements of a row of shared */
  size_t shared_step, out_step; /* bytes of one step */
  uint32_t rows[MOST_CHAIN];    /* of each step of the chain */
  uint16_t *expected;           /* [chain][rows][hidden] */
  uint16_t *host;               /* one step's out, or shared */
  int stream;                   /* used last */
};

/* ---- complaints ---------------------------------------------------------------------- */

static bool say_where(struct run *r) {
  const char *seed = getenv("EMU_SEED");
  bwt_say(&r->result->why, "(after %u steps, seed %llu, EMU_SEED=%s)\n", r->result->steps,
          (unsigned long long)r->p->seed, seed != NULL ? seed : "1");
  return false;
}

static bool driver_ok(struct run *r, CUresult result, const char *what) {
  if (result == CUDA_SUCCESS)
    return true;
  bwt_say(&r->result->why, "%s: %s\n", what, bwt_driver_error(&r->session.driver, result));
  bwt_session_report(&r->session, &r->result->why);
  return say_where(r);
}
#define OK(call) driver_ok(r, r->session.driver.call, #call)

static bool library_ok(struct run *r, bw_status status, const char *what) {
  if (status == BW_OK)
    return true;
  bwt_say(&r->result->why, "%s: %s\n", what, bw_last_error());
  return say_where(r);
}
#define BW(call) library_ok(r, call, #call)

static bool enter(struct run *r, uint32_t rank) {
  return OK(CtxSetCurrent(r->rank[rank].context));
}

/* ---- set-up ---------------------------------------------------------------------------- */

static bool find_event_calls(struct run *r) {
  void *library = r->session.driver.library;
  void *symbols[] = {dlsym(library, "cuEventCreate"), dlsym(library, "cuEventRecord"),
                     dlsym(library, "cuEventDestroy_v2"), dlsym(library, "cuStreamWaitEvent")};
  memcpy(&r->event_create, &symbols[0], sizeof symbols[0]);
  memcpy(&r->event_record, &symbols[1], sizeof symbols[1]);
  memcpy(&r->event_destroy, &symbols[2], sizeof symbols[2]);
  memcpy(&r->stream_wait, &symbols[3], sizeof symbols[3]);
  if (r->event_create && r->event_record && r->event_destroy && r->stream_wait)
    return true;
  bwt_say(&r->result->why, "the driver lacks event calls\n");
  return false;
}

static bool zeros(struct run *r, CUdeviceptr *address, size_t bytes) {
  void *data = calloc(1, bytes);
  bool ok = data != NULL && OK(MemAlloc(address, bytes)) && OK(MemcpyHtoD(*address, data, bytes));
  free(data);
  return ok;
}

/* The rounds of the only mailbox of this process. */
static bool gathered_rounds(struct run *r, bw_mailbox *mailbox) {
  static unsigned char mine[BW_MAILBOX_BLOB_SIZE], all[BW_MAILBOX_MAX_RANKS][BW_MAILBOX_BLOB_SIZE];
  bw_status status = bw_mailbox_round(mailbox, NULL, 0, mine);
  while (status == BW_MORE) {
    if (!r->p->gather(mine, all)) {
      bwt_say(&r->result->why, "the blobs of a round could not be gathered\n");
      return false;
    }
    status = bw_mailbox_round(mailbox, all, r->p->ranks, mine);
  }
  return library_ok(r, status, "bw_mailbox_round");
}

static bool open_mailboxes(struct run *r) {
  bw_mailbox *all[BW_MAILBOX_MAX_RANKS];
  for (uint32_t i = r->first; i < r->end; i++) {
    bw_mailbox_config config = {.hidden = r->p->hidden,
                                .capacity = r->p->rows,
                                .tp_size = r->p->ranks,
                                .rank = i,
                                .mode = r->p->mode,
                                .flags = r->p->mailbox_flags};
    if (!BW(bw_mailbox_create(r->rank[i].device, &config, &r->rank[i].mailbox)))
      return false;
    all[i] = r->rank[i].mailbox;
  }
  return r->p->gather != NULL ? gathered_rounds(r, all[r->first])
                              : bwt_rounds(all, r->p->ranks, &r->result->why);
}

static bool open_device(struct run *r, uint32_t i) {
  struct rank *k = &r->rank[i];
  bw_bundle *bundle = i == 0 && r->p->first_bundle ? r->p->first_bundle : r->p->bundle;
  k->ordinal = bwt_device_of(r->session.driver.DeviceGetCount, i);
  return BW(bw_device_open(bundle, r->session.driver.path, k->ordinal, &k->device)) &&
         OK(DevicePrimaryCtxRetain(&k->context, k->ordinal));
}

static bool open_rank(struct run *r, uint32_t i) {
  struct rank *k = &r->rank[i];
  const struct bwt_protocol *p = r->p;
  if (!enter(r, i) || !zeros(r, &k->weight, (size_t)2 * r->shard * p->latent_dim) ||
      !zeros(r, &k->latent, (size_t)2 * p->rows * p->latent_dim) ||
      !zeros(r, &k->shared, p->chain * r->shared_step) ||
      !zeros(r, &k->out, p->chain * r->out_step) ||
      !driver_ok(r, r->event_create(&k->event, CU_EVENT_DISABLE_TIMING), "cuEventCreate") ||
      !bwt_kernel_open(&k->delay, &r->session, "delay", &r->result->why))
    return false;
  for (int s = 0; s < STREAMS; s++)
    if (!OK(StreamCreate(&k->streams[s], CU_STREAM_NON_BLOCKING)))
      return false;
  const bw_up_proj_config config = {.shape = {p->latent_dim, p->hidden, p->ranks, i, p->rows},
                                    .weight = k->weight,
                                    .mailbox = k->mailbox};
  return BW(bw_up_proj_plan_create(k->device, &config, &k->plan));
}

static bool open_run(struct run *r) {
  const struct bwt_protocol *p = r->p;
  bwt_emulate_devices(p->ranks);
  r->shard = p->hidden / p->ranks;
  r->row_stride = (r->shard + 15) / 16 * 16;
  r->shared_step = (size_t)2 * p->rows * r->row_stride;
  r->out_step = (size_t)2 * p->rows * p->hidden;
  r->first = p->gather != NULL ? p->own_rank : 0;
  r->end = p->gather != NULL ? p->own_rank + 1 : p->ranks;
  bwt_random_seed(&r->dice, p->seed);
  for (uint32_t i = 0; i < p->ranks; i++)
    bwt_random_seed(&r->rank_dice[i], bwt_mix(p->seed, 1 + i));
  r->expected = malloc(p->chain * r->out_step);
  r->host = malloc(r->out_step + r->shared_step);
  r->session_open = r->expected != NULL && r->host != NULL && p->chain <= MOST_CHAIN &&
                    bwt_session_open(&r->session, NULL, NULL, &r->result->why);
  if (!r->session_open || !find_event_calls(r))
    return false;
  for (uint32_t i = r->first; i < r->end; i++)
    if (!open_device(r, i))
      return false;
  if (!open_mailboxes(r))
    return false;
  for (uint32_t i = r->first; i < r->end; i++)
    if (!open_rank(r, i))
      return false;
  return true;
}

static void close_run(struct run *r) {
  const struct bwt_driver *d = &r->session.driver;
  for (uint32_t i = r->first; r->session_open && i < r->end; i++) {
    struct rank *k = &r->rank[i];
    if (k->context == NULL)
      continue;
    (void)d->CtxSetCurrent(k->context);
    if (k->graph != NULL)
      d->GraphExecDestroy(k->graph);
    if (k->event != NULL)
      r->event_destroy(k->event);
    bwt_kernel_close(&k->delay);
    const CUdeviceptr memory[] = {k->weight, k->latent, k->shared, k->out};
    for (size_t m = 0; m < sizeof memory / sizeof *memory; m++)
      if (memory[m] != 0)
        d->MemFree(memory[m]);
    for (int s = 0; s < STREAMS; s++)
      if (k->streams[s] != NULL)
        d->StreamDestroy(k->streams[s]);
    bw_up_proj_plan_destroy(k->plan);
    bw_mailbox_destroy(k->mailbox);
    bw_device_close(k->device);
    d->DevicePrimaryCtxRelease(k->ordinal);
  }
  if (r->session_open)
    bwt_session_close(&r->session);
  free(r->expected);
  free(r->host);
}

/* ---- values -------------------------------------------------------------------------------- */

/* A bf16 that arrives as it is: no -0, no NaN; subnormals often. */
static uint16_t draw_value(struct run *r) {
  uint16_t value = (uint16_t)bwt_random_u64(&r->dice);
  if (bwt_random_below(&r->dice, 8) == 0)
    value &= 0x8003;
  return (value & 0x7fff) == 0 || (value & 0x7fff) > 0x7f80 ? value & 0x0001 : value;
}

/* new_rows: other row counts, too. */
static bool draw_chain(struct run *r, bool new_rows) {
  const struct bwt_protocol *p = r->p;
  for (uint32_t s = 0; s < p->chain; s++) {
    uint16_t *rows = r->expected + s * (r->out_step / 2);
    if (new_rows)
      r->rows[s] = p->all_rows ? p->rows : 1 + bwt_random_below(&r->dice, p->rows);
    for (size_t i = 0; i < r->out_step / 2; i++)
      rows[i] = draw_value(r);
    for (uint32_t i = r->first; i < r->end; i++) {
      for (uint32_t m = 0; m < p->rows; m++)
        memcpy(r->host + (size_t)m * r->row_stride, rows + (size_t)m * p->hidden + i * r->shard,
               (size_t)2 * r->shard);
      if (!enter(r, i) ||
          !OK(MemcpyHtoD(r->rank[i].shared + s * r->shared_step, r->host, r->shared_step)))
        return false;
    }
  }
  return true;
}

static bool clear_outs(struct run *r) {
  memset(r->host, 0xff, r->out_step);
  for (uint32_t i = r->first; i < r->end; i++)
    for (uint32_t s = 0; s < r->p->chain; s++)
      if (!enter(r, i) || !OK(MemcpyHtoD(r->rank[i].out + s * r->out_step, r->host, r->out_step)))
        return false;
  return true;
}

static bool check_step(struct run *r, uint32_t rank, uint32_t s) {
  const struct bwt_protocol *p = r->p;
  const uint16_t *rows = r->expected + s * (r->out_step / 2);
  if (!enter(r, rank) || !OK(MemcpyDtoH(r->host, r->rank[rank].out + s * r->out_step, r->out_step)))
    return false;
  for (uint32_t m = 0; m < p->rows; m++)
    for (uint32_t c = 0; c < p->hidden; c++) {
      size_t i = (size_t)m * p->hidden + c;
      uint16_t want = m < r->rows[s] ? rows[i] : 0xffff;
      if (r->host[i] == want)
        continue;
      bwt_say(&r->result->why,
              "rank %u, step %u of the chain, row %u of %u, column %u (of rank %u) is 0x%04x, not "
              "0x%04x\n",
              rank, s, m, r->rows[s], c, c / r->shard, r->host[i], want);
      return say_where(r);
    }
  return true;
}

static bool check_outs(struct run *r) {
  for (uint32_t i = r->first; i < r->end; i++)
    for (uint32_t s = 0; s < r->p->chain; s++)
      if (!check_step(r, i, s))
        return false;
  r->result->steps += r->p->chain;
  return true;
}

/* Every word is empty, the steps are counted, no ticket is out. */
static bool check_rings(struct run *r, uint32_t steps) {
  for (uint32_t i = r->first; i < r->end; i++) {
    bw_mailbox_info info;
    uint32_t counters[2] = {0, 0};
    if (!BW(bw_mailbox_query(r->rank[i].mailbox, &info)) || !enter(r, i) ||
        !OK(MemcpyDtoH(counters, info.counters, sizeof counters)))
      return false;
    uint32_t *words = malloc(info.ring_bytes);
    bool ok = words != NULL && OK(MemcpyDtoH(words, info.ring, info.ring_bytes));
    for (size_t w = 0; ok && w < info.ring_bytes / 4; w++)
      if (words[w] != empty_word) {
        bwt_say(&r->result->why, "rank %u: word %zu of the ring is 0x%08x, not empty\n", i, w,
                words[w]);
        ok = say_where(r);
      }
    free(words);
    if (ok && (counters[0] != steps || counters[1] != 0)) {
      bwt_say(&r->result->why, "rank %u counts %u steps and %u tickets, not %u and 0\n", i,
              counters[0], counters[1], steps);
      ok = say_where(r);
    }
    if (!ok)
      return false;
  }
  return true;
}

/* ---- launching ----------------------------------------------------------------------------- */

static uint32_t draw_flags(struct run *r, uint32_t rank, bool may_trigger_at_entry) {
  static const uint32_t flags[] = {0,
                                   0,
                                   BW_LAUNCH_TRIGGER_AFTER_WAIT,
                                   BW_LAUNCH_TRIGGER_LATE,
                                   BW_LAUNCH_NO_PDL,
                                   BW_LAUNCH_TRIGGER_ENTRY,
                                   BW_LAUNCH_TRIGGER_ENTRY};
  uint32_t drawn = flags[bwt_random_below(&r->rank_dice[rank], may_trigger_at_entry ? 7 : 5)];
  return drawn == BW_LAUNCH_NO_PDL && r->p->pdl_only ? 0 : drawn;
}

static bool maybe_delay(struct run *r, uint32_t rank, CUstream stream) {
  struct rank *k = &r->rank[rank];
  struct bwt_random *dice = &r->rank_dice[rank];
  if (r->p->delays == 0 || bwt_random_below(dice, r->p->delays) != 0)
    return true;
  /* Most are short; some let the others get as far as they can. */
  uint32_t spins = 1 + bwt_random_below(dice, bwt_random_below(dice, 8) ? 50 : MOST_SPINS);
  void *parameters[] = {&spins};
  bool pdl = r->p->pdl_only || bwt_random_below(dice, 2) == 0;
  return driver_ok(r, bwt_kernel_launch(&k->delay, 1, 32, stream, pdl, parameters), "the delay");
}

static bool enqueue(struct run *r, uint32_t rank, CUstream stream) {
  struct rank *k = &r->rank[rank];
  bool waits_first = r->p->mailbox_flags & BW_MAILBOX_COPY_WAITS_FIRST;
  if (!enter(r, rank))
    return false;
  for (uint32_t s = 0; s < r->p->chain; s++) {
    bw_up_proj_args produce = {.latent = k->latent,
                               .shared = k->shared + s * r->shared_step,
                               .shared_row_stride = r->row_stride,
                               .rows = r->rows[s],
                               .flags = draw_flags(r, rank, waits_first)};
    bw_lamport_copy_args consume = {
        .out = k->out + s * r->out_step, .rows = r->rows[s], .flags = draw_flags(r, rank, true)};
    if (r->p->fixed) {
      produce.flags = r->p->produce_flags;
      consume.flags = r->p->consume_flags;
    }
    if (!maybe_delay(r, rank, stream) || !BW(bw_up_proj_launch(k->plan, &produce, stream)) ||
        !maybe_delay(r, rank, stream) || !BW(bw_lamport_copy_launch(k->mailbox, &consume, stream)))
      return false;
  }
  return true;
}

/* Whatever comes on the other stream is ordered behind what is on this one. */
static bool change_streams(struct run *r) {
  int next = (r->stream + 1) % STREAMS;
  for (uint32_t i = r->first; i < r->end; i++) {
    struct rank *k = &r->rank[i];
    if (!enter(r, i) ||
        !driver_ok(r, r->event_record(k->event, k->streams[r->stream]), "cuEventRecord") ||
        !driver_ok(r, r->stream_wait(k->streams[next], k->event, 0), "cuStreamWaitEvent"))
      return false;
  }
  r->stream = next;
  return true;
}

static bool finish(struct run *r) {
  for (uint32_t i = r->first; i < r->end; i++)
    if (!enter(r, i) || !OK(StreamSynchronize(r->rank[i].streams[r->stream])))
      return false;
  return true;
}

static bool capture(struct run *r) {
  for (uint32_t i = r->first; i < r->end; i++) {
    struct rank *k = &r->rank[i];
    CUgraph graph;
    if (!enter(r, i) || (k->graph != NULL && !OK(GraphExecDestroy(k->graph))))
      return false;
    k->graph = NULL;
    if (!OK(StreamBeginCapture(k->streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) ||
        !enqueue(r, i, k->streams[0]) || !OK(StreamEndCapture(k->streams[0], &graph)) ||
        !OK(GraphInstantiateWithFlags(&k->graph, graph, 0)) || !OK(GraphDestroy(graph)))
      return false;
  }
  return true;
}

/* Another rank is first each time. */
static bool launch_all(struct run *r) {
  uint32_t count = r->end - r->first, from = bwt_random_below(&r->dice, r->p->ranks);
  for (uint32_t n = 0; n < count; n++) {
    uint32_t i = r->first + (from + n) % count;
    CUstream stream = r->rank[i].streams[r->stream];
    if (!r->p->graph ? !enqueue(r, i, stream)
                     : !enter(r, i) || !OK(GraphLaunch(r->rank[i].graph, stream)))
      return false;
  }
  return true;
}

/* One chain, or a graph of one, replayed a second time now and then without a wait between. */
static bool run_chain(struct run *r, uint32_t number, uint32_t *taken) {
  bool fresh = !r->p->graph || number % 4 == 0;
  if (!draw_chain(r, fresh) || !clear_outs(r) || (r->p->graph && fresh && !capture(r)))
    return false;
  uint32_t times = r->p->graph ? 1 + bwt_random_below(&r->dice, 2) : 1;
  for (uint32_t t = 0; t < times; t++)
    if ((bwt_random_below(&r->dice, 2) == 0 && !change_streams(r)) || !launch_all(r))
      return false;
  *taken += times * r->p->chain;
  return finish(r) && check_outs(r);
}

bool bwt_protocol_run(const struct bwt_protocol *p, struct bwt_protocol_result *result) {
  struct run r = {.p = p, .result = result};
  uint32_t taken = 0;
  memset(result, 0, sizeof *result);
  bool ok = open_run(&r);
  result->ran = ok;
  for (uint32_t chain = 0; ok && taken < p->steps; chain++)
    ok = run_chain(&r, chain, &taken);
  ok = ok && check_rings(&r, taken);
  if (ok)
    result->steps = taken;
  close_run(&r);
  return ok;
}
