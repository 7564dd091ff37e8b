/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp pack`: writes a bundle from what the build left in its folder.
 */
#ifndef BW_CLI_PACK_H
#define BW_CLI_PACK_H

/* A command as the others in cli.h; apart from them since the build's own packer needs
 * this one alone. */
int bw_cli_pack(int argc, char **argv);

#endif
