/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulated driver's own exported symbols (found with dlsym; a real driver has none of
 * them).  Usable without any other header of the emulator.
 */
#ifndef EMU_DRIVER_PRIVATE_H
#define EMU_DRIVER_PRIVATE_H

#include <stdint.h>

/* The emulated driver's name and version. */
const char *barewarp_emulated_driver(void);

/* Changes a setting of the running process.  The keys are the environment's variables
 * without EMU_, in lower case, with the same values:
 *   seed        a number: the schedule is drawn anew from it
 *   checks      all, none, or a list of group names
 *   limit       warp instructions between two ends of CTAs; 0: none
 *   keep_going  0 or 1
 *   report      a file that reports are appended to as JSON lines; "" for none
 *   trace       0 or 1
 * Returns 1, or 0 for an unknown key or value (nothing changed).  No kernel may be in
 * flight; memory that exists keeps or lacks its masks of undefined bits as it was made. */
int barewarp_emulated_configure(const char *key, const char *value);

/* Reports since the process started. */
uint64_t barewarp_emulated_reports(void);
/* The latest report as text, and the id of its rule ("oob-global"); NULL: none so far.
 * Valid until the next report. */
const char *barewarp_emulated_last_report(void);
const char *barewarp_emulated_report_rule(void);

/* How many grids so far started while a CTA was there of a grid that their
 * griddepcontrol.wait waits for. */
uint64_t barewarp_emulated_early_starts(void);

/* How many different orders of asynchronous events the launches so far have shown
 * (counted while "trace" is on). */
uint64_t barewarp_emulated_event_orders(void);

#endif
