/* SPDX-License-Identifier: Apache-2.0
 *
 * The harness and the emulator, tested: each kernel of tests/broken is a shipped one with
 * a planted bug, and must be caught for its own reason.  tests/broken/lib.awk explains
 * how the bugs are written.
 */
#include "harness/kernel.h"
#include "harness/late.h"
#include "harness/random.h"
#include "harness/rebundle.h"
#include "harness/suite.h"
#include "harness/verify_wo_a.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOLDER "tests/broken"

enum { MAX_BUGS = 128, LATE_SEEDS = 20 };

struct bug {
  char name[64], key[32], scenario[16], fails[64], spares[64], says[128];
  struct bwt_wo_a_case c;
};

static char bug_names[MAX_BUGS][64];

static int by_name(const void *a, const void *b) {
  return strcmp(a, b);
}

/* The files NAME.awk of the folder but lib.awk, in order. */
static int list_bugs(void) {
  int count = 0;
  DIR *folder = opendir(FOLDER);
  for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
    size_t length = strlen(e->d_name);
    if (length < 5 || length > 60 || strcmp(e->d_name + length - 4, ".awk") != 0 ||
        strcmp(e->d_name, "lib.awk") == 0)
      continue;
    if (count < MAX_BUGS)
      snprintf(bug_names[count++], 64, "%.*s", (int)length - 4, e->d_name);
  }
  if (folder != NULL)
    closedir(folder);
  qsort(bug_names, (size_t)count, sizeof *bug_names, by_name);
  return count;
}

/* ---- what a bug's head says ------------------------------------------------------------- */

/* The rest of the line "# @name ..."; "" if there is none. */
static void directive(const char *text, const char *name, char *value, size_t size) {
  char start[32];
  snprintf(start, sizeof start, "\n# @%s ", name);
  const char *at = strstr(text, start);
  at = at != NULL ? at + strlen(start) : "";
  snprintf(value, size, "%.*s", (int)strcspn(at, "\n"), at);
}

static void read_case(char *text, struct bwt_wo_a_case *c) {
  *c = (struct bwt_wo_a_case){.groups = 1, .lora_rank = 128};
  char *save = NULL;
  for (char *item = strtok_r(text, " ", &save); item != NULL; item = strtok_r(NULL, " ", &save)) {
    char *value = strchr(item, '=');
    ck_assert_msg(value != NULL, "@case: %s", item);
    *value++ = '\0';
    if (strcmp(item, "tokens") == 0)
      c->tokens = (uint32_t)atoi(value);
    else if (strcmp(item, "heads") == 0)
      c->heads_per_group = (uint32_t)atoi(value);
    else if (strcmp(item, "kind") == 0)
      c->kind = bwt_wo_a_kind_find(value);
    else if (strcmp(item, "tight") == 0)
      c->guard = BWT_TIGHT;
    else
      ck_abort_msg("@case: %s", item);
  }
  ck_assert(c->tokens > 0 && c->heads_per_group > 0 && c->kind < BWT_WO_A_KIND_COUNT);
}

static void read_bug(const char *name, struct bug *b) {
  char path[256], sizes[128];
  memset(b, 0, sizeof *b);
  snprintf(b->name, sizeof b->name, "%s", name);
  snprintf(path, sizeof path, FOLDER "/%s.awk", name);
  char *text = bwt_read_text(path);
  ck_assert_msg(text != NULL, "cannot read %s", path);
  directive(text, "key", b->key, sizeof b->key);
  directive(text, "scenario", b->scenario, sizeof b->scenario);
  directive(text, "fails", b->fails, sizeof b->fails);
  directive(text, "spares", b->spares, sizeof b->spares);
  directive(text, "says", b->says, sizeof b->says);
  directive(text, "case", sizes, sizeof sizes);
  ck_assert_msg(b->key[0] != '\0' && b->fails[0] != '\0', "%s lacks @key or @fails", path);
  read_case(sizes, &b->c);
  free(text);
}

/* ---- the edited kernel ---------------------------------------------------------------------- */

struct edited {
  const struct bug *bug;
  char *text; /* what awk made of the PTX */
};

static void edit_ptx(bwi_entry *e, bwi_attribute *attributes, void *arg) {
  (void)attributes;
  struct edited *edited = arg;
  char source[] = "/tmp/bw-broken-XXXXXX", target[64], command[512];
  int file = mkstemp(source);
  ck_assert_int_ge(file, 0);
  close(file);
  snprintf(target, sizeof target, "%s.out", source);
  ck_assert_msg(bwi_write_file(source, e->ptx, e->ptx_size) == BW_OK, "%s", bw_last_error());
  snprintf(command, sizeof command, "awk -f " FOLDER "/lib.awk -f " FOLDER "/%s.awk %s > %s",
           edited->bug->name, source, target);
  ck_assert_msg(system(command) == 0, "%s: the kernel no longer has what this bug edits",
                edited->bug->name);
  edited->text = bwt_read_text(target);
  unlink(source);
  unlink(target);
  ck_assert_ptr_nonnull(edited->text);
  ck_assert_msg(strcmp(edited->text, e->ptx) != 0, "%s changes nothing", edited->bug->name);
  e->ptx = edited->text;
  e->ptx_size = strlen(edited->text);
}

/* A bundle with the broken kernel under every key that a plan for the case loads. */
static void break_kernel(const struct bug *b, const bw_bundle *from, struct bwt_rebundled *out) {
  bw_wo_a_key keys[128], key;
  char names[128][BW_WO_A_KEY_NAME_SIZE], name[BW_WO_A_KEY_NAME_SIZE];
  size_t count;
  ck_assert_int_eq(bw_wo_a_keys(b->c.tokens, b->c.heads_per_group, keys, 128, &count), BW_OK);
  for (size_t i = 0; i < count; i++)
    ck_assert_int_eq(bw_wo_a_key_name(&keys[i], names[i]), BW_OK);
  ck_assert_int_eq(bw_wo_a_dispatch(b->c.tokens, b->c.heads_per_group, &key), BW_OK);
  ck_assert_int_eq(bw_wo_a_key_name(&key, name), BW_OK);
  ck_assert_str_eq(name, b->key);
  struct edited edited = {b, NULL};
  struct bwt_text why = {0};
  ck_assert_msg(
      bwt_rebundle_as(from, "wo_a", "sm_100f", b->key, names, count, edit_ptx, &edited, out, &why),
      "%s", why.chars);
  free(edited.text);
}

/* ---- running it ---------------------------------------------------------------- */

/* After a predecessor that lets its dependents start and then writes x. */
static void verify_late(struct bwt_session *s, const struct bwt_wo_a_case *c,
                        struct bwt_wo_a_result *result) {
  struct bwt_wo_a_run run;
  struct bwt_late late;
  struct bwt_text why = {0};
  bwt_wo_a_result_start(result, s, c);
  ck_assert_msg(bwt_wo_a_run_open(&run, s, c, result), "%s", result->why.chars);
  ck_assert_msg(bwt_late_write(&late, s, &run.x, run.inputs.x, &why), "%s", why.chars);
  ck_assert_msg(bw_wo_a_launch(run.plan, &run.args, NULL) == BW_OK, "%s", bw_last_error());
  CUresult error = s->driver.CtxSynchronize();
  if (error == CUDA_SUCCESS)
    bwt_wo_a_run_check(&run, true, result);
  else
    bwt_wo_a_fault(result, s, error);
  bwt_wo_a_result_finish(result, s);
  bwt_late_close(&late);
  bwt_wo_a_run_close(&run);
}

/* unmodified: the kernel as it ships, to see that the case itself is no failure. */
static void run_case(const struct bug *b, bool unmodified, struct bwt_wo_a_result *result) {
  struct bwt_session session;
  struct bwt_rebundled broken = {0};
  struct bwt_text why = {0};
  bw_bundle *shipped;
  ck_assert_msg(bw_bundle_open(NULL, &shipped) == BW_OK, "%s", bw_last_error());
  if (!unmodified)
    break_kernel(b, shipped, &broken);
  ck_assert_msg(bwt_session_open(&session, NULL, unmodified ? shipped : broken.bundle, &why), "%s",
                why.chars);
  struct bwt_wo_a_case c = b->c;
  c.seed = bwt_run_seed();
  if (strcmp(b->scenario, "late") == 0)
    verify_late(&session, &c, result);
  else
    bwt_wo_a_verify(&session, &c, result);
  bwt_session_close(&session);
  if (!unmodified)
    bwt_rebundle_close(&broken);
  bw_bundle_close(shipped);
}

/* ---- was it caught, and for its own reason? ------------------------------------ */

static unsigned failure_bit(const char *name) {
  static const struct {
    const char *name;
    unsigned bit;
  } names[] = {{"fault", BWT_FAIL_FAULT},     {"q", BWT_FAIL_Q},       {"qs", BWT_FAIL_QS},
               {"padding", BWT_FAIL_PADDING}, {"band", BWT_FAIL_BAND}, {"input", BWT_FAIL_INPUT},
               {"truth", BWT_FAIL_TRUTH}};
  for (size_t i = 0; i < BWT_COUNT(names); i++)
    if (strcmp(names[i].name, name) == 0)
      return names[i].bit;
  ck_abort_msg("there is no failure named %s", name);
  return 0;
}

/* Every name of the list set (or one of a|b), resp. none. */
static bool failures_are(unsigned failures, const char *list, bool set) {
  char text[64];
  snprintf(text, sizeof text, "%s", list);
  char *save = NULL;
  for (char *item = strtok_r(text, " ", &save); item != NULL; item = strtok_r(NULL, " ", &save)) {
    unsigned bits = 0;
    char *inner = NULL;
    for (char *name = strtok_r(item, "|", &inner); name != NULL; name = strtok_r(NULL, "|", &inner))
      bits |= failure_bit(name);
    if (((failures & bits) != 0) != set)
      return false;
  }
  return true;
}

static bool caught(const struct bug *b, const struct bwt_wo_a_result *r) {
  return !r->passed && failures_are(r->failures, b->fails, true) &&
         failures_are(r->failures, b->spares, false) && strstr(r->why.chars, b->says) != NULL;
}

/* A bug that shows only in some schedules: in one of the first seeds it must. */
static bool caught_in_some_schedule(const struct bug *b) {
  for (int seed = 1; seed <= LATE_SEEDS; seed++) {
    pid_t child = fork(); /* the emulator reads its seed once a process */
    ck_assert_int_ge(child, 0);
    if (child == 0) {
      char text[16];
      struct bwt_wo_a_result r;
      snprintf(text, sizeof text, "%d", seed);
      setenv("EMU_SEED", text, 1);
      run_case(b, false, &r);
      _exit(caught(b, &r) ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
      return true;
  }
  return false;
}

START_TEST(bug_is_caught) {
  struct bug b;
  struct bwt_wo_a_result r;
  read_bug(bug_names[_i], &b);
  printf("%s\n", b.name);
  if (b.scenario[0] != '\0') {
    ck_assert_msg(caught_in_some_schedule(&b), "%s: not caught in %d schedules", b.name,
                  LATE_SEEDS);
    return;
  }
  run_case(&b, false, &r);
  ck_assert_msg(caught(&b, &r),
                "%s: failures 0x%x, must be [%s], must not be [%s], saying \"%s\":\n%s", b.name,
                r.failures, b.fails, b.spares, b.says, r.why.chars);
}
END_TEST

/* The same cases pass with the kernels as they ship. */
START_TEST(case_without_bug_passes) {
  struct bug b;
  struct bwt_wo_a_result r;
  read_bug(bug_names[_i], &b);
  run_case(&b, true, &r);
  ck_assert_msg(r.passed, "%s, without its bug:\n%s", b.name, r.why.chars);
}
END_TEST

/* A bug whose lines are gone is itself a failure. */
START_TEST(bug_without_lines_fails) {
  ck_assert_int_ne(system("echo '// nothing' | awk -f " FOLDER "/lib.awk -f " FOLDER
                          "/skipped_store.awk > /dev/null 2>&1"),
                   0);
}
END_TEST

int main(void) {
  int bugs = list_bugs();
  const struct bwt_test tests[] = {
      BWT_LOOP("bugs", bug_is_caught, 0, bugs, 240),
      BWT_LOOP("right", case_without_bug_passes, 0, bugs, 60),
      BWT_TEST("right", bug_without_lines_fails, 10),
  };
  if (bugs == 0) {
    printf("broken: no bugs in " FOLDER "\n");
    return EXIT_FAILURE;
  }
  return bwt_suite_main("broken", tests, BWT_COUNT(tests));
}
