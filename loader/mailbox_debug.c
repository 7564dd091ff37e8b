/* SPDX-License-Identifier: Apache-2.0
 *
 * What BAREWARP_DEBUG=1 and a poll limit tell about misuse of a mailbox.
 *
 * The checks look at the order of launch calls, which must be the order of the work.
 * Launches that are captured are followed apart, capture by capture: what runs is decided
 * when the graph is launched.
 */
#include "error.h"
#include "mailbox.h"

#include <string.h>

/* ---- a poll that gave up --------------------------------------------------------------
 *
 * The kernel leaves one word in host memory: 0, or the number of the 16-byte chunk, times
 * 16, plus one bit for each of its words that was still empty. */

bw_status bw_mailbox_check(const bw_mailbox *m) {
  if (!m)
    return bwi_fail_null("mailbox");
  if (!m->stuck)
    return BW_OK;
  uint32_t note = __atomic_load_n(m->stuck, __ATOMIC_ACQUIRE);
  if (note == 0)
    return BW_OK;
  uint32_t words_of_row = m->row_bytes / 4;
  uint32_t empty = 0;
  while (!(note >> empty & 1))
    empty++;
  uint32_t word = (note >> 4) * (m->chunk_bytes / 4) + empty;
  uint32_t column = word % words_of_row * 2;
  uint32_t shard = m->config.hidden / m->config.tp_size;
  return bwi_fail(BW_ERROR_STATE,
                  "lamport_copy of rank %u gave up after %u polls: row %u, word %u (columns %u, "
                  "%u) never came from rank %u; the mailbox needs a reset",
                  m->config.rank, m->config.poll_limit, word / words_of_row, word % words_of_row,
                  column, column + 1, column / shard);
}

/* ---- the order of launches --------------------------------------------------------- */

bw_status bwi_contract_init(bw_mailbox *m) {
  return pthread_mutex_init(&m->contract.lock, NULL) == 0 ? BW_OK
                                                          : bwi_fail_memory("a mailbox's lock");
}

void bwi_contract_end(bw_mailbox *m) {
  if (m->contract.event)
    (void)m->device->driver->cuEventDestroy(m->contract.event);
  (void)pthread_mutex_destroy(&m->contract.lock);
}

void bwi_contract_reset(bw_mailbox *m) {
  bwi_contract *c = &m->contract;
  (void)pthread_mutex_lock(&c->lock);
  c->eager = c->captured = (bwi_last_launch){0};
  c->launched = false;
  (void)pthread_mutex_unlock(&c->lock);
}

/* The capture that the stream is in; 0: none, or the driver does not tell. */
static unsigned long long capture_of(const bw_mailbox *m, bw_stream stream) {
  const bwi_driver *cu = m->device->driver;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  if (!cu->cuStreamGetCaptureInfo ||
      cu->cuStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL, NULL) != CUDA_SUCCESS)
    return 0;
  return status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? id : 0;
}

static bwi_last_launch *last_of(bwi_contract *c, unsigned long long capture) {
  if (!capture)
    return &c->eager;
  if (capture != c->capture)
    c->captured = (bwi_last_launch){0};
  c->capture = capture;
  return &c->captured;
}

static bw_status check_order(const bw_mailbox *m, const bwi_last_launch *last, bool producing,
                             uint32_t rows) {
  if (producing && last->producing)
    return bwi_fail(BW_ERROR_STATE,
                    "rank %u: two up_proj of one mailbox in a row: a lamport_copy of %u rows must "
                    "come between",
                    m->config.rank, last->rows);
  if (!producing && !last->producing)
    return bwi_fail(BW_ERROR_STATE,
                    "rank %u: a lamport_copy without an up_proj of the same mailbox before it",
                    m->config.rank);
  if (!producing && rows != last->rows)
    return bwi_fail(BW_ERROR_STATE,
                    "rank %u: lamport_copy is asked for %u rows, but the step's up_proj made %u",
                    m->config.rank, rows, last->rows);
  return BW_OK;
}

/* An event behind the other stream's work so far cannot be over before the last launch if
 * that comes before it.  If it is, nothing orders the two.  Nothing else is proof. */
static bool seen_unordered(bw_mailbox *m, bw_stream stream) {
  const bwi_driver *cu = m->device->driver;
  CUevent probe = NULL;
  bool unordered = false;
  if (cu->cuEventCreate(&probe, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
    return false;
  if (cu->cuEventRecord(probe, stream) == CUDA_SUCCESS)
    unordered = cu->cuEventQuery(probe) == CUDA_SUCCESS &&
                cu->cuEventQuery(m->contract.event) == CUDA_ERROR_NOT_READY;
  (void)cu->cuEventDestroy(probe);
  return unordered;
}

static bw_status check_stream_order(bw_mailbox *m, bw_stream stream) {
  bwi_contract *c = &m->contract;
  if (!c->launched || !c->event || stream == c->stream)
    return BW_OK;
  bwi_scope scope;
  bw_status status = bwi_enter(m->device, &scope);
  if (status != BW_OK)
    return status;
  if (seen_unordered(m, stream))
    status = bwi_fail(BW_ERROR_STATE,
                      "rank %u: this stream is not that of the mailbox's last launch, and no event "
                      "orders it after that",
                      m->config.rank);
  return bwi_leave(&scope, status);
}

bw_status bwi_contract_check(bw_mailbox *m, bool producing, uint32_t rows, bw_stream stream) {
  bwi_contract *c = &m->contract;
  bw_status status = bw_mailbox_check(m);
  if (status != BW_OK)
    return status;
  (void)pthread_mutex_lock(&c->lock);
  unsigned long long capture = capture_of(m, stream);
  status = check_order(m, last_of(c, capture), producing, rows);
  if (status == BW_OK && !capture)
    status = check_stream_order(m, stream);
  (void)pthread_mutex_unlock(&c->lock);
  return status;
}

/* Best effort: without the event only the streams' order goes unchecked. */
static void mark_stream(bw_mailbox *m, bw_stream stream) {
  const bwi_driver *cu = m->device->driver;
  bwi_contract *c = &m->contract;
  bwi_scope scope;
  if (bwi_enter(m->device, &scope) != BW_OK)
    return;
  if (!c->event && cu->cuEventCreate(&c->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
    c->event = NULL;
  c->launched = c->event && cu->cuEventRecord(c->event, stream) == CUDA_SUCCESS;
  c->stream = stream;
  (void)bwi_leave(&scope, BW_OK);
}

void bwi_contract_launched(bw_mailbox *m, bool producing, uint32_t rows, bw_stream stream) {
  bwi_contract *c = &m->contract;
  (void)pthread_mutex_lock(&c->lock);
  unsigned long long capture = capture_of(m, stream);
  *last_of(c, capture) = (bwi_last_launch){.producing = producing, .rows = rows};
  if (!capture)
    mark_stream(m, stream);
  (void)pthread_mutex_unlock(&c->lock);
}
