/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes for cases, and a file of verdicts; see pool.h.
 */
#include "mutate/pool.h"

#include "hash.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Seconds of processor time; the longest case takes a twentieth. */
enum { MOST_WORKERS = 64, CPU_LIMIT = 60 };

struct known {
  uint64_t hash;
  struct bwm_verdict verdict;
};

struct worker {
  pid_t pid;
  int pipe;
  struct bwm_job *job;
  uint64_t hash;
};

struct bwm_pool {
  const struct bwm_bundles *from;
  int workers, running;
  struct worker worker[MOST_WORKERS];
  FILE *file;
  uint64_t tools; /* hash of what runs the cases */
  struct known *known;
  size_t known_count, known_room;
};

/* ---- what is known -------------------------------------------------------------------------- */

static uint64_t hash_file(const char *path) {
  void *data;
  size_t size;
  if (bwi_read_file(path, &data, &size) != BW_OK)
    return 0;
  uint64_t hash = bwi_hash64(data, size);
  free(data);
  return hash;
}

static uint64_t mix(uint64_t a, uint64_t b) {
  const uint64_t both[] = {a, b};
  return bwi_hash64(both, sizeof both);
}

static uint64_t hash_tools(void) {
  const char *emu = getenv("BAREWARP_EMU"), *build = getenv("BUILD");
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/emu/libcuda.so.1", build != NULL ? build : "build");
  return mix(hash_file("/proc/self/exe"), hash_file(emu != NULL && *emu != '\0' ? emu : path));
}

static uint64_t hash_job(const struct bwm_pool *p, const struct bwm_job *job) {
  const struct bwm_kernel *k = job->kernel;
  uint64_t hash = mix(p->tools, bwi_hash64(k->ptx, strlen(k->ptx)));
  if (job->mutant != NULL) {
    hash = mix(hash, job->mutant->line);
    hash = mix(hash, bwi_hash64(job->mutant->replacement, strlen(job->mutant->replacement)));
  }
  return mix(hash, job->number);
}

static void remember(struct bwm_pool *p, uint64_t hash, const struct bwm_verdict *v) {
  if (p->known_count == p->known_room) {
    size_t room = p->known_room ? 2 * p->known_room : 4096;
    struct known *more = realloc(p->known, room * sizeof *more);
    if (more == NULL)
      return;
    p->known = more;
    p->known_room = room;
  }
  p->known[p->known_count++] = (struct known){hash, *v};
}

static const struct bwm_verdict *recall(const struct bwm_pool *p, uint64_t hash) {
  for (size_t i = p->known_count; i-- > 0;)
    if (p->known[i].hash == hash)
      return &p->known[i].verdict;
  return NULL;
}

/* Lines "hash outcome by<tab>why"; the first names the tools. */
static void load(struct bwm_pool *p, const char *path) {
  char line[1024];
  uint64_t tools = 0, hash;
  int outcome, at;
  FILE *file = fopen(path, "r");
  if (file != NULL && fgets(line, sizeof line, file) != NULL &&
      sscanf(line, "tools %" SCNx64, &tools) == 1 && tools == p->tools) {
    while (fgets(line, sizeof line, file) != NULL) {
      struct bwm_verdict v = {.outcome = BWM_SURVIVED};
      char *tab = strchr(line, '\t');
      if (tab == NULL || sscanf(line, "%" SCNx64 " %d %n", &hash, &outcome, &at) != 2)
        continue;
      v.outcome = (enum bwm_outcome)outcome;
      snprintf(v.by, sizeof v.by, "%.*s", (int)(tab - line - at), line + at);
      snprintf(v.why, sizeof v.why, "%.*s", (int)strcspn(tab + 1, "\n"), tab + 1);
      remember(p, hash, &v);
    }
  }
  if (file != NULL)
    (void)fclose(file);
  p->file = fopen(path, tools == p->tools ? "a" : "w");
  if (p->file != NULL && tools != p->tools)
    (void)fprintf(p->file, "tools %" PRIx64 "\n", p->tools);
}

static void keep(struct bwm_pool *p, uint64_t hash, const struct bwm_verdict *v) {
  char why[sizeof v->why];
  snprintf(why, sizeof why, "%s", v->why);
  for (char *c = why; *c != '\0'; c++)
    if (*c == '\n' || *c == '\t')
      *c = ' ';
  if (p->file == NULL || v->outcome == BWM_NO_VERDICT)
    return;
  (void)fprintf(p->file, "%" PRIx64 " %d %s\t%s\n", hash, (int)v->outcome, v->by, why);
  (void)fflush(p->file);
}

/* ---- processes ----------------------------------------------------------------- */

struct bwm_pool *bwm_pool_open(const struct bwm_bundles *from, const char *file, int workers) {
  struct bwm_pool *p = calloc(1, sizeof *p);
  if (p == NULL)
    return NULL;
  p->from = from;
  p->workers = workers < 1 ? 1 : workers > MOST_WORKERS ? MOST_WORKERS : workers;
  p->tools = hash_tools();
  load(p, file);
  return p;
}

void bwm_pool_close(struct bwm_pool *p) {
  while (bwm_pool_wait(p) != NULL)
    continue;
  if (p->file != NULL)
    (void)fclose(p->file);
  free(p->known);
  free(p);
}

bool bwm_pool_full(const struct bwm_pool *p) {
  return p->running == p->workers;
}

/* The child: what the case says goes through the pipe, what the emulator says nowhere. */
static void run(const struct bwm_pool *p, const struct bwm_job *job, int pipe) {
  struct bwm_verdict v = {0};
  struct bwt_rebundled planted;
  struct bwt_text why = {0};
  const struct rlimit limit = {CPU_LIMIT, CPU_LIMIT};
  int nowhere = open("/dev/null", O_WRONLY);
  (void)dup2(nowhere, STDERR_FILENO);
  (void)dup2(nowhere, STDOUT_FILENO);
  (void)setrlimit(RLIMIT_CPU, &limit);
  char *text = job->mutant != NULL ? bwm_apply(job->kernel->ptx, job->mutant) : NULL;
  if (!bwm_plant(p->from, job->kernel, text, bwm_case_clusters(job->kernel, job->number), &planted,
                 &why))
    bwm_no_verdict(&v, why.chars);
  else
    bwm_case_run(job->kernel, job->number, planted.bundle, &v);
  _exit(write(pipe, &v, sizeof v) == sizeof v ? 0 : 1);
}

bool bwm_pool_start(struct bwm_pool *p, struct bwm_job *job) {
  uint64_t hash = hash_job(p, job);
  const struct bwm_verdict *v = recall(p, hash);
  int ends[2];
  if (v != NULL) {
    job->verdict = *v;
    return true;
  }
  (void)fflush(NULL);
  pid_t pid = -1;
  if (pipe(ends) == 0)
    pid = fork(); /* before any driver is opened */
  if (pid < 0) {
    bwm_no_verdict(&job->verdict, "no process for it");
    return true;
  }
  if (pid == 0) {
    close(ends[0]);
    run(p, job, ends[1]);
  }
  close(ends[1]);
  p->worker[p->running++] = (struct worker){pid, ends[0], job, hash};
  return false;
}

static void finish(struct bwm_pool *p, struct worker *w, int status) {
  struct bwm_verdict *v = &w->job->verdict;
  char why[80];
  if (read(w->pipe, v, sizeof *v) != sizeof *v) { /* one write below PIPE_BUF: whole or nothing */
    snprintf(why, sizeof why, WIFSIGNALED(status) ? "ended by signal %d%s" : "exit status %d%s",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
             WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? ": out of processor time" : "");
    bwm_no_verdict(v, why);
  }
  close(w->pipe);
  remember(p, w->hash, v);
  keep(p, w->hash, v);
}

struct bwm_job *bwm_pool_wait(struct bwm_pool *p) {
  while (p->running > 0) {
    int status;
    pid_t pid = waitpid(-1, &status, 0);
    for (int i = 0; i < p->running; i++) {
      if (p->worker[i].pid != pid)
        continue;
      struct worker w = p->worker[i];
      p->worker[i] = p->worker[--p->running];
      finish(p, &w, status);
      return w.job;
    }
    if (pid < 0)
      break;
  }
  return NULL;
}
