/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp pack` as a program of its own.  The build packs the bundle with it: the
 * command line itself is linked with the bundle inside.
 */
#include "cli/pack.h"

int main(int argc, char **argv) {
  /* As the command line does, hand over what follows the program's name. */
  char name[] = "pack";
  argv[0] = name;
  return bw_cli_pack(argc, argv);
}
