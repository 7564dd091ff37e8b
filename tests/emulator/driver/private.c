/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulator's own symbols, beside the Driver API: what tells a loader that this is no
 * GPU, and what lets a test change the emulator between cases of one process.
 */
#include "private.h"

#include "driver.h"

#include <stdlib.h>
#include <string.h>

const char *barewarp_emulated_driver(void) {
  return EMU_VERSION;
}

int barewarp_emulated_configure(const char *key, const char *value) {
  struct guard guard __attribute__((cleanup(api_leave), unused)) = api_enter(ENTER_any);
  struct machine *m = machine_get();
  return m && key && value && machine_configure(m, key, value);
}

uint64_t barewarp_emulated_reports(void) {
  struct guard guard __attribute__((cleanup(api_leave), unused)) = api_enter(ENTER_any);
  struct machine *m = machine_get();
  return m ? report_count(m) : 0;
}

const char *barewarp_emulated_last_report(void) {
  struct guard guard __attribute__((cleanup(api_leave), unused)) = api_enter(ENTER_any);
  struct machine *m = machine_get();
  uint64_t n = m ? report_count(m) : 0;
  const struct report_record *r = NULL;
  while (n && !r) /* repeats are counted and not kept */
    r = report_at(m, --n);
  return r ? r->text : NULL;
}

const char *barewarp_emulated_report_rule(void) {
  struct guard guard __attribute__((cleanup(api_leave), unused)) = api_enter(ENTER_any);
  struct machine *m = machine_get();
  uint64_t n = m ? report_count(m) : 0;
  const struct report_record *r = NULL;
  while (n && !r)
    r = report_at(m, --n);
  return r ? r->rule : NULL;
}

uint64_t barewarp_emulated_early_starts(void) {
  struct guard guard __attribute__((cleanup(api_leave), unused)) = api_enter(ENTER_any);
  struct machine *m = machine_get();
  return m ? machine_early_starts(m) : 0;
}

uint64_t barewarp_emulated_event_orders(void) {
  struct guard guard __attribute__((cleanup(api_leave), unused)) = api_enter(ENTER_any);
  struct machine *m = machine_get();
  return m ? machine_event_orders(m) : 0;
}
