/* SPDX-License-Identifier: Apache-2.0
 *
 * The rule pairs of tests/rules: the emulated driver must report each bad twin, with the
 * rule, the group and the lines that its file says, and run each good twin without a
 * word.  A looped test per group of checks, a run per pair: 20 schedule seeds of the good
 * twin and 5 of the bad one, or, where the file says that the fault shows on some schedules
 * only, up to 20.  Then once told to go on after reports, and once with the check off.
 *
 * BW_PAIR: a glob on group/name or group; only those pairs.
 */
#include "harness/random.h"
#include "harness/rule_run.h"
#include "harness/suite.h"

#include <fnmatch.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER "tests/rules"

enum { SEEDS = 20, BAD_SEEDS = 5, GROUPS = 16 };

static glob_t files;

/* Seeds of a pair: the first is the default's, the others are drawn. */
static void draw_seeds(uint64_t seeds[SEEDS], unsigned pair) {
  seeds[0] = 1;
  for (unsigned i = 1; i < SEEDS; i++)
    seeds[i] = bwt_mix(bwt_run_seed(), (uint64_t)pair * SEEDS + i) >> 40;
}

/* The sanitizers' run, some thirty times slower where a kernel hangs, takes few. */
static unsigned seeds_of(unsigned all) {
  return bwt_sampled() ? 1 + all / 10 : all;
}

static bool among(const unsigned *lines, unsigned count, unsigned line) {
  for (unsigned i = 0; i < count; i++)
    if (lines[i] == line)
      return true;
  return false;
}

/* The sides of a conflict may change places: which comes last is the schedule's. */
static bool right_lines(const struct rule_pair *p, const struct rule_outcome *o) {
  if (p->others == 0)
    return among(p->here, p->heres, o->line);
  return (among(p->here, p->heres, o->line) && among(p->other, p->others, o->other)) ||
         (among(p->other, p->others, o->line) && among(p->here, p->heres, o->other));
}

static void judge_bad(const struct rule_pair *p, const struct rule_outcome *o) {
  const unsigned long long seed = o->seed;
  BWT_REQUIRE(o->reports > 0, "%s: the bad twin is not reported, EMU_SEED=%llu (CUresult %d)",
              p->path, seed, (int)o->result);
  BWT_REQUIRE(bwt_rule_pair_expects(p, o->rule) && strcmp(o->group, p->group) == 0,
              "%s: reported as %s [%s] at line %u, EMU_SEED=%llu: %s", p->path, o->rule, o->group,
              o->line, seed, o->message);
  BWT_REQUIRE(right_lines(p, o), "%s: reported at line %u, other side %u, EMU_SEED=%llu: %s",
              p->path, o->line, o->other, seed, o->message);
  BWT_REQUIRE(o->result != CUDA_SUCCESS, "%s: reported, but every call succeeded", p->path);
}

static void check_bad(const struct rule_pair *p, const uint64_t *seeds) {
  struct bwt_text why = {0};
  struct rule_outcome o;
  if (p->some_seeds) {
    BWT_REQUIRE(bwt_rule_run(p, RULE_bad, seeds, SEEDS, &o, &why), "%s: %s", p->path, why.chars);
    judge_bad(p, &o);
    return;
  }
  for (unsigned i = 0; i < seeds_of(BAD_SEEDS); i++) {
    BWT_REQUIRE(bwt_rule_run(p, RULE_bad, &seeds[i], 1, &o, &why), "%s: %s", p->path, why.chars);
    judge_bad(p, &o);
  }
}

/* Without its check the program goes on, or ends for another reason; it must not take the
 * driver with it.  Where there is no memory, and when nothing can run, reports cannot be
 * switched off. */
static void check_switches(const struct rule_pair *p, const uint64_t *seeds) {
  struct bwt_text why = {0};
  struct rule_outcome o;
  BWT_REQUIRE(bwt_rule_run(p, RULE_bad_going, seeds, 1, &o, &why), "%s, going on: %s", p->path,
              why.chars);
  BWT_REQUIRE(p->some_seeds || (o.reports > 0 && bwt_rule_pair_expects(p, o.rule)),
              "%s, going on: %u reports, %s [%s] at line %u: %s", p->path, o.reports, o.rule,
              o.group, o.line, o.message);
  BWT_REQUIRE(bwt_rule_run(p, RULE_bad_unchecked, seeds, 1, &o, &why), "%s, check off: %s", p->path,
              why.chars);
  static const char *const always[] = {"bounds", "progress", "mailbox"};
  for (size_t i = 0; i < BWT_COUNT(always); i++)
    if (strcmp(p->group, always[i]) == 0)
      return;
  BWT_REQUIRE(strcmp(o.group, p->group) != 0, "%s, check off: %s [%s] at line %u: %s", p->path,
              o.rule, o.group, o.line, o.message);
}

START_TEST(pair) {
  struct bwt_text why = {0};
  struct rule_pair p;
  struct rule_outcome o;
  uint64_t seeds[SEEDS];
  BWT_REQUIRE(bwt_rule_pair_read(&p, files.gl_pathv[_i], &why), "%s", why.chars);
  printf("%s\n", p.path);
  draw_seeds(seeds, (unsigned)_i);
  BWT_REQUIRE(bwt_rule_run(&p, RULE_good, seeds, seeds_of(SEEDS), &o, &why), "%s: %s", p.path,
              why.chars);
  BWT_REQUIRE(o.reports == 0 && o.result == CUDA_SUCCESS,
              "%s: the good twin: CUresult %d, %s [%s] at line %u, other side %u, EMU_SEED=%llu: "
              "%s",
              p.path, (int)o.result, o.rule, o.group, o.line, o.other, (unsigned long long)o.seed,
              o.message);
  check_bad(&p, seeds);
  check_switches(&p, seeds);
  bwt_rule_pair_free(&p);
}
END_TEST

/* ---- files that are no pairs ------------------------------------------------------------ */

static const struct {
  const char *line, *instead, *says; /* a line of a good file, what stands there, the complaint */
} slips[] = {
    {"//! rule: oob-shared\n", "", "\"rule:\" is missing"},
    {"//! rule: oob-shared\n", "//! rule: oob shared\n", "one word must follow"},
    {"//! launch: k block=32\n", "", "\"launch:\" is missing"},
    {"//! launch: k block=32\n", "//! launch: k blocks=32\n", "cannot read blocks=32"},
    {"//! launch: k block=32\n", "//! launch: k block=3x\n", "cannot read block=3x"},
    {"//! launch: k block=32\n", "//! launch:\n", "missing or too long"},
    {"//! launch: k block=32\n", "//! lunch: k\n", "unknown key or value: lunch: k"},
    {"//! launch: k block=32\n", "//! memory: a 0\n", "missing or too long"},
    {".target sm_100f\n", "", ".target is missing"},
    {"  //! here", "", "the mark \"here\" is missing"},
    {"  //! here", "  //! there", "after //! must come"},
    {"  //! bad: shl.b32 %r1, %r1, 3;", "", "0 lines have \"bad:\", must be one"},
    {"  ret;", "  ret;  //! bad: exit;", "2 lines have \"bad:\", must be one"},
};

static const char right[] = "// SPDX-License-Identifier: Apache-2.0\n"
                            "//! rule: oob-shared\n"
                            "//! launch: k block=32\n"
                            ".version 9.0\n"
                            ".target sm_100f\n"
                            ".visible .entry k()\n"
                            "{\n"
                            "  shl.b32 %r1, %r1, 2;  //! bad: shl.b32 %r1, %r1, 3;\n"
                            "  st.shared.u32 [%r1], %r1;  //! here\n"
                            "  ret;\n"
                            "}\n";

static bool read_back(const char *text, struct rule_pair *p, struct bwt_text *why) {
  char folder[] = "/tmp/bw-rules-XXXXXX", path[64];
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/x.ptx", folder);
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  fputs(text, file);
  fclose(file);
  bool ok = bwt_rule_pair_read(p, path, why);
  unlink(path);
  rmdir(folder);
  return ok;
}

START_TEST(slip_is_named) {
  const char *at = strstr(right, slips[_i].line);
  ck_assert_ptr_nonnull(at);
  char text[1024];
  snprintf(text, sizeof text, "%.*s%s%s", (int)(at - right), right, slips[_i].instead,
           at + strlen(slips[_i].line));
  struct rule_pair p;
  struct bwt_text why = {0};
  BWT_REQUIRE(!read_back(text, &p, &why), "read: %s", text);
  BWT_REQUIRE(strstr(why.chars, slips[_i].says) != NULL, "%s", why.chars);
  BWT_REQUIRE(strstr(why.chars, "x.ptx:") != NULL, "no file and line: %s", why.chars);
  bwt_rule_pair_free(&p);
}
END_TEST

/* The twins have the same lines, but one. */
START_TEST(twins_of_a_file) {
  struct rule_pair p;
  struct bwt_text why = {0};
  BWT_REQUIRE(read_back(right, &p, &why), "%s", why.chars);
  ck_assert_str_eq(p.rule, "oob-shared");
  ck_assert_uint_eq(p.here[0], 9);
  ck_assert_uint_eq(p.others, 0);
  ck_assert_uint_eq(p.step[0].block, 32);
  static const char good[] = "\n\n\n.version 9.0\n.target sm_100f\n.visible .entry k()\n{\n"
                             "  shl.b32 %r1, %r1, 2;  \n  st.shared.u32 [%r1], %r1;  \n  ret;\n}\n";
  static const char bad[] = "\n\n\n.version 9.0\n.target sm_100f\n.visible .entry k()\n{\n"
                            " shl.b32 %r1, %r1, 3;\n  st.shared.u32 [%r1], %r1;  \n  ret;\n}\n";
  ck_assert_int_eq(strncmp(p.good, good, strlen(good)), 0);
  ck_assert_int_eq(strncmp(p.bad, bad, strlen(bad)), 0);
  bwt_rule_pair_free(&p);
}
END_TEST

/* The folder of a path: the group's name. */
static void group_of(const char *path, char group[32]) {
  const char *start = path + strlen(FOLDER) + 1;
  snprintf(group, 32, "%.*s", (int)strcspn(start, "/"), start);
}

static void keep_selected(void) {
  const char *pattern = getenv("BW_PAIR");
  size_t kept = 0;
  for (size_t i = 0; i < files.gl_pathc; i++) {
    char *path = files.gl_pathv[i], name[256], group[32];
    group_of(path, group);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(path + strlen(FOLDER) + 1, "."),
             path + strlen(FOLDER) + 1);
    if (pattern == NULL || *pattern == '\0' || fnmatch(pattern, name, 0) == 0 ||
        fnmatch(pattern, group, 0) == 0)
      files.gl_pathv[kept++] = path;
    else
      free(path);
  }
  files.gl_pathc = kept;
  files.gl_pathv[kept] = NULL;
}

int main(void) {
  static char names[GROUPS][32];
  struct bwt_test tests[GROUPS + 2];
  size_t groups = 0;
  if (glob(FOLDER "/*/*.ptx", 0, NULL, &files) != 0) {
    fprintf(stderr, "no pairs in " FOLDER "\n");
    return EXIT_FAILURE;
  }
  keep_selected();
  for (int i = 0; i < (int)files.gl_pathc; i++) { /* sorted */
    char group[32];
    group_of(files.gl_pathv[i], group);
    if (groups == 0 || strcmp(names[groups - 1], group) != 0) {
      if (groups == GROUPS)
        return EXIT_FAILURE;
      strcpy(names[groups], group);
      tests[groups] = (struct bwt_test)BWT_LOOP(names[groups], pair, i, i, 240);
      groups++;
    }
    tests[groups - 1].last = i + 1;
  }
  size_t count = groups;
  if (getenv("BW_PAIR") == NULL) { /* not `make rules` */
    tests[count++] = (struct bwt_test)BWT_LOOP("format", slip_is_named, 0, BWT_COUNT(slips), 20);
    tests[count++] = (struct bwt_test)BWT_TEST("format", twins_of_a_file, 20);
  }
  int status = bwt_suite_main("rules", tests, count);
  globfree(&files);
  return status;
}
