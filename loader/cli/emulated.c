/* SPDX-License-Identifier: Apache-2.0
 *
 * Configuring the emulated driver; see emulated.h.
 */
#include "cli/emulated.h"

#include "cli.h"

#include <stdlib.h>
#include <string.h>

static const struct pair {
  const char *device, *arch;
} pairs[] = {{"sm_100", "sm_100f"}, {"sm_103", "sm_100f"}, {"sm_90", "sm_90a"}};
enum { PAIRS = sizeof pairs / sizeof *pairs };

bool cli_emulated_configure(const cli_emulated *e, const char *command) {
  const struct pair *found = NULL;
  for (int i = 0; i < PAIRS && !found; i++)
    if ((!e->device || strcmp(e->device, pairs[i].device) == 0) &&
        (!e->arch || strcmp(e->arch, pairs[i].arch) == 0))
      found = &pairs[i];
  if (!found) {
    cli_error(command,
              "--arch %s --device %s: must be sm_100f with sm_100 or sm_103, or sm_90a with sm_90",
              e->arch ? e->arch : "(none)", e->device ? e->device : "(none)");
    return false;
  }
  if (e->arch || e->device)
    setenv("EMU_ARCH", found->device, 1);
  if (e->checks)
    setenv("EMU_CHECKS", e->checks, 1);
  return true;
}
