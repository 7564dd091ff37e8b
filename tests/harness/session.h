/* SPDX-License-Identifier: Apache-2.0
 *
 * One process's access to one device: the driver's calls for the tests, the same
 * device opened through barewarp, and the emulator's report when a launch fails.
 */
#ifndef BW_HARNESS_SESSION_H
#define BW_HARNESS_SESSION_H

#include "barewarp.h"
#include "harness/driver.h"
#include "harness/text.h"

struct bwt_session {
  struct bwt_driver driver;
  CUdevice ordinal;
  CUcontext context; /* the device's primary context, current to the opening thread */
  bw_bundle *bundle; /* not owned */
  bw_device *device;
  char report[PATH_MAX]; /* where the emulator writes its reports; "" on real drivers */
  bool own_report;
  long report_seen; /* bytes of it shown already */
};

/* Opens device 0 of the driver (see bwt_driver_open for `which`) and binds bundle to it
 * (bundle NULL: the tests' own kernels only).
 * false: *why says what went wrong and nothing is left open. */
bool bwt_session_open(struct bwt_session *s, const char *which, bw_bundle *bundle,
                      struct bwt_text *why);
void bwt_session_close(struct bwt_session *s);

/* The file that the bundles of sessions come from, NULL: the embedded one. */
void bwt_replay_bundle(const char *path);
/* Appends what a command needs to replay a case with this driver and that bundle:
 * " --driver emu --bundle 'FILE'". */
void bwt_replay_options(const struct bwt_session *s, struct bwt_text *command);

/* Appends what the emulator reported since the last call, one JSON object a line.
 * Returns how many. */
size_t bwt_session_report(struct bwt_session *s, struct bwt_text *text);

#endif
