/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp list`: the specializations of the bundle.
 */
#include "cli.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: barewarp list [--json] [--max-tokens N] [--arch ARCH] [--bundle FILE]\n"
    "\n"
    "One specialization a line.\n"
    "  --max-tokens N   of wo_a only those that 1..N tokens dispatch to\n"
    "  --arch ARCH      sm_100f or sm_90a\n"
    "  --json           an array of objects\n";

/* Whether 1..max_tokens tokens come to this wo_a key, whatever its heads. */
static bool dispatched(const bw_kernel_info *info, uint32_t max_tokens) {
  for (uint32_t heads = 1; heads <= 8; heads++) {
    bw_wo_a_key keys[BW_WO_A_MAX_TOKENS];
    size_t count = 0;
    if (bw_wo_a_keys(max_tokens, heads, keys, BW_WO_A_MAX_TOKENS, &count) != BW_OK)
      return false;
    for (size_t i = 0; i < count; i++) {
      char name[BW_WO_A_KEY_NAME_SIZE];
      if (bw_wo_a_key_name(&keys[i], name) == BW_OK && strcmp(name, info->key) == 0)
        return true;
    }
  }
  return false;
}

static json_t *as_json(const bw_kernel_info *k) {
  return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:s}", "family",
                   k->family, "key", k->key, "arch", k->arch, "symbol", k->symbol, "registers",
                   (json_int_t)k->registers, "shared_static", (json_int_t)k->shared_static,
                   "shared_dynamic", (json_int_t)k->shared_dynamic, "barriers",
                   (json_int_t)k->barriers, "threads", (json_int_t)k->threads, "cluster",
                   (json_int_t)k->cluster, "code_bytes", (json_int_t)k->code_bytes, "waits",
                   (int)k->waits, "ptxas", k->ptxas);
}

static void print_row(const bw_kernel_info *k) {
  printf("%-13s %-28s %-8s %4u %7u %7u %4u %5u %3u %7u\n", k->family, k->key, k->arch, k->registers,
         k->shared_static, k->shared_dynamic, k->barriers, k->threads, k->cluster, k->code_bytes);
}

int cli_list_kernels(int argc, char **argv) {
  const char *tokens = NULL, *arch = NULL, *path = NULL;
  bool json = false;
  const cli_option options[] = {{"--json", NULL, &json},
                                {"--max-tokens", &tokens, NULL},
                                {"--arch", &arch, NULL},
                                {"--bundle", &path, NULL}};
  uint64_t max_tokens = BW_WO_A_MAX_TOKENS;
  if (!cli_parse(argc, argv, options, sizeof options / sizeof *options, NULL, 0, usage) ||
      (tokens && !cli_number("--max-tokens", tokens, 1, BW_WO_A_MAX_TOKENS, &max_tokens)))
    return CLI_USAGE;
  bw_bundle *bundle = NULL;
  if (bw_bundle_open(path, &bundle) != BW_OK)
    return cli_library_error(argv[0]);

  json_t *array = json ? json_array() : NULL;
  if (!json)
    printf("%-13s %-28s %-8s %4s %7s %7s %4s %5s %3s %7s\n", "family", "key", "arch", "regs",
           "static", "dynamic", "bars", "thrds", "cta", "code");
  size_t shown = 0;
  for (size_t i = 0; i < bw_bundle_count(bundle); i++) {
    bw_kernel_info info;
    if (bw_bundle_kernel(bundle, i, &info) != BW_OK || (arch && strcmp(arch, info.arch) != 0) ||
        (tokens && strcmp(info.family, "wo_a") == 0 && !dispatched(&info, (uint32_t)max_tokens)))
      continue;
    shown++;
    if (json)
      json_array_append_new(array, as_json(&info));
    else
      print_row(&info);
  }
  int status = CLI_OK;
  if (json && json_dumpf(array, stdout, JSON_INDENT(1)) != 0)
    status = cli_error(argv[0], "the JSON could not be written");
  else if (json)
    putchar('\n');
  if (status == CLI_OK && shown == 0) /* an empty array, too */
    status = cli_error(argv[0], "no specialization of the bundle matches");
  json_decref(array);
  bw_bundle_close(bundle);
  return status;
}
