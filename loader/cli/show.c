/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp show`: a specialization's PTX, or its machine code through NVIDIA's
 * disassembler.
 */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "usage: barewarp show KEY --ptx | --sass [--arch ARCH] [--family FAMILY] [--bundle FILE]\n"
    "\n"
    "  --ptx    the PTX that the cubin was assembled from\n"
    "  --sass   the cubin, disassembled by nvdisasm or cuobjdump (found in PATH)\n"
    "Of several architectures the first is shown: sm_100f.\n";

static size_t find(const bw_bundle *bundle, const char *family, const char *arch, const char *key) {
  size_t i = 0;
  for (; i < bw_bundle_count(bundle); i++) {
    bw_kernel_info info;
    if (bw_bundle_kernel(bundle, i, &info) == BW_OK && strcmp(info.key, key) == 0 &&
        (!family || strcmp(info.family, family) == 0) && (!arch || strcmp(info.arch, arch) == 0))
      break;
  }
  return i;
}

static int show_ptx(const bw_bundle *bundle, size_t index) {
  char *text;
  size_t size;
  if (bw_bundle_ptx(bundle, index, &text, &size) != BW_OK)
    return cli_library_error("show");
  const bool written = fwrite(text, 1, size, stdout) == size;
  bw_free(text);
  return written ? CLI_OK : cli_error("show", "the PTX could not be written");
}

/* Runs the first disassembler there is on the file. */
static int disassemble(const char *path) {
  const pid_t child = fork();
  if (child < 0)
    return cli_error("show", "a process could not be started");
  if (child == 0) {
    execlp("nvdisasm", "nvdisasm", "--print-code", path, (char *)NULL);
    execlp("cuobjdump", "cuobjdump", "--dump-sass", path, (char *)NULL);
    fputs("barewarp show: neither nvdisasm nor cuobjdump is in PATH\n", stderr);
    _exit(CLI_FAILED);
  }
  int status;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return CLI_FAILED;
  return CLI_OK;
}

static int show_sass(const bw_bundle *bundle, size_t index) {
  void *cubin;
  size_t size;
  if (bw_bundle_cubin(bundle, index, &cubin, &size) != BW_OK)
    return cli_library_error("show");
  const char *folder = getenv("TMPDIR");
  char path[4096];
  int status = CLI_FAILED;
  const int length = snprintf(path, sizeof path, "%s/barewarp-XXXXXX", folder ? folder : "/tmp");
  const int file = length > 0 && (size_t)length < sizeof path ? mkstemp(path) : -1;
  if (file < 0) {
    status =
        cli_error("show", "a temporary file could not be made in %s", folder ? folder : "/tmp");
  } else {
    const bool written = write(file, cubin, size) == (ssize_t)size;
    close(file);
    status = written ? disassemble(path) : cli_error("show", "%s could not be written", path);
    unlink(path);
  }
  bw_free(cubin);
  return status;
}

int cli_show(int argc, char **argv) {
  const char *key = NULL, *arch = NULL, *family = NULL, *path = NULL;
  bool ptx = false, sass = false;
  const cli_option options[] = {{"--ptx", NULL, &ptx},
                                {"--sass", NULL, &sass},
                                {"--arch", &arch, NULL},
                                {"--family", &family, NULL},
                                {"--bundle", &path, NULL}};
  if (!cli_parse(argc, argv, options, sizeof options / sizeof *options, &key, 1, usage))
    return CLI_USAGE;
  if (!key || ptx == sass) {
    fputs("barewarp show: a key, and one of --ptx and --sass, are needed\n", stderr);
    fputs(usage, stderr);
    return CLI_USAGE;
  }
  bw_bundle *bundle = NULL;
  if (bw_bundle_open(path, &bundle) != BW_OK)
    return cli_library_error(argv[0]);
  const size_t index = find(bundle, family, arch, key);
  int status;
  if (index == bw_bundle_count(bundle))
    status = cli_error(argv[0], "the bundle has no '%s'%s%s%s%s; `barewarp list` shows what it has",
                       key, family ? " of family " : "", family ? family : "", arch ? " for " : "",
                       arch ? arch : "");
  else
    status = ptx ? show_ptx(bundle, index) : show_sass(bundle, index);
  bw_bundle_close(bundle);
  return status;
}
