/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command may ask of the emulated driver: which device, which checks, which
 * schedule.  The driver reads its environment when it is first used, so this comes first.
 */
#ifndef BW_CLI_EMULATED_H
#define BW_CLI_EMULATED_H

#include <stdbool.h>

typedef struct cli_emulated {
  const char *arch;   /* --arch: sm_100f or sm_90a; NULL: what device says, else sm_100f */
  const char *device; /* --device: sm_100, sm_103 or sm_90; NULL: one that runs arch */
  const char *checks; /* --checks: all, none or a list; NULL: EMU_CHECKS, else all */
} cli_emulated;

/* Sets EMU_ARCH and EMU_CHECKS accordingly (a real driver does not look at them); false
 * after a message when arch and device contradict each other or are unknown. */
bool cli_emulated_configure(const cli_emulated *e, const char *command);

#endif
