/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver's lock and threads, the set of live handles, and waiting: running the
 * machine until something is done, with other threads let in on the way.
 */
#include "driver.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct driver driver;

/* ---- the lock: first come, first served ----------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static uint64_t tickets, serving; /* guarded by mutex */

static void lock(void) {
  pthread_mutex_lock(&mutex);
  uint64_t mine = tickets++;
  while (mine != serving)
    pthread_cond_wait(&turn, &mutex);
  pthread_mutex_unlock(&mutex);
}

static void unlock(void) {
  pthread_mutex_lock(&mutex);
  serving++;
  pthread_cond_broadcast(&turn);
  pthread_mutex_unlock(&mutex);
}

/* Does another thread want the lock that this one holds? */
static bool contended(void) {
  return __atomic_load_n(&tickets, __ATOMIC_RELAXED) - __atomic_load_n(&serving, __ATOMIC_RELAXED) >
         1;
}

/* ---- threads ---------------------------------------------------------------------- */

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static unsigned thread_ids;

static void thread_exit(void *t) {
  free(t);
}

/* After a fork every call is an error, also when another thread held the lock. */
static void child_unlocked(void) {
  mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  turn = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
  tickets = serving = 0;
}

static void threads_start(void) {
  pthread_key_create(&thread_key, thread_exit);
  pthread_atfork(NULL, NULL, child_unlocked);
}

struct thread *thread_get(void) {
  pthread_once(&thread_once, threads_start);
  struct thread *t = pthread_getspecific(thread_key);
  if (!t) {
    t = calloc(1, sizeof *t);
    if (!t)
      abort(); /* nothing can be answered without it */
    t->id = __atomic_add_fetch(&thread_ids, 1, __ATOMIC_RELAXED);
    pthread_setspecific(thread_key, t);
  }
  return t;
}

/* ---- entering ----------------------------------------------------------------------- */

struct guard api_enter(enum enter how) {
  struct guard g = {CUDA_SUCCESS, NULL};
  struct thread *t = thread_get();
  lock();
  if (how == ENTER_any)
    return g;
  if (!driver.initialized || driver.pid != (long)getpid())
    g.result = CUDA_ERROR_NOT_INITIALIZED;
  else if (t->depth)
    g.ctx = t->stack[t->depth - 1];
  if (!g.result && how >= ENTER_context) {
    if (!g.ctx)
      g.result = CUDA_ERROR_INVALID_CONTEXT;
    else if (!handle_is(g.ctx, HANDLE_context))
      g.result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    else
      g.result = g.ctx->error;
    if (!g.result && how == ENTER_unsafe)
      g.result = capture_unsafe();
  }
  if (g.result)
    unlock(); /* the caller returns before its guard would do it */
  return g;
}

void api_leave(struct guard *g) {
  if (g->result == CUDA_SUCCESS)
    unlock();
}

/* ---- waiting --------------------------------------------------------------------------- */

struct waiting {
  bool (*done)(void *arg);
  void *arg;
};

static bool value_ready(const struct op *o) {
  uint64_t is = 0, want = o->work.value.value;
  struct access a = host_access(o->work.ctx);
  a.sem = SEM_acquire;
  a.scope = SCOPE_sys;
  if (!mem_load(&a, SPACE_global, o->work.value.address, o->work.value.bytes, o->work.value.bytes,
                &is, NULL))
    return false;
  if (o->work.value.bytes == 4) {
    switch (o->work.value.flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return (int32_t)((uint32_t)is - (uint32_t)want) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return (uint32_t)is == (uint32_t)want;
    case CU_STREAM_WAIT_VALUE_AND:
      return ((uint32_t)is & (uint32_t)want) != 0;
    default:
      return (uint32_t) ~(is | want) != 0;
    }
  }
  switch (o->work.value.flags & 3) {
  case CU_STREAM_WAIT_VALUE_GEQ:
    return (int64_t)(is - want) >= 0;
  case CU_STREAM_WAIT_VALUE_EQ:
    return is == want;
  case CU_STREAM_WAIT_VALUE_AND:
    return (is & want) != 0;
  default:
    return ~(is | want) != 0;
  }
}

/* Completes the value waits whose word has come; true if there was one. */
static bool values_step(void) {
  bool any = false;
  for (struct op **p = &driver.values; *p;) {
    struct op *o = *p;
    if (!o->dropped && !value_ready(o)) {
      p = &o->queue;
      continue;
    }
    *p = o->queue;
    any = true;
    op_done(o);
    op_unref(o);
    p = &driver.values; /* op_done may have added to the list */
  }
  return any;
}

/* Runs the host functions whose turn it is, without the lock. */
static bool host_step(void) {
  struct op *o = driver.host_first;
  if (!o)
    return false;
  driver.host_first = o->queue;
  if (!driver.host_first)
    driver.host_last = NULL;
  if (!o->dropped) {
    unlock();
    if (o->work.host.callback)
      o->work.host.callback(o->work.host.stream, CUDA_SUCCESS, o->work.host.data);
    else
      o->work.host.fn(o->work.host.data);
    lock();
  } else if (o->work.host.callback) { /* a callback, unlike a host function, is told of errors */
    CUresult error = o->work.ctx->error;
    unlock();
    o->work.host.callback(o->work.host.stream, error, o->work.host.data);
    lock();
  }
  if (o->state != OP_done)
    op_done(o);
  op_unref(o);
  return true;
}

static bool must_stop(void *arg) {
  struct waiting *w = arg;
  if (w->done(w->arg) || driver.host_first || contended())
    return true;
  for (struct op *o = driver.values; o; o = o->queue)
    if (o->dropped || value_ready(o))
      return true;
  return false;
}

/* Ops that the machine itself will complete. */
static bool machine_busy(void) {
  for (struct op *o = driver.ops; o; o = o->next)
    if (o->state == OP_running && o->work.kind != WORK_host && o->work.kind != WORK_wait_value)
      return true;
  return false;
}

static uint64_t wall_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Nothing in this thread's sight can move: leave the others a moment to call. */
static void let_others(void) {
  unlock();
  struct timespec nap = {0, 1000000};
  nanosleep(&nap, NULL);
  lock();
}

/* Does the process have other threads, whether or not they have called the driver yet? */
static bool other_threads(void) {
  char line[128];
  int n = 2; /* not to be found out: suppose so */
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f))
    if (!strncmp(line, "Threads:", 8)) {
      n = atoi(line + 8);
      break;
    }
  if (f)
    fclose(f);
  return n > 1;
}

/* Grids that can go no further by themselves may be waiting for what another thread is
 * about to enqueue, or another process to write: so long as the machine's patience lasts. */
static bool others_may_help(void) {
  return driver.shared || other_threads();
}

CUresult drive(bool (*done)(void *arg), void *arg) {
  struct waiting w = {done, arg};
  uint64_t stuck = 0;
  bool patient = others_may_help(), let_in = false;
  while (!done(arg)) {
    if (host_step() || values_step()) {
      patient = others_may_help();
      stuck = 0;
      continue;
    }
    /* Once before each piece of work: of two threads that wait here neither would do any. */
    if (!let_in && contended()) {
      unlock();
      lock();
      let_in = true;
      continue;
    }
    let_in = false;
    grids_free();
    bool busy = machine_busy();
    if (busy && !patient && !driver.values) { /* runs on, or reports that no progress is possible */
      machine_run(driver.m, must_stop, &w);
      continue;
    }
    driver.m->activity++; /* those who poll look again: others write memory unseen */
    uint64_t activity = driver.m->activity, now = driver.m->now;
    if (busy)
      machine_poll(driver.m);
    if (driver.m->activity != activity) {
      stuck = 0;
      continue;
    }
    if (!stuck)
      stuck = wall_ms();
    if (wall_ms() - stuck > driver.m->patience * UINT64_C(1000)) {
      stuck = 0;
      if (busy) {
        machine_run(driver.m, must_stop, &w);
        continue;
      }
      complain("waited %u s for what nothing completes (a value that nobody writes, or the devices "
               "of a multicast object that nobody adds)",
               driver.m->patience);
      return CUDA_ERROR_LAUNCH_TIMEOUT;
    }
    if (driver.m->now - now < 256) { /* else it computes, or counts down a time limit */
      let_others();
      patient = others_may_help();
    }
  }
  grids_free();
  return CUDA_SUCCESS;
}

void drive_some(void) {
  if (machine_busy()) {
    driver.m->activity++; /* the host may have written what a kernel polls */
    machine_poll(driver.m);
  }
  while (host_step() || values_step())
    ;
  grids_free();
}

/* ---- handles ------------------------------------------------------------------------------ */

static struct {
  struct {
    const void *handle;
    enum handle_kind kind;
  } *at;
  size_t size, used; /* size: a power of two; used counts tombstones too */
} table;
static const char tombstone;

static size_t slot_of(const void *h) {
  uint64_t x = (uintptr_t)h;
  x ^= x >> 31;
  x *= 0x9e3779b97f4a7c15ull;
  return (size_t)(x >> 20) & (table.size - 1);
}

bool handle_add(const void *handle, enum handle_kind kind) {
  if (table.used * 2 >= table.size) {
    size_t old = table.size;
    void *from = table.at;
    table.size = old ? old * 2 : 256;
    table.at = calloc(table.size, sizeof *table.at);
    if (!table.at) {
      table.at = from;
      table.size = old;
      return false;
    }
    table.used = 0;
    struct {
      const void *handle;
      enum handle_kind kind;
    } *entry = from;
    for (size_t i = 0; i < old; i++)
      if (entry[i].handle && entry[i].handle != &tombstone)
        handle_add(entry[i].handle, entry[i].kind);
    free(from);
  }
  size_t i = slot_of(handle);
  while (table.at[i].handle)
    i = (i + 1) & (table.size - 1);
  table.at[i].handle = handle;
  table.at[i].kind = kind;
  table.used++;
  return true;
}

void handle_remove(const void *handle) {
  if (!table.size)
    return;
  for (size_t i = slot_of(handle); table.at[i].handle; i = (i + 1) & (table.size - 1))
    if (table.at[i].handle == handle) {
      table.at[i].handle = &tombstone;
      return;
    }
}

bool handle_is(const void *handle, enum handle_kind kind) {
  if (!handle || !table.size)
    return false;
  for (size_t i = slot_of(handle); table.at[i].handle; i = (i + 1) & (table.size - 1))
    if (table.at[i].handle == handle)
      return table.at[i].kind == kind;
  return false;
}

/* ---- what is lacking ----------------------------------------------------------------------- */

void complain(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  fputs("barewarp emulated driver: ", stderr);
  vfprintf(stderr, fmt, ap);
  fputc('\n', stderr);
  va_end(ap);
}

CUresult lacking(const char *what) {
  static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER; /* stubs hold no other lock */
  static const char *said[512];                              /* string constants */
  static unsigned n;
  pthread_mutex_lock(&naming);
  unsigned i = 0;
  while (i < n && strcmp(said[i], what) != 0)
    i++;
  if (i == n && n < sizeof said / sizeof *said) {
    said[n++] = what;
    complain("%s is not supported", what);
  }
  pthread_mutex_unlock(&naming);
  return CUDA_ERROR_NOT_SUPPORTED;
}
