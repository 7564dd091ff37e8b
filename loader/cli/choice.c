/* SPDX-License-Identifier: Apache-2.0
 *
 * Which driver a command uses when nobody says: a GPU if there is one that the bundle has
 * code for, else the emulated driver.
 */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>

void cli_choose_driver(bw_bundle *bundle, const char *wanted, cli_choice *choice) {
  const char *environment = getenv("BAREWARP_DRIVER");
  if (wanted) {
    choice->driver = wanted;
    snprintf(choice->why, sizeof choice->why, "asked for with --driver");
    return;
  }
  if (environment && environment[0] != '\0') {
    choice->driver = environment;
    snprintf(choice->why, sizeof choice->why, "asked for with BAREWARP_DRIVER");
    return;
  }
  bw_device *device = NULL;
  if (bw_device_open(bundle, "cuda", 0, &device) == BW_OK) {
    bw_device_close(device);
    choice->driver = "cuda";
    snprintf(choice->why, sizeof choice->why, "there is a GPU that the bundle has code for");
    return;
  }
  choice->driver = "emu";
  snprintf(choice->why, sizeof choice->why, "%s", bw_last_error());
}
