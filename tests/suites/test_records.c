/* SPDX-License-Identifier: Apache-2.0
 *
 * What kernels gave on GPUs (tests/records, made by `make record-gpu`), replayed on the
 * emulated driver: the same bits, tensor cores included.  Where the emulator is known to give
 * others, the record has both hashes, and it must still give these.
 *
 * wo_a's bits depend on the order of its sums, so a record of another version of a kernel
 * (another cubin) says nothing about this one: such a case is skipped.  up_proj's are its
 * contract.  A sample in `make check`, spread by the seed; all of it with BW_FULL.
 */
#include "harness/command.h"
#include "harness/kernel.h"
#include "harness/random.h"
#include "harness/record.h"
#include "harness/suite.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 2048, SAMPLE = 24 };

static struct bwt_record records[MOST];
static int count;

static void read_record(const char *path) {
  char *text = bwt_read_text(path), *rest = text, *line;
  if (text == NULL)
    return;
  while ((line = strsep(&rest, "\n")) != NULL && count < MOST)
    if (line[0] != '\0' && line[0] != '#') {
      if (!bwt_record_parse(line, &records[count])) {
        printf("%s: a line is no case: %s\n", path, line);
        exit(EXIT_FAILURE);
      }
      count++;
    }
  free(text);
}

static void read_records(const char *folder) {
  DIR *d = opendir(folder);
  for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
    if (strstr(e->d_name, "sm_90a") != NULL) {
      char path[PATH_MAX];
      snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
      read_record(path);
    }
  if (d != NULL)
    closedir(d);
}

static int runs(void) {
  return bwt_full() || count < SAMPLE ? count : SAMPLE;
}

START_TEST(replayed) {
  static struct bwt_ranks ranks;
  static struct bwt_text why;
  const int step = count / runs();
  const struct bwt_record *was =
      &records[(_i * step + (int)(bwt_run_seed() % (unsigned)step)) % count];
  struct bwt_record is = *was;
  char name[160];
  bw_bundle *bundle;
  bwt_record_name(was, name, sizeof name);
  setenv("EMU_ARCH", "sm_90", 1);
  setenv("EMU_CHECKS", "none", 1);
  setenv("EMU_DEVICES", "1", 1);
  ck_assert_msg(bw_bundle_open(NULL, &bundle) == BW_OK, "%s", bw_last_error());
  ck_assert_msg(bwt_ranks_open(&ranks, NULL, bundle, &why), "%s", why.chars);
  ck_assert_msg(bwt_record_identify(&ranks.session, &is, &why), "%s: %s", name, why.chars);
  const bool comparable = !was->wo_a || is.cubin == was->cubin;
  if (comparable) {
    ck_assert_msg(bwt_record_run(&ranks, &is, &why), "%s: %s", name, why.chars);
    const uint64_t known = was->emulated != 0 ? was->emulated : was->hash;
    ck_assert_msg(is.hash == was->hash || is.hash == known,
                  "%s: hash %016llx, recorded %016llx; all of them: barewarp replay --input FILE",
                  name, (unsigned long long)is.hash, (unsigned long long)was->hash);
    free(is.bits);
  }
  bwt_ranks_close(&ranks);
  bw_bundle_close(bundle);
  if (!comparable)
    BWT_SKIP("the record is of another cubin: not compared");
}
END_TEST

START_TEST(there_is_a_record) {
  if (count == 0)
    BWT_SKIP("there is no record");
}
END_TEST

/* Written, read back and replayed; and a changed bit is seen. */
START_TEST(record_and_replay) {
  static char folder[PATH_MAX], program[PATH_MAX], output[1 << 16];
  bwt_folder_make(folder);
  ck_assert_msg(bwt_build_file("bin/barewarp", program), "no command line in the build");
  setenv("EMU_ARCH", "sm_90", 1);
  setenv("EMU_CHECKS", "none", 1);
  struct bwt_record one = {
      .wo_a = true, .tokens = 2, .groups = 1, .heads = 2, .rank = 128, .seed = bwt_run_seed()};
  struct bwt_record two = {
      .rows = 2, .tp_size = 2, .latent = 3584, .hidden = 32, .seed = bwt_run_seed()};
  static struct bwt_ranks ranks;
  static struct bwt_text why;
  char path[PATH_MAX + 8];
  bw_bundle *bundle;
  ck_assert(bw_bundle_open(NULL, &bundle) == BW_OK);
  ck_assert_msg(bwt_ranks_open(&ranks, NULL, bundle, &why), "%s", why.chars);
  ck_assert_msg(
      bwt_record_identify(&ranks.session, &one, &why) && bwt_record_run(&ranks, &one, &why) &&
          bwt_record_identify(&ranks.session, &two, &why) && bwt_record_run(&ranks, &two, &why),
      "%s", why.chars);
  ck_assert_uint_eq(one.size, 2 * 128 + 512);
  ck_assert_uint_eq(two.size, 2 * 16 * 2);
  snprintf(path, sizeof path, "%s/r", folder);
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  fputs("# record: 1\n", file);
  bwt_record_print(file, &one, true);
  bwt_record_print(file, &two, true);
  two.hash ^= 1; /* as if a GPU had given something else */
  bwt_record_print(file, &two, true);
  one.cubin ^= 1; /* and another kernel */
  bwt_record_print(file, &one, true);
  fclose(file);
  free(one.bits);
  free(two.bits);
  bwt_ranks_close(&ranks);
  bw_bundle_close(bundle);
  int status = bwt_command(output, sizeof output, "'%s' replay --input '%s' --output '%s/again'",
                           program, path, folder);
  ck_assert_msg(status == 1 && strstr(output, "1 skipped: the record is of another cubin") &&
                    strstr(output, "2 passed, 1 failed"),
                "%d: %s", status, output);
  /* What is known to differ does not fail again. */
  status = bwt_command(output, sizeof output, "'%s' replay --input '%s/again'", program, folder);
  ck_assert_msg(status == 0 && strstr(output, "3 passed, 0 failed"), "%d: %s", status, output);
  status = bwt_command(output, sizeof output, "echo nonsense >> '%s'; '%s' replay --input '%s'",
                       path, program, path);
  ck_assert_msg(status == 1 && strstr(output, "line 6 is no case"), "%d: %s", status, output);
  bwt_folder_remove(folder);
}
END_TEST

int main(void) {
  read_records("tests/records");
  const struct bwt_test tests[] = {
      BWT_TEST("file", there_is_a_record, 10),
      BWT_TEST("file", record_and_replay, 60),
      BWT_LOOP("replay", replayed, 0, runs(), 120),
  };
  return bwt_suite_main("records", tests, BWT_COUNT(tests));
}
