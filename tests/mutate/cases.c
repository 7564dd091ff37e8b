/* SPDX-License-Identifier: Apache-2.0
 *
 * What the cases of all families share; see cases.h.
 */
#include "mutate/cases.h"

#include "harness/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned bwm_case_count(const struct bwm_kernel *k) {
  return k->family == BWM_WO_A ? bwm_wo_a_count(k) : bwm_mailbox_count(k);
}

const char *bwm_case_name(const struct bwm_kernel *k, unsigned number) {
  return k->family == BWM_WO_A ? bwm_wo_a_name(k, number) : bwm_mailbox_name(k, number);
}

uint32_t bwm_case_clusters(const struct bwm_kernel *k, unsigned number) {
  return k->family == BWM_WO_A ? bwm_wo_a_clusters(k, number) : 0;
}

void bwm_case_run(const struct bwm_kernel *k, unsigned number, bw_bundle *bundle,
                  struct bwm_verdict *v) {
  memset(v, 0, sizeof *v);
  setenv("EMU_ARCH", strcmp(k->arch, "sm_90a") == 0 ? "sm_90" : "sm_100", 1);
  setenv("EMU_CHECKS", "all", 1);
  unsetenv("EMU_KEEP_GOING");
  unsetenv("NCCL_NVLS_ENABLE");
  unsetenv("BAREWARP_MULTICAST");
  unsetenv("BAREWARP_DEBUG");
  if (k->family == BWM_WO_A)
    bwm_wo_a_run(k, number, bundle, v);
  else
    bwm_mailbox_run(k, number, bundle, v);
}

void bwm_seed(unsigned seed) {
  char text[16];
  snprintf(text, sizeof text, "%u", seed);
  setenv("EMU_SEED", text, 1);
}

/* The driver is loaded by now, and stays so. */
static void *symbol(const char *name) {
  static struct bwt_driver driver;
  if (driver.library == NULL && bwt_driver_open("emu", &driver) != NULL)
    return NULL;
  return dlsym(driver.library, name);
}

bool bwm_configure(const char *key, const char *value) {
  int (*configure)(const char *, const char *);
  *(void **)&configure = symbol("barewarp_emulated_configure");
  return configure != NULL && configure(key, value);
}

static uint64_t number_of(const char *name) {
  uint64_t (*call)(void);
  *(void **)&call = symbol(name);
  return call != NULL ? call() : 0;
}

uint64_t bwm_early_starts(void) {
  return number_of("barewarp_emulated_early_starts");
}

/* The first line of the report, where there is one. */
static bool describe_report(struct bwm_verdict *v) {
  const char *(*rule)(void), *(*text)(void);
  *(void **)&rule = symbol("barewarp_emulated_report_rule");
  *(void **)&text = symbol("barewarp_emulated_last_report");
  if (number_of("barewarp_emulated_reports") == 0 || rule == NULL || text == NULL ||
      rule() == NULL || text() == NULL)
    return false;
  snprintf(v->by, sizeof v->by, "%s", rule());
  snprintf(v->why, sizeof v->why, "%s", text());
  return true;
}

void bwm_kill(struct bwm_verdict *v, const char *why) {
  v->outcome = BWM_KILLED;
  if (describe_report(v))
    return;
  snprintf(v->by, sizeof v->by, "wrong result");
  snprintf(v->why, sizeof v->why, "%s", why);
}

void bwm_no_verdict(struct bwm_verdict *v, const char *why) {
  v->outcome = BWM_NO_VERDICT;
  snprintf(v->by, sizeof v->by, "no verdict");
  snprintf(v->why, sizeof v->why, "%s", why);
}

void bwm_judge_reports(struct bwm_verdict *v) {
  if (describe_report(v))
    v->outcome = BWM_KILLED;
}
