/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver layer: what the exported functions of the CUDA Driver API share.
 *
 * Everything a stream can be given is a `struct work`: a description that owns its
 * data.  Enqueued on a stream it becomes an `op`, a node of the graph of dependences
 * that the machine works off; captured it becomes a graph node, and each launch of the
 * instantiated graph makes ops of the nodes' work again.  So streams, graphs and
 * programmatic dependent launch share one mechanism.
 *
 * Threads.  One lock, first come first served, is held by every exported function
 * (API_ENTER).  A call that waits runs the machine while it holds the lock and lets
 * others in whenever they queue up; host functions of the client run without it.
 *
 * Processes.  Nothing is created before cuInit, so a process may fork before its first
 * call; a child of a process that has called cuInit gets CUDA_ERROR_NOT_INITIALIZED, as
 * on hardware.
 */
#ifndef EMU_DRIVER_H
#define EMU_DRIVER_H

#include "../engine/order.h"

#include <cuda.h>

#define EMU_VERSION        "barewarp emulated driver 0.1"
#define EMU_DRIVER_VERSION 13000
#define MAX_DEVICES        16

/* ---- work and ops ------------------------------------------------------------- */

enum work_kind {
  WORK_empty,
  WORK_kernel,
  WORK_copy,
  WORK_set,
  WORK_host,
  WORK_event_record,
  WORK_event_wait, /* in graphs alone: an event outside of it */
  WORK_child,      /* in graphs alone */
  WORK_wait_value,
  WORK_write_value,
  WORK_free
};

struct launch {
  CUfunction fn;
  uint32_t grid[3], block[3], cluster[3];
  uint32_t shared; /* dynamic, bytes */
  bool programmatic, cooperative;
  int priority;
  uint8_t *params; /* owned; fn's param_bytes */
};

/* A box of depth x height rows of `width` bytes.  Addresses are of its first byte. */
struct copy {
  uint64_t dst, src;
  bool dst_host, src_host; /* ordinary host memory, not known to the driver */
  uint8_t *staged;         /* owned copy of ordinary host memory, instead of src */
  size_t width, height, depth;
  size_t dst_pitch, src_pitch, dst_slice, src_slice;
  CUDA_MEMCPY3D asked; /* for cuGraphMemcpyNodeGetParams */
};

struct set {
  uint64_t dst;
  uint32_t value, element; /* bytes: 1, 2, 4 */
  size_t pitch, width, height;
};

struct work {
  enum work_kind kind;
  CUcontext ctx;
  union {
    struct launch launch;
    struct copy copy;
    struct set set;
    struct {
      CUhostFn fn;
      CUstreamCallback callback; /* cuStreamAddCallback's, instead of fn */
      CUstream stream;
      void *data;
    } host;
    CUevent event;
    struct CUgraph_st *child; /* owned clone */
    struct {
      uint64_t address, value;
      uint32_t bytes, flags;
    } value;
    uint64_t address; /* WORK_free */
  };
};
CUresult work_copy(struct work *to, const struct work *from);
void work_clear(struct work *w);

struct op;
struct edge {
  struct op *to;
  bool programmatic;
};

enum op_state { OP_blocked, OP_running, OP_done };

struct op {
  struct event event;       /* the machine's: copies and the like complete later */
  struct order_point point; /* for the order of accesses */
  int refs;
  struct work work;
  enum op_state state;
  bool triggered; /* programmatic dependents may start */
  bool retired;   /* done, and so is everything it depends on programmatically */
  bool dropped;   /* never executed: its context failed */
  uint32_t unmet; /* prerequisites that still hold it back */
  struct edge *out;
  uint32_t nout;
  struct op **pre; /* programmatic prerequisites, referenced */
  uint32_t npre;
  uint64_t time; /* virtual time at which it was done */
  struct grid *grid;
  struct op *next, **prev; /* in the list of all unretired ops */
  struct op *queue;        /* in the queue of host functions or value waits */
};

struct op *op_new(struct work *w); /* takes the work over */
void op_ref(struct op *o);
void op_unref(struct op *o);
void op_depend(struct op *o, struct op *on, bool programmatic);
/* The host has waited for it, or asked and heard that it is done. */
void op_waited(const struct op *o);
CUresult op_submit(struct op *o);
void op_done(struct op *o);
void op_triggered(struct grid *g, void *arg); /* the machine's callbacks, arg: the op */
void op_complete(struct grid *g, void *arg);
void grids_free(void);

/* ---- objects behind the handles -------------------------------------------------- */

enum handle_kind {
  HANDLE_context = 1,
  HANDLE_stream,
  HANDLE_event,
  HANDLE_module,
  HANDLE_function,
  HANDLE_library,
  HANDLE_kernel,
  HANDLE_graph,
  HANDLE_node,
  HANDLE_exec,
  HANDLE_pool,
  HANDLE_allocation,
  HANDLE_user_object
};
/* The set of live handles: a stale or wild one is an error, never a crash. */
bool handle_add(const void *handle, enum handle_kind kind);
void handle_remove(const void *handle);
bool handle_is(const void *handle, enum handle_kind kind);

struct CUctx_st {
  int ordinal;
  bool primary;
  uint64_t id;
  unsigned flags, retained;
  CUresult error; /* sticky */
  CUstream legacy;
  struct CUstream_st *streams; /* all of the context's, the legacy one included */
  struct CUmod_st *modules;
  size_t limit[CU_LIMIT_MAX];
  CUfunc_cache cache;
  uint32_t peers; /* bit per device whose memory is accessible */
  CUcontext next;
};

struct capture;
struct CUgraphNode_st;
struct dependence {
  struct CUgraphNode_st *node;
  CUgraphEdgeData edge;
};
struct dependences {
  struct dependence *at;
  size_t n;
};

struct CUstream_st {
  CUcontext ctx;
  uint64_t id;
  uint32_t timeline; /* for the order of accesses */
  unsigned flags;
  int priority;
  bool legacy;
  unsigned thread; /* a per-thread default stream: whose; else 0 */
  struct op *tail; /* the last op enqueued */
  struct capture *capture;
  struct dependences captured; /* what the next captured node depends on */
  CUlaunchAttributeValue attr[17];
  struct CUstream_st *next;
};

struct CUevent_st {
  CUcontext ctx;
  unsigned flags;
  struct op *op; /* of the last record, NULL: never recorded */
  struct capture *capture;
  struct dependences captured;
  struct CUevent_st *next;
};

struct CUfunc_st {
  struct CUmod_st *module;
  struct function *fn;
  struct CUkern_st *kernel; /* the library's, or NULL */
  uint32_t max_dynamic;
  int carveout;
  bool non_portable;
  int scheduling;
};

struct CUmod_st {
  CUcontext ctx;
  struct module *ptx;
  struct mem **var; /* of ptx->var */
  struct CUfunc_st *fn;
  uint32_t nfn;
  struct CUlib_st *library;
  struct CUmod_st *next;
};

struct CUkern_st {
  struct CUlib_st *library;
  const char *name;
  uint32_t index;
  struct {
    uint32_t max_dynamic;
    int carveout;
    bool non_portable;
    int scheduling;
  } set[MAX_DEVICES];
};

struct CUlib_st {
  char *text;         /* NULL: a binary, which has no code for any emulated device */
  struct module *ptx; /* parsed once for names and attributes */
  struct CUkern_st *kernel;
  uint32_t nkernel;
};

/* ---- the driver's state ------------------------------------------------------------ */

struct driver {
  struct machine *m;
  bool initialized;
  long pid; /* that called cuInit */
  uint64_t next_id;
  struct CUctx_st *primary[MAX_DEVICES];
  unsigned primary_flags[MAX_DEVICES];
  struct CUctx_st *contexts;
  struct CUevent_st *events;
  struct op *ops;                    /* unretired */
  struct op *host_first, *host_last; /* host functions whose turn it is */
  struct op *values;                 /* value waits */
  struct grid *grids_over;           /* to be freed outside of the machine's callbacks */
  struct capture *captures;
  bool shared; /* memory is shared with other processes */
};
extern struct driver driver;

struct thread {
  unsigned id;
  CUcontext stack[64];
  unsigned depth;
  bool per_thread; /* this call came through a _ptsz or _ptds name */
  CUstreamCaptureMode capture_mode;
};
struct thread *thread_get(void);

/* ---- entering and waiting ------------------------------------------------------------ */

struct guard {
  CUresult result;
  CUcontext ctx;
};
enum enter {
  ENTER_any,     /* before cuInit too */
  ENTER_init,    /* after cuInit */
  ENTER_context, /* with a current context that has not failed */
  ENTER_unsafe   /* the same; not during a stream capture that forbids such calls */
};
struct guard api_enter(enum enter how);
void api_leave(struct guard *g);
/* Opens an exported function: `guard.ctx` is the current context. */
#define API(how)                                                                                   \
  __attribute__((cleanup(api_leave))) struct guard guard = api_enter(how);                         \
  if (guard.result != CUDA_SUCCESS)                                                                \
  return guard.result

/* Runs the machine and host functions until done(arg).  CUDA_ERROR_LAUNCH_FAILED when
 * nothing can make progress. */
CUresult drive(bool (*done)(void *arg), void *arg);
/* Makes bounded progress: queries. */
void drive_some(void);
bool context_idle(void *ctx);
CUresult context_sync(CUcontext ctx);
/* The context's sticky error, looked up after work was done. */
CUresult context_error(CUcontext ctx);
void context_fail(CUcontext ctx, CUresult error);

/* "Not supported": named once on stderr. */
CUresult lacking(const char *what);
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- streams and enqueueing --------------------------------------------------------- */

CUstream stream_new(CUcontext ctx, unsigned flags, int priority);
/* NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD resolved; sets *r when invalid. */
CUstream stream_resolve(CUstream s, CUcontext current, CUresult *r);
void stream_free(CUstream s);
bool stream_idle(void *stream);
bool op_idle(void *op);
/* Takes the work over: captured, or made an op of the stream. */
CUresult enqueue(CUstream s, struct work *w);
/* As above, and waits for it when it was not captured. */
CUresult enqueue_wait(CUstream s, struct work *w);
/* A new op's dependences on what its stream holds. */
void stream_order(CUstream s, struct op *o);
void stream_push(CUstream s, struct op *o);

/* ---- capture ------------------------------------------------------------------------- */

CUresult capture_add(CUstream s, struct work *w);
/* May this thread make a call that a capture in progress forbids?  Invalidates it. */
CUresult capture_unsafe(void);
/* For a call that a capturing stream (or any of its context) does not allow. */
CUresult capture_refuse(CUcontext ctx, CUstream s, CUresult r);
CUresult capture_legacy_check(CUcontext ctx);
void capture_forget_event(CUevent e);
void capture_forget_stream(CUstream s);
bool dependences_add(struct dependences *d, struct dependence x);
void dependences_clear(struct dependences *d);

/* ---- contexts, memory, modules, launches ---------------------------------------------- */

struct device *device_of(CUcontext ctx);
bool ordinal_valid(CUdevice dev);

CUresult context_new(CUcontext *out, int ordinal, unsigned flags, bool primary);
void context_free(CUcontext ctx);

enum memory_kind {
  MEMORY_device,
  MEMORY_host,
  MEMORY_registered,
  MEMORY_pool,
  MEMORY_managed,
  MEMORY_module,
  MEMORY_mapped
};
struct memory {
  struct mem *mem;
  enum memory_kind kind;
  CUcontext ctx;
  unsigned flags;
  uint64_t id;
  bool freeing; /* cuMemFreeAsync enqueued */
  CUmemoryPool pool;
};
/* The live allocation that holds the address, or NULL. */
struct memory *memory_find(uint64_t address);
struct memory *memory_alloc(CUcontext ctx, size_t size, enum memory_kind kind, const char *what);
struct memory *memory_add(struct mem *mem, CUcontext ctx, enum memory_kind kind);
void memory_free(struct memory *m);
void memory_free_context(CUcontext ctx);
/* Is [address, address + size) the driver's memory throughout? */
bool memory_covers(uint64_t address, size_t size);
void copy_run(struct op *o);
void set_run(struct op *o);
CUresult copy_from_3d(struct work *w, const CUDA_MEMCPY3D *p);
CUresult set_work(struct work *w, CUcontext ctx, uint64_t dst, size_t pitch, uint32_t value,
                  uint32_t element, size_t width, size_t height);
struct access host_access(CUcontext ctx);

CUresult module_new(CUmodule *out, CUcontext ctx, const char *text, struct CUlib_st *lib, char *err,
                    size_t err_size);
void module_free(CUmodule m);
/* A CUfunction, or a CUkernel given in its place; NULL and *r if neither. */
CUfunction function_resolve(CUfunction f, CUcontext ctx, CUresult *r);
uint32_t function_registers(const struct function *fn);
CUresult function_attribute(const struct CUfunc_st *f, CUfunction_attribute a, int *out);

CUresult launch_work(struct work *w, const CUlaunchConfig *c, CUfunction f, void **params,
                     void **extra, CUcontext ctx);
CUresult launch_submit(struct op *o);
int blocks_per_sm(const CUfunction f, uint32_t threads, size_t dynamic);

/* Runs child graphs and instantiated graphs: see graph_exec.c. */
CUresult graph_clone(CUgraph *out, CUgraph g);
void graph_free(CUgraph g);

#endif
