/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp pack`: writes a bundle from what the build left in its folder.
 *
 * The build itself packs with this before there is a bundle to link in, through the
 * small program in scripts/bw_pack.c; so nothing here may need a bundle.
 */
#include "pack.h"
#include "bundle.h"
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: barewarp pack --output FILE --ptxas TEXT [--build FOLDER] --list FILE\n"
    "\n"
    "Packs specializations into a bundle: the same inputs give the same bytes.\n"
    "\n"
    "  --output FILE   the bundle; replaced as a whole\n"
    "  --ptxas TEXT    version and flags of ptxas, recorded with every entry\n"
    "  --build FOLDER  holds ptx/STEM.ptx, cubin/STEM.cubin and cubin/STEM.log (ptxas -v);\n"
    "                  default build\n"
    "  --list FILE     the stems, family/arch/key, one a line; - is standard input\n";

typedef struct options {
  const char *output, *ptxas, *build, *list;
} options;

/* FOLDER/KIND/STEM.SUFFIX in fresh memory; NULL without memory. */
static char *path_of(const char *folder, const char *kind, const char *stem, const char *suffix) {
  const size_t size = strlen(folder) + strlen(kind) + strlen(stem) + strlen(suffix) + 4;
  char *path = malloc(size);
  if (path)
    snprintf(path, size, "%s/%s/%s.%s", folder, kind, stem, suffix);
  return path;
}

static bw_status add(bwi_writer *writer, const options *o, const char *stem) {
  char *ptx = path_of(o->build, "ptx", stem, "ptx");
  char *cubin = path_of(o->build, "cubin", stem, "cubin");
  char *log = path_of(o->build, "cubin", stem, "log");
  const bw_status status = ptx && cubin && log
                               ? bwi_writer_add_build(writer, ptx, cubin, log, o->ptxas)
                               : BW_ERROR_NO_MEMORY;
  free(ptx);
  free(cubin);
  free(log);
  return status;
}

/* Adds every stem of the list, and counts them. */
static bw_status add_list(bwi_writer *writer, const options *o, FILE *list, size_t *count) {
  char *line = NULL;
  size_t capacity = 0;
  bw_status status = BW_OK;
  while (status == BW_OK && getline(&line, &capacity, list) >= 0) {
    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '\0')
      continue;
    status = add(writer, o, line);
    *count += 1;
  }
  free(line);
  return status;
}

static bw_status pack(const options *o, FILE *list, size_t *count, size_t *size) {
  bwi_writer *writer = NULL;
  void *data = NULL;
  bw_status status = bwi_writer_new(&writer);
  if (status == BW_OK)
    status = add_list(writer, o, list, count);
  if (status == BW_OK && *count > 0)
    status = bwi_writer_finish(writer, &data, size);
  if (status == BW_OK && *count > 0)
    status = bwi_write_file(o->output, data, *size);
  free(data);
  bwi_writer_free(writer);
  return status;
}

int bw_cli_pack(int argc, char **argv) {
  options o = {0};
  const cli_option known[] = {{"--output", &o.output, NULL},
                              {"--ptxas", &o.ptxas, NULL},
                              {"--build", &o.build, NULL},
                              {"--list", &o.list, NULL}};
  if (!cli_parse(argc, argv, known, sizeof known / sizeof *known, NULL, 0, usage))
    return CLI_USAGE;
  if (!o.output || !o.ptxas || !o.list) {
    cli_error("pack", "--output, --ptxas and --list are needed");
    return CLI_USAGE;
  }
  if (!o.build)
    o.build = "build";

  const bool standard_input = strcmp(o.list, "-") == 0;
  FILE *list = standard_input ? stdin : fopen(o.list, "r");
  if (!list)
    return cli_error("pack", "--list %s cannot be read: %s", o.list, strerror(errno));
  size_t count = 0, size = 0;
  const bw_status status = pack(&o, list, &count, &size);
  const bool unreadable = ferror(list) != 0;
  if (!standard_input)
    fclose(list);

  if (status == BW_ERROR_NO_MEMORY)
    return cli_error("pack", "out of memory");
  if (status != BW_OK)
    return cli_library_error("pack");
  if (unreadable)
    return cli_error("pack", "--list %s cannot be read to its end", o.list);
  if (count == 0)
    return cli_error("pack", "--list %s names no specialization; nothing was written", o.list);
  printf("%s: %zu specializations, %zu bytes\n", o.output, count, size);
  return CLI_OK;
}
