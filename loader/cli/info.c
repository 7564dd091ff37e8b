/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp info`: what there is to work with.
 */
#include "cli.h"

#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: barewarp info [--driver cuda|emu|PATH] [--bundle FILE]\n"
    "\n"
    "Prints the bundle, the driver that would be used and why, and its devices.\n";

/* Entries of one family and architecture, counted in the order they first come. */
static void print_families(const bw_bundle *bundle) {
  const size_t count = bw_bundle_count(bundle);
  for (size_t i = 0; i < count; i++) {
    bw_kernel_info first, other;
    size_t same = 0;
    bool counted = false;
    if (bw_bundle_kernel(bundle, i, &first) != BW_OK)
      return;
    for (size_t j = 0; j < count && !counted; j++) {
      if (bw_bundle_kernel(bundle, j, &other) != BW_OK)
        return;
      if (strcmp(first.family, other.family) == 0 && strcmp(first.arch, other.arch) == 0) {
        counted = j < i;
        same++;
      }
    }
    if (!counted)
      printf("           %-14s %-8s %4zu specializations\n", first.family, first.arch, same);
  }
}

static int print_devices(bw_bundle *bundle, const char *driver) {
  bw_device *device = NULL;
  int shown = 0;
  for (int ordinal = 0; bw_device_open(bundle, driver, ordinal, &device) == BW_OK; ordinal++) {
    bw_device_info info;
    if (bw_device_query(device, &info) == BW_OK)
      printf("device %d   %s, compute capability %d.%d, %d multiprocessors, %.1f GB: runs %s\n",
             ordinal, info.name, info.compute_major, info.compute_minor, info.multiprocessors,
             (double)info.memory * 1e-9, info.arch);
    bw_device_close(device);
    shown++;
  }
  if (shown > 0)
    return CLI_OK;
  printf("device     none: %s\n", bw_last_error());
  return CLI_FAILED;
}

int cli_info(int argc, char **argv) {
  const char *driver = NULL, *path = NULL;
  const cli_option options[] = {{"--driver", &driver, NULL}, {"--bundle", &path, NULL}};
  if (!cli_parse(argc, argv, options, sizeof options / sizeof *options, NULL, 0, usage))
    return CLI_USAGE;
  bw_bundle *bundle = NULL;
  if (bw_bundle_open(path, &bundle) != BW_OK)
    return cli_library_error(argv[0]);

  printf("barewarp   %s\n", bw_version());
  printf("bundle     %s, %zu specializations\n", path ? path : "embedded", bw_bundle_count(bundle));
  print_families(bundle);
  bw_kernel_info first;
  if (bw_bundle_count(bundle) > 0 && bw_bundle_kernel(bundle, 0, &first) == BW_OK)
    printf("           assembled by %s\n", first.ptxas);
  cli_choice choice;
  cli_choose_driver(bundle, driver, &choice);
  printf("driver     %s (%s)\n", choice.driver, choice.why);
  const int status = print_devices(bundle, choice.driver);
  bw_bundle_close(bundle);
  return status;
}
