/* SPDX-License-Identifier: Apache-2.0
 *
 * Results of cases of up_proj and lamport_copy, and how to run one again; see
 * verify_up_proj.h.
 */
#include "harness/verify_up_proj.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const mode_names[] = {"auto", "multicast", "peers", "local"};

const char *bwt_mode_name(bw_mailbox_mode mode) {
  return mode_names[mode];
}

bw_mailbox_mode bwt_mode_find(const char *name) {
  for (int mode = BW_MAILBOX_MULTICAST; mode <= BW_MAILBOX_LOCAL; mode++)
    if (strcmp(mode_names[mode], name) == 0)
      return (bw_mailbox_mode)mode;
  return BW_MAILBOX_AUTO;
}

/* ---- BW_CASE ------------------------------------------------------------------------ */

static void refuse(const char *what, const char *text) {
  fprintf(stderr, "BW_CASE: there is no %s %s\n", what, text);
  exit(2);
}

static void override_one(const struct bwt_mail_overrides *o, const char *key, const char *value) {
  const struct {
    const char *key;
    uint32_t *number;
  } numbers[] = {
      {"plan", o->plan_flags}, {"launch", o->launch_flags}, {"mailbox", o->mailbox_flags}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (numbers[i].number != NULL && strcmp(key, numbers[i].key) == 0) {
      *numbers[i].number = (uint32_t)strtoul(value, NULL, 0);
      return;
    }
  if (o->tight != NULL && strcmp(key, "tight") == 0) {
    *o->tight = *value != '0';
  } else if (o->kind != NULL && strcmp(key, "kind") == 0) {
    *o->kind = bwt_up_proj_kind_find(value);
    if (*o->kind == BWT_UP_PROJ_KIND_COUNT)
      refuse("kind", value);
  } else {
    refuse("key", key);
  }
}

void bwt_mail_override(const struct bwt_mail_overrides *o) {
  const char *set = getenv("BW_CASE");
  char text[256];
  snprintf(text, sizeof text, "%s", set != NULL ? set : "");
  char *rest = text, *item;
  while ((item = strsep(&rest, ",")) != NULL) {
    char *value = strchr(item, '=');
    if (value == NULL)
      continue;
    *value++ = '\0';
    override_one(o, item, value);
  }
}

void bwt_mail_result_start(struct bwt_mail_result *result, const struct bwt_ranks *ranks,
                           const struct bwt_mail_overrides *o) {
  static const char *const passed_on[] = {"EMU_SEED", "EMU_ARCH", "EMU_CHECKS", "EMU_DEVICES"};
  memset(result, 0, sizeof *result);
  result->usable = true;
  struct bwt_text *t = &result->replay, set = {0};
  for (size_t i = 0; ranks->session.driver.emulated && i < sizeof passed_on / sizeof *passed_on;
       i++)
    if (getenv(passed_on[i]) != NULL)
      bwt_say(t, "%s=%s ", passed_on[i], getenv(passed_on[i]));
  if (o->kind != NULL && *o->kind != BWT_UP_PROJ_mixed)
    bwt_say(&set, ",kind=%s", bwt_up_proj_kind_name(*o->kind));
  if (o->plan_flags != NULL && *o->plan_flags != 0)
    bwt_say(&set, ",plan=%u", *o->plan_flags);
  if (o->launch_flags != NULL && *o->launch_flags != 0)
    bwt_say(&set, ",launch=%u", *o->launch_flags);
  if (o->mailbox_flags != NULL && *o->mailbox_flags != 0)
    bwt_say(&set, ",mailbox=%u", *o->mailbox_flags);
  if (o->tight != NULL && *o->tight)
    bwt_say(&set, ",tight=1");
  if (set.length > 0)
    bwt_say(t, "BW_CASE=%s ", set.chars + 1);
}

/* ---- results ------------------------------------------------------------------------- */

bool bwt_mail_fail(struct bwt_mail_result *result, unsigned failure) {
  result->failures |= failure;
  return false;
}

bool bwt_mail_fail_status(struct bwt_mail_result *result, const char *call, bw_status status) {
  bwt_say(&result->why, "%s: %s: %s\n", call, bw_status_text(status), bw_last_error());
  return bwt_mail_fail(result, status == BW_ERROR_DRIVER ? BWT_MAIL_FAULT : BWT_MAIL_STATUS);
}

void bwt_mail_fault(struct bwt_mail_result *result, struct bwt_ranks *ranks, CUresult error) {
  bwt_say(&result->why, "the kernel ended with %s\n",
          bwt_driver_error(&ranks->session.driver, error));
  bwt_session_report(&ranks->session, &result->why);
  bwt_mail_fail(result, BWT_MAIL_FAULT);
  result->usable = false;
}

double bwt_mail_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
