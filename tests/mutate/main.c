/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutation testing of the shipped kernels: every mutant must be killed, by a check of the
 * emulated driver, a wrong result or the report that nothing gets on.
 *
 *   mutate [--sample N] [--match GLOB] [--instruction GLOB] [--kinds LIST] [--list] [--verbose]
 *
 *   --sample N     N mutants, spread evenly over all
 *   --match GLOB   only mutants of kernels family/arch/key that match
 *   --instruction GLOB  only mutants of instructions that match: '*wgmma.fence*'
 *   --kinds LIST   only mutants of these kinds (mutant.h), separated by commas
 *   --list         print the mutants, run nothing
 *   --verbose      print what killed each
 *
 * Every case that killed a mutant is also run with the kernel as it ships, which has to
 * pass; and a survivor has passed all cases.  The last line is "N passed, N failed": passed
 * is killed, or listed in tests/mutate/equivalent.tsv, at most 3 in 100.
 *
 * Environment: BUILD, the build folder (default: build); BW_JOBS, processes at a time
 * (default: the processors).  Verdicts are kept in $BUILD/mutate.verdicts: what was
 * interrupted goes on where it stopped.
 */
#include "harness/kernel.h"
#include "mutate/pool.h"
#include "mutate/score.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PROGRESS_SECONDS = 10, MOST_CASES = 32, EQUIVALENT_PERCENT = 3 };

struct options {
  size_t sample;
  const char *match, *instruction, *kinds;
  bool list, verbose;
};

static struct options read_options(int argc, char **argv) {
  struct options o = {0};
  for (int i = 1; i < argc; i++) {
    char *end = NULL;
    if (strcmp(argv[i], "--sample") == 0 && i + 1 < argc) {
      o.sample = strtoul(argv[++i], &end, 10);
      if (*end != '\0' || o.sample == 0) {
        (void)fprintf(stderr, "mutate: --sample %s: must be a number, at least 1\n", argv[i]);
        exit(2);
      }
    } else if (strcmp(argv[i], "--match") == 0 && i + 1 < argc) {
      o.match = argv[++i];
    } else if (strcmp(argv[i], "--instruction") == 0 && i + 1 < argc) {
      o.instruction = argv[++i];
    } else if (strcmp(argv[i], "--kinds") == 0 && i + 1 < argc) {
      o.kinds = argv[++i];
    } else if (strcmp(argv[i], "--list") == 0) {
      o.list = true;
    } else if (strcmp(argv[i], "--verbose") == 0) {
      o.verbose = true;
    } else {
      (void)fprintf(stderr,
                    "usage: %s [--sample N] [--match GLOB] [--instruction GLOB] [--kinds LIST] "
                    "[--list] [--verbose]\n",
                    argv[0]);
      exit(2);
    }
  }
  return o;
}

/* Whether the kind is in the list, and the instruction is asked for. */
static bool wants(const struct options *o, const struct bwm_mutant *m) {
  const char *name = bwm_kind_name(m->kind);
  size_t length = strlen(name);
  if (o->instruction != NULL && fnmatch(o->instruction, m->instruction, 0) != 0)
    return false;
  if (o->kinds == NULL)
    return true;
  for (const char *at = o->kinds; (at = strstr(at, name)) != NULL; at += length)
    if ((at == o->kinds || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
      return true;
  return false;
}

/* ---- which mutants ------------------------------------------------------------------------ */

static struct bwm_result *choose(const struct bwm_kernel *kernels, size_t kernel_count,
                                 const struct options *o, size_t *count) {
  size_t all = 0;
  for (size_t i = 0; i < kernel_count; i++)
    all += kernels[i].mutant_count;
  struct bwm_result *results = calloc(all + 1, sizeof *results);
  size_t used = 0;
  for (size_t i = 0; results != NULL && i < kernel_count; i++) {
    if (o->match != NULL && fnmatch(o->match, kernels[i].name, 0) != 0)
      continue;
    for (size_t m = 0; m < kernels[i].mutant_count; m++)
      if (wants(o, &kernels[i].mutants[m]))
        results[used++] =
            (struct bwm_result){.kernel = &kernels[i], .mutant = &kernels[i].mutants[m]};
  }
  size_t wanted = o->sample > 0 && o->sample < used ? o->sample : used;
  for (size_t i = 0; results != NULL && i < wanted; i++)
    results[i] = results[(2 * i + 1) * used / (2 * wanted)];
  *count = results != NULL ? wanted : 0;
  return results;
}

/* ---- running ------------------------------------------------------------------- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void show_progress(size_t done, size_t count, size_t dead, double start, bool last) {
  static double shown;
  double t = now();
  if (!last && t - shown < PROGRESS_SECONDS)
    return;
  shown = t;
  double left = done > 0 ? (t - start) / (double)done * (double)(count - done) : 0;
  printf("%zu of %zu mutants, %zu killed, %.0f s", done, count, dead, t - start);
  printf(last ? "\n" : ", about %.0f s left\n", left);
  (void)fflush(stdout);
}

/* The next case of this mutant, or its end. */
static bool is_over(const struct bwm_result *r) {
  return r->verdict.outcome != BWM_SURVIVED || r->next >= bwm_case_count(r->kernel);
}

struct run {
  struct bwm_pool *pool;
  struct bwm_result *results;
  size_t count, done, dead;
  bool verbose;
  double start;
};

static void note(struct run *run, struct bwm_result *r, const struct bwm_verdict *v) {
  r->verdict = *v;
  if (v->outcome == BWM_SURVIVED)
    r->next++;
  if (!is_over(r))
    return;
  run->done++;
  if (v->outcome == BWM_KILLED) {
    run->dead++;
    if (run->verbose)
      printf("killed by %s, case \"%s\": %s:%u: %s: %s\n", v->by, bwm_case_name(r->kernel, r->next),
             r->kernel->name, r->mutant->line, r->mutant->change, r->mutant->instruction);
  } else if ((r->equivalent = bwm_equivalent(r->kernel, r->mutant)) == NULL ||
             v->outcome == BWM_NO_VERDICT) {
    r->equivalent = NULL;
    bwm_print_survivor(r);
  }
  show_progress(run->done, run->count, run->dead, run->start, false);
}

/* Cases of one mutant follow each other, mutants run side by side. */
static void run_mutants(struct run *run) {
  size_t next = 0;
  for (;;) {
    struct bwm_result *r = NULL;
    struct bwm_job *job = NULL;
    if (next < run->count && !bwm_pool_full(run->pool)) {
      r = &run->results[next++];
    } else {
      job = bwm_pool_wait(run->pool);
      if (job == NULL)
        break;
      r = job->owner;
      note(run, r, &job->verdict);
      free(job);
    }
    while (!is_over(r)) {
      job = calloc(1, sizeof *job);
      if (job == NULL)
        exit(2);
      *job =
          (struct bwm_job){.kernel = r->kernel, .mutant = r->mutant, .number = r->next, .owner = r};
      if (!bwm_pool_start(run->pool, job))
        break;
      note(run, r, &job->verdict);
      free(job);
    }
  }
}

/* ---- the kernels as they ship -------------------------------------------------- */

/* Those cases that decided about a mutant. */
static size_t run_shipped(struct run *run, const struct bwm_kernel *kernels, size_t kernel_count,
                          size_t *cases) {
  static struct bwm_job jobs[MOST_CASES];
  size_t failed = 0;
  *cases = 0;
  for (size_t k = 0; k < kernel_count; k++) {
    bool wanted[MOST_CASES] = {false};
    for (size_t i = 0; i < run->count; i++)
      if (run->results[i].kernel == &kernels[k] && run->results[i].verdict.outcome == BWM_KILLED)
        wanted[run->results[i].next] = true;
    for (unsigned n = 0; n < bwm_case_count(&kernels[k]); n++) {
      if (!wanted[n])
        continue;
      jobs[n] = (struct bwm_job){.kernel = &kernels[k], .number = n};
      ++*cases;
      while (bwm_pool_full(run->pool))
        (void)bwm_pool_wait(run->pool);
      (void)bwm_pool_start(run->pool, &jobs[n]);
    }
    while (bwm_pool_wait(run->pool) != NULL)
      continue;
    for (unsigned n = 0; n < bwm_case_count(&kernels[k]); n++) {
      if (!wanted[n] || jobs[n].verdict.outcome == BWM_SURVIVED)
        continue;
      failed++;
      printf("%s as it ships does not pass case \"%s\": %s\n    %s\n", kernels[k].name,
             bwm_case_name(&kernels[k], n), jobs[n].verdict.by, jobs[n].verdict.why);
    }
  }
  return failed;
}

/* ---- main ---------------------------------------------------------------------- */

static void open_bundles(struct bwm_bundles *from) {
  char path[PATH_MAX];
  if (bw_bundle_open(NULL, &from->shipped) == BW_OK && bwt_build_file("test.bundle", path) &&
      bw_bundle_open(path, &from->test) == BW_OK)
    return;
  (void)fprintf(stderr, "mutate: the bundles of the build: %s\n", bw_last_error());
  exit(2);
}

static int report(struct run *run, size_t shipped_failed, size_t shipped_cases) {
  size_t equal = 0, failed = 0;
  for (size_t i = 0; i < run->count; i++) {
    bool dead = run->results[i].verdict.outcome == BWM_KILLED;
    equal += !dead && run->results[i].equivalent != NULL;
    failed += !dead && run->results[i].equivalent == NULL;
  }
  bwm_print_score(run->results, run->count);
  printf("%zu mutants: %zu killed, %zu listed as equivalent, %zu survived; %zu cases of the "
         "kernels as they ship, %zu failed\n",
         run->count, run->dead, equal, failed, shipped_cases, shipped_failed);
  if (equal * 100 > run->count * EQUIVALENT_PERCENT && run->count >= 500) {
    printf("more than %d in 100 are listed as equivalent\n", EQUIVALENT_PERCENT);
    shipped_failed++;
  }
  printf("%zu passed, %zu failed\n", run->dead + equal, failed + shipped_failed);
  return failed + shipped_failed > 0 || run->count == 0;
}

int main(int argc, char **argv) {
  struct options o = read_options(argc, argv);
  const char *build = getenv("BUILD"), *jobs = getenv("BW_JOBS");
  struct bwm_bundles from = {0};
  struct bwm_kernel *kernels;
  char file[PATH_MAX];
  open_bundles(&from);
  bwm_equivalents_read("tests/mutate/equivalent.tsv");
  size_t kernel_count = bwm_kernels(&from, &kernels);
  static struct run run;
  run.verbose = o.verbose;
  run.start = now();
  run.results = choose(kernels, kernel_count, &o, &run.count);
  if (o.list) {
    for (size_t i = 0; i < run.count; i++)
      printf("%s:%u: %s: %s: %s\n", run.results[i].kernel->name, run.results[i].mutant->line,
             bwm_kind_name(run.results[i].mutant->kind), run.results[i].mutant->change,
             run.results[i].mutant->instruction);
    return 0;
  }
  snprintf(file, sizeof file, "%s/mutate.verdicts", build != NULL ? build : "build");
  int workers = jobs != NULL && *jobs != '\0' ? atoi(jobs) : (int)sysconf(_SC_NPROCESSORS_ONLN);
  run.pool = bwm_pool_open(&from, file, workers);
  if (run.pool == NULL)
    exit(2);
  run_mutants(&run);
  show_progress(run.done, run.count, run.dead, run.start, true);
  size_t cases, failed = run_shipped(&run, kernels, kernel_count, &cases);
  bwm_pool_close(run.pool);
  return report(&run, failed, cases);
}
