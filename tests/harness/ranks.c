/* SPDX-License-Identifier: Apache-2.0
 *
 * Several devices as the ranks of a mailbox; see ranks.h.
 */
#include "harness/ranks.h"

#include <stdlib.h>
#include <string.h>

bool bwt_ranks_open(struct bwt_ranks *r, const char *which, bw_bundle *bundle,
                    struct bwt_text *why) {
  memset(r, 0, sizeof *r);
  setenv("EMU_DEVICES", "16", 0);
  if (!bwt_session_open(&r->session, which, bundle, why))
    return false;
  r->device[0] = r->session.device;
  r->context[0] = r->session.context;
  r->opened = 1;
  return true;
}

void bwt_ranks_close(struct bwt_ranks *r) {
  const struct bwt_driver *d = &r->session.driver;
  for (uint32_t i = 1; i < r->opened; i++) {
    bw_device_close(r->device[i]);
    d->DevicePrimaryCtxRelease((CUdevice)i);
  }
  bwt_session_close(&r->session);
  r->opened = 0;
}

uint32_t bwt_ranks_devices(const struct bwt_ranks *r) {
  int count = 0;
  return r->session.driver.DeviceGetCount(&count) == CUDA_SUCCESS && count > 0 ? (uint32_t)count
                                                                               : 0;
}

bool bwt_ranks_need(struct bwt_ranks *r, uint32_t count, struct bwt_text *why) {
  const struct bwt_driver *d = &r->session.driver;
  if (count > bwt_ranks_devices(r)) {
    bwt_say(why, "%u devices are needed, there are %u\n", count, bwt_ranks_devices(r));
    return false;
  }
  for (uint32_t i = r->opened; i < count; i++, r->opened++) {
    if (bw_device_open(r->session.bundle, d->path, (int)i, &r->device[i]) != BW_OK) {
      bwt_say(why, "bw_device_open: %s\n", bw_last_error());
      return false;
    }
    CUresult result = d->DevicePrimaryCtxRetain(&r->context[i], (CUdevice)i);
    if (result != CUDA_SUCCESS) {
      bwt_say(why, "device %u: %s\n", i, bwt_driver_error(d, result));
      bw_device_close(r->device[i]);
      return false;
    }
  }
  return true;
}

bool bwt_ranks_enter(const struct bwt_ranks *r, uint32_t device, struct bwt_text *why) {
  CUresult result = r->session.driver.CtxSetCurrent(r->context[device]);
  if (result != CUDA_SUCCESS)
    bwt_say(why, "device %u: cuCtxSetCurrent: %s\n", device,
            bwt_driver_error(&r->session.driver, result));
  return result == CUDA_SUCCESS;
}

bool bwt_rounds(bw_mailbox *const *mailboxes, uint32_t count, struct bwt_text *why) {
  typedef unsigned char blob[BW_MAILBOX_BLOB_SIZE];
  blob all[BW_MAILBOX_MAX_RANKS], next[BW_MAILBOX_MAX_RANKS];
  bw_status status = BW_MORE;
  for (bool first = true; status == BW_MORE; first = false) {
    bool failed = false;
    for (uint32_t i = 0; i < count; i++) { /* all of them, even if one says no */
      status = bw_mailbox_round(mailboxes[i], first ? NULL : all, first ? 0 : count, next[i]);
      if (status == BW_OK || status == BW_MORE)
        continue;
      if (!failed)
        bwt_say(why, "bw_mailbox_round: %s: %s\n", bw_status_text(status), bw_last_error());
      failed = true;
    }
    if (failed)
      return false;
    memcpy(all, next, count * sizeof *all);
  }
  return true;
}
