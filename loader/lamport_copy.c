/* SPDX-License-Identifier: Apache-2.0
 *
 * lamport_copy: finding, loading and launching the mailbox's reader.
 */
#include "error.h"
#include "mailbox.h"

#include <string.h>

/* Parameters in order, naturally aligned without gaps: see the entry's PTX. */
enum { PARAMETERS = 8, PARAMETER_BYTES = 4 * 8 + 4 * 4 };

/* Bit 2 of the parameter `flags`. */
enum { WAIT_FIRST = 1 << 2 };

/* ---- the kernel -------------------------------------------------------------------- */

/* One specialization an architecture: everything else is a parameter of the launch. */
bw_status bwi_lamport_copy_find(const bw_device *device, size_t *entry, uint32_t *generations) {
  const bw_bundle *b = device->bundle;
  for (size_t i = 0; i < bw_bundle_count(b); i++) {
    const bw_kernel_info *k = bwi_bundle_entry(b, i);
    if (strcmp(k->family, "lamport_copy") != 0 || strcmp(k->arch, device->info.arch) != 0)
      continue;
    *entry = i;
    bw_status status = bwi_bundle_need_attribute(b, i, "generations", generations);
    if (status == BW_OK && (*generations < 2 || *generations > 16))
      status =
          bwi_fail(BW_ERROR_BUNDLE, "lamport_copy %s: attribute generations is %u, must be 2..16",
                   k->key, *generations);
    return status;
  }
  return bwi_fail(BW_ERROR_UNSUPPORTED, "the bundle has no lamport_copy kernel for %s",
                  device->info.arch);
}

bw_status bwi_lamport_copy_load(bw_mailbox *m, size_t entry) {
  const bw_bundle *b = m->device->bundle;
  const bw_kernel_info *k = bwi_bundle_entry(b, entry);
  bw_status status = bwi_bundle_need_attribute(b, entry, "chunk_bytes", &m->chunk_bytes);
  if (status != BW_OK)
    return status;
  m->copy_trigger = BWI_TRIGGER_AFTER_WAIT;
  (void)bwi_bundle_attribute(b, entry, "trigger", &m->copy_trigger);
  if (m->chunk_bytes != 16)
    return bwi_fail(BW_ERROR_BUNDLE, "lamport_copy %s: attribute chunk_bytes is %u, must be 16",
                    k->key, m->chunk_bytes);
  if (m->copy_trigger > BWI_TRIGGER_AFTER_WAIT)
    return bwi_fail(BW_ERROR_BUNDLE, "lamport_copy %s: attribute trigger is %u, must be 0..2",
                    k->key, m->copy_trigger);
  if (bwi_bundle_parameter_bytes(b, entry) != PARAMETER_BYTES)
    return bwi_fail(BW_ERROR_BUNDLE,
                    "lamport_copy %s takes %u bytes of parameters, this library passes %d: the "
                    "bundle and the library are of different versions",
                    k->key, bwi_bundle_parameter_bytes(b, entry), PARAMETER_BYTES);
  return bwi_kernel_load(m->device, entry, &m->copy);
}

/* ---- launching --------------------------------------------------------------------- */

static bw_status debug_check(bw_mailbox *m, const bw_lamport_copy_args *args, bw_stream stream) {
  bwi_scope scope;
  bw_status status = bwi_enter(m->device, &scope);
  if (status != BW_OK)
    return status;
  status = bwi_check_stream(m->device, stream);
  if (status == BW_OK)
    status =
        bwi_check_operand(m->device, "args.out", args->out, (uint64_t)args->rows * m->row_bytes);
  status = bwi_leave(&scope, status);
  return status == BW_OK ? bwi_contract_check(m, false, args->rows, stream) : status;
}

/* CTAs that poll keep their place until the words come, from producers that need one too: on
 * this GPU for the next mailbox, if that shares it.  So a copy takes few of them. */
static uint32_t grid_size(const bw_mailbox *m, uint32_t chunks) {
  uint32_t threads = m->copy->info->threads;
  uint32_t most = (uint32_t)m->device->info.multiprocessors / 2;
  uint32_t wanted = (chunks + threads - 1) / threads;
  if (most == 0)
    most = 1;
  return wanted < most ? wanted : most;
}

static bw_status enqueue(const bw_mailbox *m, const bw_lamport_copy_args *args, bw_stream stream) {
  uint32_t chunks = args->rows * (m->row_bytes / m->chunk_bytes);
  bw_devptr steps = m->counters;
  uint32_t flags = bwi_trigger_bits(args->flags, m->copy_trigger);
  if (m->config.flags & BW_MAILBOX_COPY_WAITS_FIRST)
    flags |= WAIT_FIRST;
  /* The driver only reads through these: the casts drop const, nothing else. */
  void *parameters[PARAMETERS] = {(void *)&m->ring,
                                  (void *)&args->out,
                                  &steps,
                                  (void *)&m->stuck_address,
                                  &chunks,
                                  (void *)&m->generation_bytes,
                                  (void *)&m->config.poll_limit,
                                  &flags};
  return bwi_kernel_launch(m->device, m->copy, grid_size(m, chunks), 1,
                           !(args->flags & BW_LAUNCH_NO_PDL), stream, parameters);
}

bw_status bw_lamport_copy_launch(bw_mailbox *mailbox, const bw_lamport_copy_args *args,
                                 bw_stream stream) {
  if (!mailbox)
    return bwi_fail_null("mailbox");
  if (!args)
    return bwi_fail_null("args");
  bw_status status = bwi_mailbox_check_ready(mailbox);
  if (status != BW_OK)
    return status;
  if (args->rows > mailbox->config.capacity)
    return bwi_fail_range("args.rows", args->rows, 0, mailbox->config.capacity);
  status = bwi_check_launch_flags(args->flags);
  if (status != BW_OK || args->rows == 0)
    return status;
  status = bwi_check_address("args.out", args->out, 16);
  if (status == BW_OK && mailbox->device->debug)
    status = debug_check(mailbox, args, stream);
  if (status != BW_OK)
    return status;
  atomic_store_explicit(&mailbox->used, true, memory_order_relaxed);
  status = enqueue(mailbox, args, stream);
  if (status == BW_OK && mailbox->device->debug)
    bwi_contract_launched(mailbox, false, args->rows, stream);
  return status;
}
