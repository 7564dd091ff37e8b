/* SPDX-License-Identifier: Apache-2.0
 *
 * For the suites of the emulator's engine: runs PTX on the machine itself, without the
 * driver layer above it.  The machine is one per process and configured by environment,
 * so a test that needs several seeds runs each in a child of its own.
 */
#ifndef BW_SUITES_EMU_ENGINE_H
#define BW_SUITES_EMU_ENGINE_H

#include "emulator/engine/engine.h"
#include "harness/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PTX_HEAD ".version 9.0\n.target sm_100f\n.address_size 64\n"

/* Sets up the machine; checks: EMU_CHECKS.  Once per process. */
static inline struct machine *engine_start(uint64_t seed, const char *checks) {
  char text[32];
  (void)snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
  (void)setenv("EMU_SEED", text, 1);
  (void)setenv("EMU_CHECKS", checks, 1);
  return machine_get();
}

/* A launch: everything but the source and the parameters may stay 0. */
struct run {
  const char *ptx, *name;
  uint32_t grid, block, cluster, shared;
  const void *params;
  uint32_t params_size;
};

static inline bool grid_done(void *arg) {
  const struct grid *g = arg;
  return g->state == GRID_complete || g->state == GRID_failed;
}

/* Sets a grid up; the module stays loaded. */
static inline struct grid *engine_grid(const struct run *r) {
  static uint64_t launches;
  char err[512] = "";
  struct module *m = ptx_load(r->ptx, strlen(r->ptx), err, sizeof err);
  if (!m)
    ck_abort_msg("%s", err);
  ptx_place(m);
  struct grid *g = calloc(1, sizeof *g);
  g->fn = ptx_function(m, r->name ? r->name : "k");
  ck_assert_ptr_nonnull(g->fn);
  g->dev = &machine_get()->dev[0];
  g->id = ++launches;
  for (int i = 0; i < 3; i++)
    g->dim[i] = g->block[i] = g->cluster_dim[i] = 1;
  g->dim[0] = r->grid ? r->grid : 1;
  g->block[0] = r->block ? r->block : 1;
  g->cluster_dim[0] = r->cluster ? r->cluster : 1;
  g->dynamic_shared = r->shared;
  g->param = calloc(1, g->fn->param_bytes + 1);
  ck_assert_uint_le(r->params_size, g->fn->param_bytes);
  if (r->params)
    memcpy(g->param, r->params, r->params_size);
  /* Grid and module last as long as the test's process; known from here, they are no leak. */
  static struct grid *volatile kept[1024] __attribute__((unused));
  kept[launches % 1024] = g;
  return g;
}

static inline enum grid_state engine_run(const struct run *r) {
  struct grid *g = engine_grid(r);
  ck_assert(grid_submit(g));
  (void)machine_run(machine_get(), grid_done, g);
  return g->state;
}

/* Device memory with defined contents. */
static inline uint64_t engine_memory(size_t size, const void *data) {
  struct machine *m = machine_get();
  struct mem *mem = global_alloc(&m->dev[0], size, 256, "test buffer");
  ck_assert_ptr_nonnull(mem);
  if (data)
    memcpy(mem->data, data, size);
  else
    memset(mem->data, 0, size);
  if (mem->undef)
    memset(mem->undef, 0, size);
  return mem->base;
}

static inline void *engine_data(uint64_t addr) {
  struct mem *mem = global_find(machine_get(), addr);
  ck_assert_ptr_nonnull(mem);
  return mem->data + (addr - mem->base);
}

/* Line of the first line of the source that contains the text; 1-based. */
static inline uint32_t line_of(const char *ptx, const char *text) {
  const char *at = strstr(ptx, text);
  ck_assert_ptr_nonnull(at);
  uint32_t line = 1;
  for (const char *p = ptx; p < at; p++)
    line += *p == '\n';
  return line;
}

/* The launch failed with this rule at the line that contains `text`. */
static inline void expect_report(const struct run *r, const char *rule, const char *text) {
  ck_assert_int_eq(engine_run(r), GRID_failed);
  const struct report_record *q = report_at(machine_get(), 0);
  ck_assert_ptr_nonnull(q);
  ck_assert_str_eq(q->rule, rule);
  ck_assert_uint_eq(q->line, line_of(r->ptx, text));
  ck_assert_str_eq(q->kernel, r->name ? r->name : "k");
}

/* What fn returns, computed in a child process with a machine of that seed and checks. */
static inline uint64_t in_child(uint64_t seed, const char *checks, uint64_t (*fn)(void)) {
  int ends[2];
  ck_assert_int_eq(pipe(ends), 0);
  (void)fflush(NULL);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (!child) {
    (void)engine_start(seed, checks);
    uint64_t v = fn();
    _exit(write(ends[1], &v, sizeof v) == (ssize_t)sizeof v ? 0 : 1);
  }
  (void)close(ends[1]);
  uint64_t v = 0;
  ssize_t n = read(ends[0], &v, sizeof v);
  (void)close(ends[0]);
  int status = 0;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
  ck_assert_int_eq(n, (ssize_t)sizeof v);
  return v;
}

#endif
