/* SPDX-License-Identifier: Apache-2.0
 *
 * Mailboxes: configuration, life, queries.  They are set up in mailbox_rounds.c.
 */
#include "mailbox.h"
#include "error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Rows times columns: a generation then has 2^31 bytes, so that the kernels' 32-bit sizes
 * and chunk numbers (with 4 bits to spare) hold it. */
#define MAX_ELEMENTS (UINT64_C(1) << 30)

/* 16 bytes, as words move, and the reader's chunks. */
#define ROW_MULTIPLE 8u

#define DEBUG_POLL_LIMIT (UINT32_C(1) << 22)

static bw_status check_sizes(uint32_t hidden, uint32_t capacity) {
  if (hidden == 0 || hidden > MAX_ELEMENTS)
    return bwi_fail_range("config.hidden", hidden, ROW_MULTIPLE, MAX_ELEMENTS);
  if (hidden % ROW_MULTIPLE != 0)
    return bwi_fail_multiple("config.hidden", hidden, ROW_MULTIPLE);
  if (capacity == 0 || capacity > MAX_ELEMENTS / hidden)
    return bwi_fail_range("config.capacity", capacity, 1, MAX_ELEMENTS / hidden);
  return BW_OK;
}

static bw_status check_config(const bw_mailbox_config *c) {
  bw_status status = check_sizes(c->hidden, c->capacity);
  if (status != BW_OK)
    return status;
  if (c->tp_size == 0 || c->tp_size > BW_MAILBOX_MAX_RANKS)
    return bwi_fail_range("config.tp_size", c->tp_size, 1, BW_MAILBOX_MAX_RANKS);
  if (c->rank >= c->tp_size)
    return bwi_fail_range("config.rank", c->rank, 0, c->tp_size - 1);
  if (c->hidden % c->tp_size != 0)
    return bwi_fail_multiple("config.hidden", c->hidden, c->tp_size);
  /* Words hold two columns of one rank. */
  if (c->hidden / c->tp_size % 2 != 0)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "config.hidden / config.tp_size is %u, must be even: two columns are a word",
                    c->hidden / c->tp_size);
  if ((uint32_t)c->mode > BW_MAILBOX_LOCAL)
    return bwi_fail_range("config.mode", (uint32_t)c->mode, BW_MAILBOX_AUTO, BW_MAILBOX_LOCAL);
  if (c->mode == BW_MAILBOX_MULTICAST && c->tp_size == 1)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "config.mode is multicast, which config.tp_size 1 does not allow");
  if ((c->flags & ~(uint32_t)BW_MAILBOX_COPY_WAITS_FIRST) != 0)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "config.flags is 0x%x, must be 0x0 or 0x%x",
                    c->flags, BW_MAILBOX_COPY_WAITS_FIRST);
  return BW_OK;
}

/* ---- life -------------------------------------------------------------------------- */

static bw_status allocate_stuck(bw_mailbox *m) {
  const bwi_driver *cu = m->device->driver;
  void *memory = NULL;
  bwi_scope scope;
  bw_status status = bwi_enter(m->device, &scope);
  if (status != BW_OK)
    return status;
  CUstreamCaptureMode mode = bwi_relax_capture(cu);
  status =
      BWI_CALL(cu, cuMemHostAlloc,
               (&memory, sizeof *m->stuck, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
  if (status == BW_OK) {
    m->stuck = memory;
    *m->stuck = 0;
    status = BWI_CALL(cu, cuMemHostGetDevicePointer, (&m->stuck_address, memory, 0));
  }
  bwi_restore_capture(cu, mode);
  return bwi_leave(&scope, status);
}

/* A fresh blob for a fresh sequence of rounds. */
static bw_status begin_rounds(bw_mailbox *m, bwi_purpose purpose) {
  const bw_mailbox_config *c = &m->config;
  uint64_t id;
  if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id)
    return bwi_fail(BW_ERROR_IO, "getrandom gives no random bytes");
  m->mine = (bwi_blob){
      .head = {BWI_BLOB_MAGIC, BWI_BLOB_VERSION, (uint32_t)sizeof m->mine},
      .id = id,
      .purpose = (uint32_t)purpose,
      .rank = c->rank,
      .tp_size = c->tp_size,
      .hidden = c->hidden,
      .capacity = c->capacity,
      .mode = (uint32_t)c->mode,
      .generations = m->generations,
      .memory = {.descriptor = -1},
      .multicast = {.descriptor = -1},
  };
  m->purpose = purpose;
  m->round = 0;
  bwi_mail_init(&m->mail);
  atomic_store_explicit(&m->state, BWI_IN_ROUNDS, memory_order_release);
  return BW_OK;
}

static bw_status new_mailbox(bw_device *device, const bw_mailbox_config *config,
                             bwi_purpose purpose, bw_mailbox **out) {
  if (!device)
    return bwi_fail_null("device");
  if (!config)
    return bwi_fail_null("config");
  if (!out)
    return bwi_fail_null("out");
  bw_status status = check_config(config);
  if (status != BW_OK)
    return status;
  bw_mailbox *m = calloc(1, sizeof *m);
  if (!m)
    return bwi_fail_memory("a mailbox");
  status = bwi_contract_init(m);
  if (status != BW_OK) {
    free(m);
    return status;
  }
  atomic_init(&m->references, 1);
  m->device = bwi_device_retain(device);
  m->config = *config;
  if (m->config.mode == BW_MAILBOX_AUTO && config->tp_size == 1)
    m->config.mode = BW_MAILBOX_LOCAL;
  if (m->config.poll_limit == 0 && device->debug)
    m->config.poll_limit = DEBUG_POLL_LIMIT;
  m->mode = m->config.mode;
  m->row_bytes = config->hidden * 2;
  m->generation_bytes = m->row_bytes * config->capacity;
  status = begin_rounds(m, purpose);
  if (status == BW_OK && m->config.poll_limit > 0)
    status = allocate_stuck(m);
  if (status == BW_OK)
    *out = m;
  else
    bw_mailbox_destroy(m);
  return status;
}

bw_status bw_mailbox_create(bw_device *device, const bw_mailbox_config *config, bw_mailbox **out) {
  return new_mailbox(device, config, BWI_CREATE, out);
}

bw_mailbox *bwi_mailbox_retain(bw_mailbox *mailbox) {
  atomic_fetch_add_explicit(&mailbox->references, 1, memory_order_relaxed);
  return mailbox;
}

void bw_mailbox_destroy(bw_mailbox *m) {
  if (!m || atomic_fetch_sub_explicit(&m->references, 1, memory_order_acq_rel) != 1)
    return;
  bwi_memory_release(m);
  bwi_contract_end(m);
  bw_device_close(m->device);
  free(m);
}

bw_status bw_mailbox_reset(bw_mailbox *m) {
  if (!m)
    return bwi_fail_null("mailbox");
  if (atomic_load_explicit(&m->state, memory_order_acquire) != BWI_READY)
    return bwi_fail(BW_ERROR_STATE, "the mailbox was not set up, so it cannot be reset");
  bw_status status = begin_rounds(m, BWI_RESET);
  if (status == BW_OK)
    bwi_contract_reset(m);
  return status;
}

/* ---- memory of the engine's -------------------------------------------------------- */

static bw_status check_peers(const bw_mailbox_config *c, const bw_mailbox_memory *memory) {
  for (uint32_t r = 0; r < c->tp_size; r++) {
    char name[32];
    (void)snprintf(name, sizeof name, "memory.peers[%u]", r);
    bw_status status = bwi_check_address(name, memory->peers[r], 16);
    if (status != BW_OK)
      return status;
  }
  if (memory->peers[c->rank] != memory->ring)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "memory.peers[%u] is 0x%" PRIx64 ", must be memory.ring, 0x%" PRIx64, c->rank,
                    memory->peers[c->rank], memory->ring);
  return BW_OK;
}

/* Every row, and every rank's columns in it, must start at a multiple of a word; the
 * vector stores ask for more when a plan is made. */
static bw_status check_memory(const bw_mailbox_config *c, const bw_mailbox_memory *memory) {
  if (!memory)
    return bwi_fail_null("memory");
  bw_status status = bwi_check_address("memory.ring", memory->ring, 16);
  if (status == BW_OK && memory->counters)
    status = bwi_check_address("memory.counters", memory->counters, 8);
  if (status == BW_OK && c->mode == BW_MAILBOX_PEERS)
    status = check_peers(c, memory);
  if (status == BW_OK && c->mode == BW_MAILBOX_MULTICAST)
    status = bwi_check_address("memory.multicast", memory->multicast, 16);
  return status;
}

static void take_memory(bw_mailbox *m, const bw_mailbox_memory *memory) {
  m->adopted = true;
  m->ring = memory->ring;
  m->counters = memory->counters;
  m->target_count = 1;
  m->targets[0] = m->mode == BW_MAILBOX_MULTICAST ? memory->multicast : memory->ring;
  if (m->mode == BW_MAILBOX_PEERS) {
    m->target_count = m->config.tp_size;
    memcpy(m->targets, memory->peers, sizeof m->targets);
  }
}

bw_status bw_mailbox_adopt(bw_device *device, const bw_mailbox_config *config,
                           const bw_mailbox_memory *memory, bw_mailbox **out) {
  if (!config)
    return bwi_fail_null("config");
  if (config->mode == BW_MAILBOX_AUTO && config->tp_size > 1)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "config.mode is auto, must say how the adopted memory is shared");
  bw_status status = check_config(config);
  if (status == BW_OK)
    status = check_memory(config, memory);
  if (status == BW_OK)
    status = new_mailbox(device, config, BWI_ADOPT, out);
  if (status == BW_OK)
    take_memory(*out, memory);
  return status;
}

bw_status bw_mailbox_ring_size(const bw_device *device, uint32_t hidden, uint32_t capacity,
                               size_t *bytes) {
  if (!device)
    return bwi_fail_null("device");
  if (!bytes)
    return bwi_fail_null("bytes");
  bw_status status = check_sizes(hidden, capacity);
  size_t entry;
  uint32_t generations = 0;
  if (status == BW_OK)
    status = bwi_lamport_copy_find(device, &entry, &generations);
  if (status == BW_OK)
    *bytes = (size_t)generations * hidden * 2 * capacity;
  return status;
}

/* ---- queries ----------------------------------------------------------------------- */

bw_status bwi_mailbox_check_ready(const bw_mailbox *m) {
  int state = atomic_load_explicit(&m->state, memory_order_acquire);
  if (state == BWI_READY)
    return BW_OK;
  return bwi_fail(BW_ERROR_STATE, "the mailbox is not ready: %s",
                  state == BWI_BROKEN ? "its set-up failed" : "the rounds are not done");
}

bw_status bw_mailbox_query(const bw_mailbox *m, bw_mailbox_info *out) {
  if (!m)
    return bwi_fail_null("mailbox");
  if (!out)
    return bwi_fail_null("out");
  bool ready = atomic_load_explicit(&m->state, memory_order_acquire) == BWI_READY;
  *out = (bw_mailbox_info){.mode = m->mode, .ready = ready, .generations = m->generations};
  if (ready) {
    out->ring = m->ring;
    out->ring_bytes = m->ring_bytes;
    out->counters = m->counters;
  }
  return BW_OK;
}
