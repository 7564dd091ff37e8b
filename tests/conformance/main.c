/* SPDX-License-Identifier: Apache-2.0
 *
 * conformance: runs the conformance kernels on a driver and judges what they answer.
 *
 *   conformance [options] [glob...]      only kernels whose name matches a glob
 *     --driver emu|cuda|PATH   default emu
 *     --kernels FOLDER         kernels (name.ptx); may be given several times
 *     --cuda FOLDER            name.cu in it, name.ptx in FOLDER/<target>
 *     --cubins FOLDER          assembled kernels, name.cubin, instead of PTX
 *     --against FILE           recorded answers; default: none
 *     --record FILE            write the answers; FILE's head is what --head names
 *     --head FILE              first lines of the record
 *     --target NAME            only kernels for that target
 *     --family NAME            only kernels of that family (//@ family)
 *     --lines N                tell N threads of a result that differs; default 1
 *     --full                   all threads, not a sample
 *     --dump FILE              every answer's bits, at most --dump-threads of each kernel
 * Prints a line for each kernel that fails and ends with "N passed, N failed".
 */
#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/judge.h"

#define KERNEL_SECONDS 120 /* a kernel that takes longer hangs: its process ends */

struct options {
  const char *driver, *cubins, *against, *record, *head, *target, *dump, *family;
  const char *kernels[8], *cuda[8];
  unsigned nkernels, ncuda, dump_threads;
  bool full;
  char **glob;
  int globs;
};

struct path {
  char ptx[512], notes[512];
};
/* Shared with the processes that run the kernels. */
struct counts {
  unsigned passed, failed, unjudged;
  size_t next; /* the kernel to go on with */
};

static struct path *paths;
static size_t npaths;

static void add_path(const char *ptx, const char *notes) {
  if ((npaths & (npaths - 1)) == 0)
    paths = kernel_grow(paths, (npaths ? 2 * npaths : 1) * sizeof *paths);
  struct path *p = &paths[npaths++];
  snprintf(p->ptx, sizeof p->ptx, "%s", ptx);
  snprintf(p->notes, sizeof p->notes, "%s", notes ? notes : "");
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct path *)a)->ptx, ((const struct path *)b)->ptx);
}

static bool suffix(const char *name, const char *end) {
  size_t n = strlen(name), e = strlen(end);
  return n > e && strcmp(name + n - e, end) == 0;
}

/* folder/NAME.ptx; with notes, their //@ lines from notes/NAME.cu. */
static bool list(const char *folder, const char *notes) {
  DIR *d = opendir(folder);
  if (!d)
    return false;
  for (struct dirent *e; (e = readdir(d)) != NULL;) {
    char ptx[512], cu[512];
    if (!suffix(e->d_name, ".ptx"))
      continue;
    snprintf(ptx, sizeof ptx, "%s/%s", folder, e->d_name);
    if (notes)
      snprintf(cu, sizeof cu, "%s/%.*s.cu", notes, (int)strlen(e->d_name) - 4, e->d_name);
    add_path(ptx, notes ? cu : NULL);
  }
  closedir(d);
  return true;
}

static bool selected(const struct options *o, const struct kernel_file *k) {
  if (o->target && strcmp(o->target, k->target) != 0)
    return false;
  if (o->family && strcmp(o->family, k->family) != 0)
    return false;
  for (int i = 0; i < o->globs; i++)
    if (fnmatch(o->glob[i], k->name, 0) == 0)
      return true;
  return o->globs == 0;
}

/* A device that a kernel's target names: sm_90a runs on 9.0, sm_100x on 10.x. */
static bool runs_on(const struct kernel_file *k, int sm) {
  int arch = atoi(k->target + 3);
  return strpbrk(k->target, "af") ? arch / 10 == sm / 10 : arch <= sm;
}

static void take(FILE *to, FILE *bits, const struct kernel_file *k, const struct outcome *o) {
  if (*o->problem) {
    const char *error = strstr(o->problem, "CUDA_ERROR");
    fprintf(to, "%s 0 0 fails %s\n", k->name, error ? error : "?");
    return;
  }
  bool all = k->sample == 0 && (*k->approx || k->results * o->threads <= 1024);
  record_write(to, all ? bits : NULL, k->name, k->results, o->threads, o->out);
  if (k->sample == 0)
    return;
  /* The first CTAs again, alone, with their bits. */
  uint64_t n = (uint64_t)k->sample * k->block[0] * k->block[1] * k->block[2];
  uint64_t *some = malloc(n * k->results * 8);
  for (unsigned v = 0; v < k->results; v++)
    memcpy(some + v * n, o->out + v * o->threads, n * 8);
  record_write(to, bits, k->name, k->results, n, some);
  free(some);
}

static void dump(FILE *to, const struct kernel_file *k, const struct outcome *o, unsigned most) {
  if (*o->problem)
    return;
  uint64_t n = most && most < o->threads ? most : o->threads;
  uint64_t *some = malloc(n * k->results * 8);
  for (unsigned v = 0; v < k->results; v++)
    memcpy(some + v * n, o->out + v * o->threads, n * 8);
  FILE *nothing = fopen("/dev/null", "w");
  record_write(nothing, to, k->name, k->results, n, some);
  fclose(nothing);
  free(some);
}

/* end: instead of the name's suffix. */
static FILE *open_for(const char *path, const char *end, const char *mode) {
  char name[600];
  snprintf(name, sizeof name, "%s", path);
  if (end) {
    char *dot = strrchr(name, '.');
    strcpy(dot ? dot : name + strlen(name), end);
  }
  FILE *f = fopen(name, mode);
  if (!f) {
    perror(name);
    exit(2);
  }
  return f;
}

static void start_record(const struct options *o) {
  FILE *to = open_for(o->record, NULL, "w"), *f = o->head ? fopen(o->head, "r") : NULL;
  char line[512];
  while (f && fgets(line, sizeof line, f))
    fprintf(to, "# %s", line);
  if (f)
    fclose(f);
  fclose(to);
  fclose(open_for(o->record, ".bits", "w"));
}

/* false: the device is lost with this kernel, and a new process must go on. */
static bool run_one(const struct options *o, struct device *d, const struct kernel_file *k,
                    const struct record *r, FILE *record, FILE *bits, FILE *dumped,
                    struct counts *c) {
  static char why[1 << 16];
  struct outcome out;
  alarm(KERNEL_SECONDS);
  run_kernel(d, k, o->cubins, o->full ? 0 : k->sample, &out);
  if (record && !k->unrecorded)
    take(record, bits, k, &out);
  if (dumped)
    dump(dumped, k, &out, o->dump_threads);
  enum verdict v = judge(k, &out, r, why, sizeof why);
  if (v == VERDICT_failed)
    printf("  FAIL %s\n%s", k->name, why);
  if (v == VERDICT_unjudged && !record)
    printf("  ???? %s: no definition, and no record of it\n", k->name);
  c->passed += v == VERDICT_passed;
  c->failed += v == VERDICT_failed;
  c->unjudged += v == VERDICT_unjudged;
  bool lost = *out.problem != '\0';
  outcome_free(&out);
  return !lost;
}

/* The kernels from c->next on that the device can run; ends early when it is lost. */
static void run_some(const struct options *o, struct counts *c) {
  struct record r = {NULL, 0};
  const char *problem = o->against ? record_read(o->against, &r) : NULL;
  struct device d;
  if (!problem)
    problem = device_open(o->driver, &d);
  if (problem) {
    printf("  conformance: %s\n", problem);
    c->failed++;
    c->next = npaths;
    return;
  }
  FILE *record = o->record ? open_for(o->record, NULL, "a") : NULL;
  FILE *bits = o->record ? open_for(o->record, ".bits", "a") : NULL;
  FILE *dumped = o->dump ? open_for(o->dump, NULL, "a") : NULL;
  for (bool good = true; good && c->next < npaths;) {
    const struct path *p = &paths[c->next++];
    struct kernel_file k;
    problem = kernel_read(p->ptx, *p->notes ? p->notes : NULL, &k);
    if (problem) {
      printf("  FAIL %s\n", problem);
      c->failed++;
    } else if (!runs_on(&k, d.sm) || !selected(o, &k)) {
      ; /* of another device, or not wanted */
    } else {
      good = run_one(o, &d, &k, &r, record, bits, dumped, c);
    }
    kernel_free(&k);
  }
  if (record)
    fclose(record);
  if (bits)
    fclose(bits);
  if (dumped)
    fclose(dumped);
}

/* A launch that fails takes the process's device with it, on a real driver as on the
 * emulated one: each process goes on until that happens. */
static void run_device(const struct options *o, struct counts *c) {
  c->next = 0;
  while (c->next < npaths) {
    size_t before = c->next;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      run_some(o, c);
      fflush(stdout);
      _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
        WEXITSTATUS(status) != 0) {
      size_t at = c->next ? c->next - 1 : 0;
      printf("  FAIL %s: the process died\n", paths[at].ptx);
      c->failed++;
      if (c->next == before)
        c->next++;
    }
  }
}

/* The emulated driver is tried as a Hopper and as a Blackwell, unless EMU_ARCH says which. */
static struct counts run_all(const struct options *o) {
  struct counts *c =
      mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (o->record)
    start_record(o);
  if (o->dump)
    fclose(open_for(o->dump, NULL, "w"));
  if (strcmp(o->driver, "emu") != 0 || getenv("EMU_ARCH")) {
    run_device(o, c);
  } else {
    setenv("EMU_ARCH", "sm_90", 1);
    run_device(o, c);
    setenv("EMU_ARCH", "sm_100", 1);
    run_device(o, c);
  }
  return *c;
}

static const char *value(int *i, int argc, char **argv) {
  if (*i + 1 >= argc) {
    fprintf(stderr, "conformance: %s needs a value\n", argv[*i]);
    exit(2);
  }
  return argv[++*i];
}

int main(int argc, char **argv) {
  struct options o = {.driver = "emu", .dump_threads = 2048};
  int i = 1;
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
    const char *a = argv[i] + 2;
    if (!strcmp(a, "driver"))
      o.driver = value(&i, argc, argv);
    else if (!strcmp(a, "kernels") && o.nkernels < 8)
      o.kernels[o.nkernels++] = value(&i, argc, argv);
    else if (!strcmp(a, "cuda") && o.ncuda < 8)
      o.cuda[o.ncuda++] = value(&i, argc, argv);
    else if (!strcmp(a, "cubins"))
      o.cubins = value(&i, argc, argv);
    else if (!strcmp(a, "against"))
      o.against = value(&i, argc, argv);
    else if (!strcmp(a, "record"))
      o.record = value(&i, argc, argv);
    else if (!strcmp(a, "head"))
      o.head = value(&i, argc, argv);
    else if (!strcmp(a, "target"))
      o.target = value(&i, argc, argv);
    else if (!strcmp(a, "family"))
      o.family = value(&i, argc, argv);
    else if (!strcmp(a, "dump"))
      o.dump = value(&i, argc, argv);
    else if (!strcmp(a, "dump-threads"))
      o.dump_threads = (unsigned)atoi(value(&i, argc, argv));
    else if (!strcmp(a, "lines")) {
      judge_lines = (unsigned)atoi(value(&i, argc, argv));
      judge_most = 16 * judge_lines;
    } else if (!strcmp(a, "full"))
      o.full = true;
    else {
      fprintf(stderr, "conformance: no option %s\n", argv[i]);
      return 2;
    }
  }
  o.glob = argv + i;
  o.globs = argc - i;
  bool found = true;
  for (unsigned f = 0; f < o.nkernels; f++)
    found &= list(o.kernels[f], NULL);
  for (unsigned f = 0; f < o.ncuda; f++) {
    char folder[512];
    snprintf(folder, sizeof folder, "%s/sm_90a", o.cuda[f]);
    found &= list(folder, o.cuda[f]);
    snprintf(folder, sizeof folder, "%s/sm_100a", o.cuda[f]);
    found &= list(folder, o.cuda[f]);
  }
  if (!found || npaths == 0) {
    fprintf(stderr, "conformance: no kernels there\n");
    return 2;
  }
  qsort(paths, npaths, sizeof *paths, by_name);
  struct counts c = run_all(&o);
  if (c.unjudged)
    printf("%u not judged\n", c.unjudged);
  printf("%u passed, %u failed\n", c.passed, c.failed);
  return c.failed || (c.unjudged && !o.record) || !(c.passed + c.unjudged) ? 1 : 0;
}
