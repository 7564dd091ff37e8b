/* SPDX-License-Identifier: Apache-2.0
 *
 * One process's access to one device; see session.h.
 */
#include "harness/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The emulator writes its reports to the file that EMU_REPORT names when it starts. */
static void prepare_report(struct bwt_session *s) {
  const char *set = getenv("EMU_REPORT");
  if (set != NULL && *set != '\0') {
    snprintf(s->report, sizeof s->report, "%s", set);
    return;
  }
  const char *folder = getenv("TMPDIR");
  snprintf(s->report, sizeof s->report, "%s/bw-report-XXXXXX",
           folder != NULL && *folder != '\0' ? folder : "/tmp");
  int file = mkstemp(s->report);
  if (file < 0) {
    s->report[0] = '\0'; /* reports still go to stderr */
    return;
  }
  close(file);
  s->own_report = true;
  setenv("EMU_REPORT", s->report, 1);
}

static void release_report(struct bwt_session *s) {
  if (!s->own_report)
    return;
  unlink(s->report);
  unsetenv("EMU_REPORT");
}

bool bwt_session_open(struct bwt_session *s, const char *which, bw_bundle *bundle,
                      struct bwt_text *why) {
  memset(s, 0, sizeof *s);
  prepare_report(s);
  const char *problem = bwt_driver_open(which, &s->driver);
  if (problem != NULL) {
    bwt_say(why, "%s", problem);
    goto no_driver;
  }
  struct bwt_driver *d = &s->driver;
  CUresult result = d->DeviceGet(&s->ordinal, 0);
  if (result == CUDA_SUCCESS)
    result = d->DevicePrimaryCtxRetain(&s->context, s->ordinal);
  if (result != CUDA_SUCCESS) {
    bwt_say(why, "device 0: %s", bwt_driver_error(d, result));
    goto no_context;
  }
  result = d->CtxSetCurrent(s->context);
  if (result != CUDA_SUCCESS) {
    bwt_say(why, "cuCtxSetCurrent: %s", bwt_driver_error(d, result));
    goto no_device;
  }
  s->bundle = bundle;
  if (bundle != NULL && bw_device_open(bundle, d->path, 0, &s->device) != BW_OK) {
    bwt_say(why, "bw_device_open: %s", bw_last_error());
    goto no_device;
  }
  return true;

no_device:
  d->DevicePrimaryCtxRelease(s->ordinal);
no_context:
  bwt_driver_close(&s->driver);
no_driver:
  release_report(s);
  return false;
}

void bwt_session_close(struct bwt_session *s) {
  bw_device_close(s->device);
  s->driver.DevicePrimaryCtxRelease(s->ordinal);
  bwt_driver_close(&s->driver);
  release_report(s);
}

static char replay_bundle[PATH_MAX];

void bwt_replay_bundle(const char *path) {
  snprintf(replay_bundle, sizeof replay_bundle, "%s", path != NULL ? path : "");
}

void bwt_replay_options(const struct bwt_session *s, struct bwt_text *command) {
  bwt_say(command, " --driver %s", s->driver.emulated ? "emu" : "cuda");
  if (*replay_bundle != '\0')
    bwt_say(command, " --bundle '%s'", replay_bundle);
}

size_t bwt_session_report(struct bwt_session *s, struct bwt_text *text) {
  FILE *file = s->report[0] != '\0' ? fopen(s->report, "r") : NULL;
  if (file == NULL)
    return 0;
  size_t count = 0;
  char line[2048];
  if (fseek(file, s->report_seen, SEEK_SET) == 0) {
    while (fgets(line, sizeof line, file) != NULL) {
      bwt_say(text, "%s", line);
      count += strchr(line, '\n') != NULL;
    }
    s->report_seen = ftell(file);
  }
  fclose(file);
  return count;
}
