/* SPDX-License-Identifier: Apache-2.0
 *
 * Setting up a mailbox in rounds.
 *
 * A round looks at the blobs that all ranks filled in the round before and so comes to
 * the same verdict on every rank; then it does the next step on this rank, and notes in its
 * own blob how that went.  A step that fails ends nothing yet: the verdict of the next
 * round does, on all ranks alike.  A step of multicast that fails only means peers, unless
 * multicast was demanded.  The steps of bw_mailbox_create:
 *
 *   0  what this rank can do
 *   1  all agree: own memory is made, emptied and offered; rank 0 tries to create the
 *      multicast object, if it is allowed everywhere
 *   2  descriptors are fetched (pidfd_getfd); what cannot be is asked for
 *   3  what was asked of this rank is sent (SCM_RIGHTS)
 *   4  what this rank asked for is received; its device is added to the multicast object
 *   5  all devices are added: memory is bound and the object mapped.  These calls block
 *      until all are added, hence not before
 *   6  all are bound: done.  Else nobody uses multicast: the others' memory is mapped
 *   7  all have: ready
 *
 * bw_mailbox_adopt: 0 own ring emptied, 1 all are: ready.  bw_mailbox_reset: 0 nothing,
 * 1 all asked for it: emptied, 2 all are: ready.
 */
#include "error.h"
#include "mailbox.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- verdicts ---------------------------------------------------------------------- */

static bool all_are(const bw_mailbox *m, bwi_multicast_state state) {
  for (uint32_t r = bwi_first_rank(m); r <= bwi_last_rank(m); r++)
    if (m->all[r].multicast_state != (uint32_t)state)
      return false;
  return true;
}

static const char *bar_text(uint32_t bar) {
  switch (bar) {
  case BWI_MULTICAST_BARRED_BY_NCCL:
    return "its environment has NCCL_NVLS_ENABLE=0";
  case BWI_MULTICAST_BARRED_BY_BAREWARP:
    return "its environment has BAREWARP_MULTICAST=0";
  case BWI_MULTICAST_NO_DEVICE:
    return "its device has no multicast";
  default:
    return "its driver has no multicast";
  }
}

/* Whether multicast may be tried.  BW_ERROR_UNSUPPORTED: it was demanded but must not. */
static bw_status decide_multicast(bw_mailbox *m) {
  bool demanded = m->config.mode == BW_MAILBOX_MULTICAST;
  m->want_multicast = false;
  if (!demanded && m->config.mode != BW_MAILBOX_AUTO)
    return BW_OK;
  for (uint32_t r = bwi_first_rank(m); r <= bwi_last_rank(m); r++) {
    if (m->all[r].multicast_bar == BWI_MULTICAST_POSSIBLE)
      continue;
    return demanded ? bwi_fail(BW_ERROR_UNSUPPORTED,
                               "config.mode is multicast, which rank %u does not allow: %s", r,
                               bar_text(m->all[r].multicast_bar))
                    : BW_OK;
  }
  m->want_multicast = true;
  return BW_OK;
}

/* Multicast did not come as far as it should have.  That is an error if it was demanded: the
 * first rank that failed says why. */
static bw_status judge_multicast(const bw_mailbox *m) {
  if (m->config.mode != BW_MAILBOX_MULTICAST)
    return BW_OK;
  for (uint32_t r = bwi_first_rank(m); r <= bwi_last_rank(m); r++)
    if (m->all[r].multicast_state == BWI_MULTICAST_FAILED)
      return bwi_fail_cu(BW_ERROR_UNSUPPORTED, m->all[r].curesult,
                         "config.mode is multicast, which failed on rank %u: %s", r,
                         m->all[r].text);
  return bwi_fail(
      BW_ERROR_UNSUPPORTED,
      "config.mode is multicast, but the ranks' devices want memory of different sizes");
}

/* One kind of handle for all: descriptors on one node, else fabric handles. */
static bw_status decide_handles(bw_mailbox *m) {
  const bwi_blob *first = &m->all[bwi_first_rank(m)];
  bool one_node = true;
  m->one_process = true;
  for (uint32_t r = bwi_first_rank(m); r <= bwi_last_rank(m); r++) {
    m->one_process &= bwi_same_process(&m->all[r].where, &first->where);
    one_node &= bwi_same_node(&m->all[r].where, &first->where);
  }
  m->handle_type = one_node ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_FABRIC;
  uint32_t needed = one_node ? BWI_CAN_DESCRIPTOR : BWI_CAN_FABRIC;
  for (uint32_t r = bwi_first_rank(m); r <= bwi_last_rank(m); r++) {
    if (m->all[r].can & needed)
      continue;
    if (!m->one_process)
      return bwi_fail(BW_ERROR_UNSUPPORTED, "the device of rank %u cannot share memory by %s", r,
                      one_node ? "file descriptors"
                               : "fabric handles, which ranks on several nodes need");
    m->handle_type = CU_MEM_HANDLE_TYPE_NONE; /* nor need it */
  }
  return BW_OK;
}

/* ---- the steps of create ----------------------------------------------------------- */

static bool says_no(const char *variable) {
  const char *value = getenv(variable);
  return value && strcmp(value, "0") == 0;
}

static bw_status has_attribute(const bw_mailbox *m, CUdevice_attribute attribute, bool *has) {
  const bwi_driver *cu = m->device->driver;
  int value = 0;
  CUresult result = cu->cuDeviceGetAttribute(&value, attribute, m->device->device);
  *has = result == CUDA_SUCCESS && value != 0;
  if (result == CUDA_ERROR_INVALID_VALUE)
    return BW_OK; /* a driver that is older than the attribute */
  return bwi_driver_check(cu, result, "cuDeviceGetAttribute");
}

static bw_status find_bar(bw_mailbox *m) {
  const bwi_driver *cu = m->device->driver;
  bool has = false;
  bw_status status = has_attribute(m, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, &has);
  bwi_multicast_bar bar = BWI_MULTICAST_POSSIBLE;
  if (says_no("NCCL_NVLS_ENABLE"))
    bar = BWI_MULTICAST_BARRED_BY_NCCL;
  else if (says_no("BAREWARP_MULTICAST"))
    bar = BWI_MULTICAST_BARRED_BY_BAREWARP;
  else if (!has)
    bar = BWI_MULTICAST_NO_DEVICE;
  else if (!cu->cuMulticastCreate || !cu->cuMulticastAddDevice || !cu->cuMulticastBindMem ||
           !cu->cuMulticastUnbind || !cu->cuMulticastGetGranularity)
    bar = BWI_MULTICAST_NO_DRIVER;
  m->mine.multicast_bar = bar;
  return status;
}

static bw_status check_driver(const bw_mailbox *m) {
  const bwi_driver *cu = m->device->driver;
  bool has = false;
  bw_status status =
      has_attribute(m, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &has);
  if (status != BW_OK)
    return status;
  if (!has || !cu->cuMemCreate || !cu->cuMemRelease || !cu->cuMemAddressReserve ||
      !cu->cuMemAddressFree || !cu->cuMemMap || !cu->cuMemUnmap || !cu->cuMemSetAccess ||
      !cu->cuMemGetAllocationGranularity || !cu->cuMemExportToShareableHandle ||
      !cu->cuMemImportFromShareableHandle)
    return bwi_fail(BW_ERROR_UNSUPPORTED, "%s or its driver has no virtual memory management",
                    m->device->title);
  return BW_OK;
}

static bw_status find_capabilities(bw_mailbox *m) {
  bool descriptor = false, fabric = false;
  bw_status status = check_driver(m);
  if (status == BW_OK)
    status = has_attribute(m, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                           &descriptor);
  if (status == BW_OK)
    status = has_attribute(m, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, &fabric);
  if (status == BW_OK)
    status = find_bar(m);
  if (status == BW_OK)
    status = bwi_whereabouts_find(&m->mine.where);
  m->mine.can =
      (descriptor ? (uint32_t)BWI_CAN_DESCRIPTOR : 0) | (fabric ? (uint32_t)BWI_CAN_FABRIC : 0);
  return status;
}

/* The attempt failed on this rank; the words of it go to all. */
static void give_up_multicast(bw_mailbox *m) {
  m->mine.multicast_state = BWI_MULTICAST_FAILED;
  m->mine.curesult = bw_last_curesult();
  (void)snprintf(m->mine.text, sizeof m->mine.text, "%s", bw_last_error());
  bwi_multicast_release(m);
}

static bw_status make_memory(bw_mailbox *m) {
  bw_status status = bwi_memory_size(m);
  bool fits = status == BW_OK && m->want_multicast;
  if (fits && bwi_multicast_fit(m) != BW_OK) {
    give_up_multicast(m);
    fits = false;
  }
  if (status == BW_OK)
    status = bwi_memory_create(m);
  if (status == BW_OK)
    status = bwi_memory_arm(m);
  if (status == BW_OK)
    status = bwi_memory_offer(m);
  m->mine.bytes = m->bytes;
  if (status != BW_OK || !fits || m->config.rank != 0)
    return status;
  if (bwi_multicast_create(m) == BW_OK)
    m->mine.multicast_state = BWI_MULTICAST_CREATED;
  else
    give_up_multicast(m);
  return BW_OK;
}

/* Multicast goes on only over memory of one size. */
static bool multicast_created(const bw_mailbox *m) {
  bool good = m->want_multicast && m->all[0].multicast_state == BWI_MULTICAST_CREATED;
  for (uint32_t r = bwi_first_rank(m); r <= bwi_last_rank(m); r++)
    good = good && m->all[r].bytes == m->all[0].bytes &&
           m->all[r].multicast_state != BWI_MULTICAST_FAILED;
  return good;
}

/* Whether the blob's offers reach this rank as descriptors. */
static bool by_descriptor(const bw_mailbox *m, const bwi_blob *b) {
  return m->handle_type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
         !bwi_same_process(&b->where, &m->mine.where);
}

/* With multicast demanded, nobody needs the others' memory. */
static bool needs_memory(const bw_mailbox *m, uint32_t rank) {
  return rank != m->config.rank && m->config.mode != BW_MAILBOX_MULTICAST;
}

static bw_status fetch_descriptors(bw_mailbox *m) {
  const bwi_whereabouts *self = &m->mine.where;
  m->mine.memory_wanted = m->mine.multicast_wanted = 0;
  for (uint32_t r = bwi_first_rank(m); r <= bwi_last_rank(m); r++) {
    const bwi_blob *b = &m->all[r];
    if (!by_descriptor(m, b))
      continue;
    if (needs_memory(m, r)) {
      m->mail.taken[r] = bwi_descriptor_fetch(&b->where, self, b->memory.descriptor);
      if (m->mail.taken[r] < 0)
        m->mine.memory_wanted |= 1u << r;
    }
    if (r == 0 && m->want_multicast) {
      m->mail.taken_multicast = bwi_descriptor_fetch(&b->where, self, b->multicast.descriptor);
      m->mine.multicast_wanted = m->mail.taken_multicast < 0;
    }
  }
  if (!m->mine.memory_wanted && !m->mine.multicast_wanted)
    return BW_OK;
  bw_status status = bwi_mail_open(&m->mail, m->config.tp_size);
  memcpy(m->mine.mail_address, m->mail.address, sizeof m->mine.mail_address);
  return status;
}

static bw_status send_descriptors(const bw_mailbox *m) {
  uint32_t self = m->config.rank;
  bw_status status = BW_OK;
  for (uint32_t r = bwi_first_rank(m); status == BW_OK && r <= bwi_last_rank(m); r++) {
    const bwi_blob *b = &m->all[r];
    if (b->memory_wanted >> self & 1)
      status = bwi_descriptor_send(b->mail_address, self, b->id, BWI_MAIL_MEMORY,
                                   m->mail.offered[BWI_MAIL_MEMORY]);
    if (status == BW_OK && self == 0 && b->multicast_wanted)
      status = bwi_descriptor_send(b->mail_address, self, b->id, BWI_MAIL_MULTICAST,
                                   m->mail.offered[BWI_MAIL_MULTICAST]);
  }
  return status;
}

/* All ranks said that they sent what they were asked for, so waiting is for the lost. */
static bw_status receive_descriptors(bw_mailbox *m) {
  int64_t deadline = bwi_milliseconds() + BWI_MAIL_TIMEOUT_MS;
  bw_status status = BW_OK;
  for (uint32_t r = bwi_first_rank(m); status == BW_OK && r <= bwi_last_rank(m); r++) {
    bool memory = m->mine.memory_wanted >> r & 1;
    bool multicast = r == 0 && m->mine.multicast_wanted;
    if (memory || multicast)
      status = bwi_descriptor_receive(&m->mail, r, m->mine.id, memory ? &m->mail.taken[r] : NULL,
                                      multicast ? &m->mail.taken_multicast : NULL, deadline);
  }
  return status;
}

static void add_to_multicast(bw_mailbox *m) {
  bw_status status = BW_OK;
  if (m->config.rank != 0)
    status = bwi_memory_import(m, &m->all[0], &m->all[0].multicast, &m->mail.taken_multicast,
                               &m->multicast.handle);
  if (status == BW_OK)
    status = bwi_multicast_add(m);
  if (status == BW_OK)
    m->mine.multicast_state = BWI_MULTICAST_ADDED;
  else
    give_up_multicast(m);
}

static bw_status map_peers(bw_mailbox *m) {
  bw_status status = BW_OK;
  for (uint32_t r = bwi_first_rank(m); status == BW_OK && r <= bwi_last_rank(m); r++) {
    if (r == m->config.rank) {
      m->targets[r] = m->ring;
      continue;
    }
    status = m->all[r].bytes == m->bytes
                 ? bwi_memory_import(m, &m->all[r], &m->all[r].memory, &m->mail.taken[r],
                                     &m->peers[r].handle)
                 : bwi_fail(BW_ERROR_UNSUPPORTED,
                            "the memory of rank %u has %" PRIu64 " bytes, that of rank %u has %zu",
                            r, m->all[r].bytes, m->config.rank, m->bytes);
    if (status == BW_OK)
      status = bwi_memory_map(m, &m->peers[r]);
    m->targets[r] = m->peers[r].address;
  }
  m->target_count = m->config.tp_size;
  return status;
}

static void use_one_target(bw_mailbox *m, bw_mailbox_mode mode, bw_devptr target) {
  m->mode = mode;
  m->targets[0] = target;
  m->target_count = 1;
}

/* The object is bound everywhere, or of no use to anyone. */
static bw_status choose_mode(bw_mailbox *m) {
  bw_status status = BW_OK;
  if (m->config.mode == BW_MAILBOX_LOCAL) {
    use_one_target(m, BW_MAILBOX_LOCAL, m->ring);
  } else if (all_are(m, BWI_MULTICAST_BOUND)) {
    use_one_target(m, BW_MAILBOX_MULTICAST, m->multicast.address);
  } else {
    bwi_multicast_release(m);
    m->mode = BW_MAILBOX_PEERS;
    status = map_peers(m);
  }
  bwi_mail_close(&m->mail);
  return status;
}

/* Verdicts that only create has, then its step. */
static bw_status judge_create(bw_mailbox *m) {
  bw_status status;
  switch (m->round) {
  case 1:
    status = decide_multicast(m);
    return status == BW_OK ? decide_handles(m) : status;
  case 2:
    m->want_multicast = multicast_created(m);
    return m->want_multicast ? BW_OK : judge_multicast(m);
  case 5:
    m->want_multicast = m->want_multicast && all_are(m, BWI_MULTICAST_ADDED);
    return m->want_multicast ? BW_OK : judge_multicast(m);
  case 6:
    return all_are(m, BWI_MULTICAST_BOUND) ? BW_OK : judge_multicast(m);
  default:
    return BW_OK;
  }
}

static bw_status step_create(bw_mailbox *m) {
  bw_status status = BW_OK;
  switch (m->round) {
  case 0:
    return find_capabilities(m);
  case 1:
    return make_memory(m);
  case 2:
    return fetch_descriptors(m);
  case 3:
    return send_descriptors(m);
  case 4:
    status = receive_descriptors(m);
    if (status == BW_OK && m->want_multicast)
      add_to_multicast(m);
    return status;
  case 5:
    if (!m->want_multicast)
      return BW_OK;
    if (bwi_multicast_bind(m) == BW_OK)
      m->mine.multicast_state = BWI_MULTICAST_BOUND;
    else
      give_up_multicast(m);
    return BW_OK;
  case 6:
    return choose_mode(m);
  default:
    return BW_OK;
  }
}

/* ---- the steps of adopt and reset -------------------------------------------------- */

static bw_status step_adopt(bw_mailbox *m) {
  if (m->round > 0)
    return BW_OK;
  bw_status status = bwi_memory_adopt(m);
  return status == BW_OK ? bwi_memory_arm(m) : status;
}

static bw_status step_reset(bw_mailbox *m) {
  return m->round == 1 ? bwi_memory_arm(m) : BW_OK;
}

/* ---- a round ----------------------------------------------------------------------- */

static uint32_t last_round(bwi_purpose purpose) {
  return purpose == BWI_CREATE ? 7 : purpose == BWI_ADOPT ? 1 : 2;
}

/* What does not depend on the purpose, in the first round of all. */
static bw_status load_copy(bw_mailbox *m) {
  size_t entry = 0;
  bw_status status = bwi_lamport_copy_find(m->device, &entry, &m->generations);
  if (status == BW_OK)
    status = bwi_lamport_copy_load(m, entry);
  m->mine.generations = m->generations;
  m->ring_bytes = (size_t)m->generations * m->generation_bytes;
  return status;
}

static bw_status take_step(bw_mailbox *m) {
  bwi_scope scope;
  bw_status status = bwi_enter(m->device, &scope);
  if (status != BW_OK)
    return status;
  CUstreamCaptureMode mode = bwi_relax_capture(m->device->driver);
  if (m->round == 0 && m->purpose != BWI_RESET)
    status = load_copy(m);
  if (status == BW_OK)
    status = m->purpose == BWI_CREATE  ? step_create(m)
             : m->purpose == BWI_ADOPT ? step_adopt(m)
                                       : step_reset(m);
  bwi_restore_capture(m->device->driver, mode);
  return bwi_leave(&scope, status);
}

/* The failure just recorded, for the other ranks. */
static void note_failure(bw_mailbox *m, bw_status status) {
  m->mine.status = status;
  m->mine.curesult = bw_last_curesult();
  (void)snprintf(m->mine.text, sizeof m->mine.text, "%s", bw_last_error());
}

static void write_blob(bw_mailbox *m, void *blob_out) {
  m->mine.round = m->round;
  memset(blob_out, 0, BW_MAILBOX_BLOB_SIZE);
  memcpy(blob_out, &m->mine, sizeof m->mine);
}

static bw_status verdict(bw_mailbox *m, const void *blobs_in, size_t n) {
  bw_status status = bwi_blobs_gather(m, blobs_in, n);
  if (status == BW_OK)
    status = bwi_blobs_judge(m);
  if (status == BW_OK && m->purpose == BWI_CREATE)
    status = judge_create(m);
  return status;
}

/* Set-up is over.  The message survives the releasing, which records none. */
static bw_status end_in_failure(bw_mailbox *m, bw_status status, void *blob_out) {
  note_failure(m, status);
  write_blob(m, blob_out);
  atomic_store_explicit(&m->state, BWI_BROKEN, memory_order_release);
  bwi_memory_release(m);
  return status;
}

bw_status bw_mailbox_round(bw_mailbox *m, const void *blobs_in, size_t n, void *blob_out) {
  if (!m)
    return bwi_fail_null("mailbox");
  if (!blob_out)
    return bwi_fail_null("blob_out");
  int state = atomic_load_explicit(&m->state, memory_order_acquire);
  if (state == BWI_READY)
    return bwi_fail(BW_ERROR_STATE, "the mailbox's rounds are done");
  if (state == BWI_BROKEN)
    return bwi_fail(BW_ERROR_STATE, "the mailbox's set-up failed: %s", m->mine.text);
  if (m->round == 0 && n != 0)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "n is %zu, must be 0 in the first round", n);
  if (m->round > 0) {
    bw_status status = verdict(m, blobs_in, n);
    if (status != BW_OK)
      return end_in_failure(m, status, blob_out);
  }
  if (m->round == last_round(m->purpose)) {
    write_blob(m, blob_out);
    atomic_store_explicit(&m->state, BWI_READY, memory_order_release);
    return BW_OK;
  }
  /* A step's failure is told by the next round; this call does not fail, and so leaves the
   * thread's message as it is. */
  char before[1024];
  int curesult = bw_last_curesult();
  (void)snprintf(before, sizeof before, "%s", bw_last_error());
  bw_status status = take_step(m);
  if (status != BW_OK)
    note_failure(m, status);
  bwi_record(curesult, "%s", before);
  write_blob(m, blob_out);
  m->round++;
  return BW_MORE;
}
