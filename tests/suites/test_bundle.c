/* SPDX-License-Identifier: Apache-2.0
 *
 * The bundle: what the shipped one holds, and that a damaged one is never opened.
 */
#define _GNU_SOURCE /* memmem */
#include "bundle.h"
#include "harness/command.h"
#include "harness/kernel.h"
#include "harness/random.h"
#include "harness/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void assert_fails(bw_status got, bw_status want, const char *words) {
  ck_assert_int_eq(got, want);
  ck_assert_msg(strstr(bw_last_error(), words) != NULL, "\"%s\" does not say \"%s\"",
                bw_last_error(), words);
}

static bw_bundle *shipped(void) {
  bw_bundle *bundle;
  ck_assert_msg(bw_bundle_open(NULL, &bundle) == BW_OK, "%s", bw_last_error());
  return bundle;
}

/* ---- a small bundle ----------------------------------------------------------------- */

enum { SMALL_ENTRIES = 3 };
static const char *const small_keys[SMALL_ENTRIES] = {"one", "two", "three"};

/* Random bytes stand for cubins, numbered lines for PTX; `order` is a permutation. */
static void add_small_entry(bwi_writer *writer, int which) {
  char ptx[600];
  uint8_t cubin[300];
  struct bwt_random r;
  size_t length = 0;
  bwt_random_seed(&r, (uint64_t)which);
  bwt_random_bytes(&r, cubin, sizeof cubin);
  while (length < 400)
    length += (size_t)snprintf(ptx + length, sizeof ptx - length, "// line at %zu of entry %d\n",
                               length, which);
  bwi_attribute attributes[] = {{"tile_n", 128}, {"box_k", (uint32_t)which}};
  bwi_entry e = {
      .info = {.family = "family",
               .arch = "sm_100f",
               .key = small_keys[which],
               .symbol = "symbol",
               .ptxas = "13.0.88 -lineinfo",
               .registers = 40,
               .threads = 128,
               .cluster = 1,
               .waits = which != 1},
      .parameter_bytes = 16,
      .attributes = attributes,
      .attribute_count = 2,
      .ptx = ptx,
      .ptx_size = length,
      .cubin = cubin,
      .cubin_size = sizeof cubin,
  };
  ck_assert_msg(bwi_writer_add(writer, &e) == BW_OK, "%s", bw_last_error());
}

static uint8_t *small_bundle(const int order[SMALL_ENTRIES], size_t *size) {
  bwi_writer *writer;
  void *data;
  ck_assert_int_eq(bwi_writer_new(&writer), BW_OK);
  for (int i = 0; i < SMALL_ENTRIES; i++)
    add_small_entry(writer, order[i]);
  ck_assert_msg(bwi_writer_finish(writer, &data, size) == BW_OK, "%s", bw_last_error());
  bwi_writer_free(writer);
  return data;
}

static const int in_order[SMALL_ENTRIES] = {0, 1, 2};

START_TEST(same_entries_same_bytes) {
  static const int orders[][SMALL_ENTRIES] = {{2, 1, 0}, {1, 2, 0}, {0, 1, 2}};
  size_t size, other_size;
  uint8_t *data = small_bundle(in_order, &size);
  for (size_t i = 0; i < BWT_COUNT(orders); i++) {
    uint8_t *other = small_bundle(orders[i], &other_size);
    ck_assert_uint_eq(size, other_size);
    ck_assert_mem_eq(data, other, size);
    free(other);
  }
  free(data);
}
END_TEST

START_TEST(small_bundle_reads_back) {
  size_t size;
  uint8_t *data = small_bundle(in_order, &size);
  bw_bundle *bundle;
  ck_assert_msg(bw_bundle_open_memory(data, size, &bundle) == BW_OK, "%s", bw_last_error());
  ck_assert_uint_eq(bw_bundle_count(bundle), SMALL_ENTRIES);
  for (int which = 0; which < SMALL_ENTRIES; which++) {
    size_t index = bwi_bundle_find(bundle, "family", "sm_100f", small_keys[which]);
    ck_assert_uint_ne(index, BWI_NOT_FOUND);
    bw_kernel_info k;
    ck_assert_int_eq(bw_bundle_kernel(bundle, index, &k), BW_OK);
    ck_assert_str_eq(k.key, small_keys[which]);
    ck_assert_uint_eq(k.waits, which != 1);
    ck_assert_uint_eq(bwi_bundle_parameter_bytes(bundle, index), 16);
    uint32_t value = 0;
    ck_assert(bwi_bundle_attribute(bundle, index, "box_k", &value));
    ck_assert_uint_eq(value, (uint32_t)which);
    ck_assert(!bwi_bundle_attribute(bundle, index, "box", &value));
    char *ptx;
    void *cubin;
    size_t length, cubin_size;
    ck_assert_int_eq(bw_bundle_ptx(bundle, index, &ptx, &length), BW_OK);
    ck_assert_uint_eq(strlen(ptx), length);
    char last[32];
    snprintf(last, sizeof last, "of entry %d\n", which);
    ck_assert_str_eq(ptx + length - strlen(last), last);
    ck_assert_int_eq(bw_bundle_cubin(bundle, index, &cubin, &cubin_size), BW_OK);
    uint8_t want[300];
    struct bwt_random r;
    bwt_random_seed(&r, (uint64_t)which);
    bwt_random_bytes(&r, want, sizeof want);
    ck_assert_uint_eq(cubin_size, sizeof want);
    ck_assert_mem_eq(cubin, want, sizeof want);
    bw_free(ptx);
    bw_free(cubin);
  }
  bw_bundle_close(bundle);
  free(data);
}
END_TEST

START_TEST(every_truncation_is_refused) {
  size_t size;
  uint8_t *data = small_bundle(in_order, &size);
  for (size_t length = 0; length < size; length++) {
    uint8_t *part = malloc(length + 1); /* exactly: so that reading past it is seen */
    memcpy(part, data, length);
    bw_bundle *bundle = NULL;
    BWT_SAME(bw_bundle_open_memory(part, length, &bundle), BW_ERROR_BUNDLE);
    BWT_REQUIRE(bundle == NULL && bw_last_error()[0] != '\0', "length %zu", length);
    free(part);
  }
  bw_bundle *bundle;
  assert_fails(bw_bundle_open_memory(data, size - 1, &bundle), BW_ERROR_BUNDLE, "truncated");
  uint8_t *longer = calloc(1, size + 1);
  memcpy(longer, data, size);
  ck_assert_int_eq(bw_bundle_open_memory(longer, size + 1, &bundle), BW_ERROR_BUNDLE);
  free(longer);
  free(data);
}
END_TEST

/* Every byte, each of its bits and all of them at once. */
START_TEST(every_flip_is_refused) {
  size_t size;
  uint8_t *data = small_bundle(in_order, &size);
  size_t named = 0;
  for (size_t at = 0; at < size; at++) {
    for (int bit = 0; bit <= 8; bit++) {
      uint8_t mask = bit < 8 ? (uint8_t)(1 << bit) : 0xff;
      data[at] ^= mask;
      bw_bundle *bundle = NULL;
      bw_status status = bw_bundle_open_memory(data, size, &bundle);
      BWT_REQUIRE(status == BW_ERROR_BUNDLE, "byte %zu of %zu ^ 0x%02X: %s", at, size, mask,
                  bw_status_text(status));
      named += strstr(bw_last_error(), "family sm_100f ") != NULL;
      data[at] ^= mask;
    }
  }
  /* Most of the file is contents of entries, and then the entry is named. */
  ck_assert_uint_gt(named, 9 * (SMALL_ENTRIES * 300));
  free(data);
}
END_TEST

START_TEST(damage_names_the_entry) {
  size_t size;
  uint8_t *data = small_bundle(in_order, &size);
  uint8_t cubin[300];
  for (int which = 0; which < SMALL_ENTRIES; which++) {
    struct bwt_random r;
    bwt_random_seed(&r, (uint64_t)which);
    bwt_random_bytes(&r, cubin, sizeof cubin);
    /* Random bytes do not compress: the cubin lies in the file as it is. */
    uint8_t *at = memmem(data, size, cubin + 100, 100);
    ck_assert_ptr_nonnull(at);
    at[50] ^= 1;
    bw_bundle *bundle;
    assert_fails(bw_bundle_open_memory(data, size, &bundle), BW_ERROR_BUNDLE, small_keys[which]);
    at[50] ^= 1;
  }
  free(data);
}
END_TEST

START_TEST(other_formats_are_refused) {
  size_t size;
  uint8_t *data = small_bundle(in_order, &size);
  bw_bundle *bundle;
  data[12] = 2; /* the version; see bundle_format.h */
  assert_fails(bw_bundle_open_memory(data, size, &bundle), BW_ERROR_BUNDLE, "version 2");
  data[12] = 1;
  uint8_t mark[4];
  memcpy(mark, data + 8, 4);
  for (int i = 0; i < 4; i++)
    data[8 + i] = mark[3 - i];
  assert_fails(bw_bundle_open_memory(data, size, &bundle), BW_ERROR_BUNDLE, "endian");
  memcpy(data + 8, mark, 4);
  data[0] = 'b';
  assert_fails(bw_bundle_open_memory(data, size, &bundle), BW_ERROR_BUNDLE,
               "not a barewarp bundle");
  data[0] = 'B';
  ck_assert_int_eq(bw_bundle_open_memory(data, size, &bundle), BW_OK);
  bw_bundle_close(bundle);
  free(data);
}
END_TEST

START_TEST(arguments_are_refused) {
  bw_bundle *bundle = shipped();
  bw_kernel_info k;
  char *ptx;
  void *cubin;
  size_t size, count = bw_bundle_count(bundle);
  bw_bundle *other;
  assert_fails(bw_bundle_open(NULL, NULL), BW_ERROR_INVALID_ARGUMENT, "out");
  assert_fails(bw_bundle_open("/nowhere/at.all", &other), BW_ERROR_IO, "/nowhere/at.all");
  assert_fails(bw_bundle_open_memory(NULL, 10, &other), BW_ERROR_INVALID_ARGUMENT, "data");
  assert_fails(bw_bundle_open_memory(&k, 10, NULL), BW_ERROR_INVALID_ARGUMENT, "out");
  assert_fails(bw_bundle_kernel(bundle, count, &k), BW_ERROR_INVALID_ARGUMENT, "index");
  assert_fails(bw_bundle_kernel(NULL, 0, &k), BW_ERROR_INVALID_ARGUMENT, "bundle");
  assert_fails(bw_bundle_kernel(bundle, 0, NULL), BW_ERROR_INVALID_ARGUMENT, "out");
  assert_fails(bw_bundle_ptx(bundle, count, &ptx, &size), BW_ERROR_INVALID_ARGUMENT, "index");
  assert_fails(bw_bundle_ptx(bundle, 0, NULL, &size), BW_ERROR_INVALID_ARGUMENT, "text");
  assert_fails(bw_bundle_cubin(bundle, count, &cubin, &size), BW_ERROR_INVALID_ARGUMENT, "index");
  bw_bundle_close(bundle);
  bw_bundle_close(NULL);
}
END_TEST

/* ---- the shipped one ------------------------------------------------------------------ */

/* Whether an instruction beginning with `name` stands in the text outside comments, with
 * `also` on the same line. */
static bool has_instruction(const char *ptx, const char *name, const char *also) {
  for (const char *at = ptx; (at = strstr(at, name)) != NULL; at++) {
    const char *line = at, *end = at + strcspn(at, "\n");
    while (line > ptx && line[-1] != '\n')
      line--;
    const char *comment = memmem(line, (size_t)(end - line), "//", 2);
    if (comment != NULL && comment < at)
      continue;
    if (also == NULL || memmem(at, (size_t)(end - at), also, strlen(also)) != NULL)
      return true;
  }
  return false;
}

START_TEST(wo_a_uses_the_hardware) {
  bw_bundle *bundle = shipped();
  size_t seen = 0;
  for (size_t i = 0; i < bw_bundle_count(bundle); i++) {
    bw_kernel_info k;
    char *ptx;
    void *cubin;
    size_t size;
    ck_assert_int_eq(bw_bundle_kernel(bundle, i, &k), BW_OK);
    if (strcmp(k.family, "wo_a") != 0 || strcmp(k.arch, "sm_100f") != 0)
      continue;
    seen++;
    ck_assert_int_eq(bw_bundle_ptx(bundle, i, &ptx, &size), BW_OK);
    ck_assert_msg(has_instruction(ptx, "tcgen05.mma", ".block_scale"), "%s", k.key);
    ck_assert_msg(has_instruction(ptx, "tcgen05.cp.", NULL), "%s", k.key);
    ck_assert_msg(has_instruction(ptx, "cp.async.bulk.tensor.", NULL), "%s", k.key);
    ck_assert_msg(has_instruction(ptx, "griddepcontrol.wait", NULL) == k.waits, "%s", k.key);
    ck_assert_msg(has_instruction(ptx, "st.async", NULL) == (k.cluster > 1), "%s", k.key);
    ck_assert_msg(!has_instruction(ptx, ".local", NULL), "%s", k.key);
    ck_assert_msg(strstr(ptx, "\n#line") == NULL, "%s", k.key);
    ck_assert_int_eq(bw_bundle_cubin(bundle, i, &cubin, &size), BW_OK);
    ck_assert_msg(memmem(cubin, size, ".nv.local", 9) == NULL, "%s has local memory", k.key);
    ck_assert_msg(memmem(cubin, size, ".debug_line", 11) != NULL, "%s has no line info", k.key);
    ck_assert_msg(k.registers * k.threads <= 65536, "%s", k.key);
    bw_free(ptx);
    bw_free(cubin);
  }
  ck_assert_uint_eq(seen, 200);
  bw_bundle_close(bundle);
}
END_TEST

/* The assembler that the build used: config.mk of the build says which. */
static bool find_ptxas(char path[PATH_MAX]) {
  char config[PATH_MAX];
  if (!bwt_build_file("config.mk", config))
    return false;
  char *text = bwt_read_text(config), *line = text != NULL ? strstr(text, "PTXAS := ") : NULL;
  if (line != NULL)
    snprintf(path, PATH_MAX, "%.*s", (int)strcspn(line + 9, "\n"), line + 9);
  free(text);
  return line != NULL;
}

/* The recorded flags: what follows the version, from the first option on. */
static const char *flags_of(const bw_kernel_info *k) {
  const char *at = strstr(k->ptxas, " -");
  return at != NULL ? at + 1 : "";
}

static void reassemble(const bw_bundle *bundle, size_t index, const char *ptxas,
                       const char *folder) {
  bw_kernel_info k;
  char *ptx, source[PATH_MAX], object[PATH_MAX], command[3 * PATH_MAX];
  void *cubin, *again;
  size_t ptx_size, cubin_size, again_size;
  ck_assert_int_eq(bw_bundle_kernel(bundle, index, &k), BW_OK);
  ck_assert_int_eq(bw_bundle_ptx(bundle, index, &ptx, &ptx_size), BW_OK);
  ck_assert_int_eq(bw_bundle_cubin(bundle, index, &cubin, &cubin_size), BW_OK);
  snprintf(source, sizeof source, "%s/again.ptx", folder);
  snprintf(object, sizeof object, "%s/again.cubin", folder);
  ck_assert_msg(bwi_write_file(source, ptx, ptx_size) == BW_OK, "%s", bw_last_error());
  const char *flags = flags_of(&k);
  char arch[64] = "";
  if (strstr(flags, "-arch") == NULL)
    snprintf(arch, sizeof arch, "-arch=%s", k.arch);
  int n =
      snprintf(command, sizeof command, "%s %s %s -o %s %s", ptxas, arch, flags, object, source);
  ck_assert_int_lt(n, (int)sizeof command);
  ck_assert_msg(system(command) == 0, "%s", command);
  ck_assert_msg(bwi_read_file(object, &again, &again_size) == BW_OK, "%s", bw_last_error());
  ck_assert_msg(again_size == cubin_size && memcmp(again, cubin, cubin_size) == 0,
                "%s: the bundle's cubin is not what its PTX assembles to", k.key);
  unlink(source);
  unlink(object);
  free(again);
  bw_free(ptx);
  bw_free(cubin);
}

START_TEST(ptx_assembles_to_its_cubin) {
  char ptxas[PATH_MAX], folder[] = "/tmp/bw-again-XXXXXX";
  ck_assert_msg(find_ptxas(ptxas), "the build's config.mk names no PTXAS");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  bw_bundle *bundle = shipped();
  size_t count = bw_bundle_count(bundle), step = bwt_full() ? 1 : count / 6 + 1;
  for (size_t i = bwt_run_seed() % step; i < count; i += step)
    reassemble(bundle, i, ptxas, folder);
  bw_bundle_close(bundle);
  rmdir(folder);
}
END_TEST

START_TEST(shipped_truncations_and_flips) {
  char path[PATH_MAX];
  ck_assert_msg(bwt_build_file("barewarp.bundle", path), "no barewarp.bundle in the build");
  void *data;
  size_t size;
  ck_assert_int_eq(bwi_read_file(path, &data, &size), BW_OK);
  uint8_t *bytes = data;
  struct bwt_random r;
  bwt_random_seed(&r, bwt_mix(bwt_run_seed(), 5));
  for (int i = 0; i < 200; i++) {
    bw_bundle *bundle = NULL;
    size_t at = bwt_random_below(&r, (uint32_t)size);
    BWT_REQUIRE(bw_bundle_open_memory(bytes, at, &bundle) == BW_ERROR_BUNDLE, "length %zu", at);
    bytes[at] ^= (uint8_t)(1 + bwt_random_below(&r, 255));
    BWT_REQUIRE(bw_bundle_open_memory(bytes, size, &bundle) == BW_ERROR_BUNDLE, "byte %zu", at);
    free(data);
    ck_assert_int_eq(bwi_read_file(path, &data, &size), BW_OK);
    bytes = data;
  }
  free(data);
}
END_TEST

/* ---- files ------------------------------------------------------------------------------- */

static void assert_file(const char *path, const char *want) {
  void *data;
  size_t size;
  ck_assert_msg(bwi_read_file(path, &data, &size) == BW_OK, "%s", bw_last_error());
  ck_assert_str_eq(data, want);
  free(data);
}

static bool is_kind(const char *path, mode_t kind) {
  struct stat st;
  return lstat(path, &st) == 0 && (st.st_mode & S_IFMT) == kind;
}

/* Only files are replaced; links still lead to them, and a pipe stays one. */
START_TEST(what_is_no_file_stays) {
  char folder[PATH_MAX], file[PATH_MAX + 16], link[PATH_MAX + 16], pipe[PATH_MAX + 16], got[8] = "";
  void *data;
  size_t size;
  bwt_folder_make(folder);
  snprintf(file, sizeof file, "%s/file", folder);
  snprintf(link, sizeof link, "%s/link", folder);
  snprintf(pipe, sizeof pipe, "%s/pipe", folder);
  ck_assert_int_eq(bwi_write_file(file, "old", 3), BW_OK);
  ck_assert_int_eq(symlink("file", link), 0);
  ck_assert_int_eq(bwi_write_file(link, "new", 3), BW_OK);
  ck_assert(is_kind(link, S_IFLNK));
  assert_file(file, "new");

  ck_assert_int_eq(mkfifo(pipe, 0600), 0);
  assert_fails(bwi_read_file(pipe, &data, &size), BW_ERROR_IO, "not a regular file");
  int reader = open(pipe, O_RDONLY | O_NONBLOCK);
  ck_assert_int_ge(reader, 0);
  ck_assert_int_eq(bwi_write_file(pipe, "piped", 5), BW_OK);
  ck_assert(is_kind(pipe, S_IFIFO));
  ck_assert_int_eq(read(reader, got, sizeof got - 1), 5);
  ck_assert_str_eq(got, "piped");
  close(reader);

  assert_fails(bwi_write_file(folder, "x", 1), BW_ERROR_IO, folder);
  snprintf(file, sizeof file, "%s/none/file", folder);
  assert_fails(bwi_write_file(file, "x", 1), BW_ERROR_IO, file);
  bwt_folder_remove(folder);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_TEST("small", same_entries_same_bytes, 10),
      BWT_TEST("small", small_bundle_reads_back, 10),
      BWT_TEST("small", every_truncation_is_refused, 60),
      BWT_TEST("small", every_flip_is_refused, 60),
      BWT_TEST("small", damage_names_the_entry, 10),
      BWT_TEST("small", other_formats_are_refused, 10),
      BWT_TEST("files", what_is_no_file_stays, 10),
      BWT_TEST("shipped", arguments_are_refused, 20),
      BWT_TEST("shipped", wo_a_uses_the_hardware, 60),
      BWT_TEST("shipped", shipped_truncations_and_flips, 60),
      BWT_TEST("assembled", ptx_assembles_to_its_cubin, 600),
  };
  return bwt_suite_main("bundle", tests, BWT_COUNT(tests));
}
