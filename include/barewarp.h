/* SPDX-License-Identifier: Apache-2.0
 *
 * barewarp: LLM decode kernels written in PTX, shipped as cubins, launched over
 * the CUDA Driver API.  The only header an engine needs; it includes neither
 * cuda.h nor anything of the CUDA runtime, and the library links to neither.
 *
 * Life of a program
 *   bundle  bw_bundle_open          the kernels (NULL: those embedded here)
 *   device  bw_device_open          a driver, a context, the bundle's code for it
 *   plan    bw_wo_a_plan_create     one layer's weights; validates, loads, encodes
 *   launch  bw_wo_a_launch          one call per layer and step
 * and between ranks
 *   mailbox bw_mailbox_create       shared memory of all ranks, set up in rounds
 *   plan    bw_up_proj_plan_create  produces into it; bw_lamport_copy_launch consumes
 *
 * Ownership.  Every object holds a reference to what it was made from, so objects
 * may be released in any order.  No object is tied to the thread that made it.
 *
 * Errors.  Every function that can fail returns a bw_status.  Anything but BW_OK
 * (and BW_MORE) means that nothing was launched, kept or changed, *out neither (an error of
 * bw_mailbox_round ends the set-up); bw_last_error() then says which argument was wrong, what
 * it was and what is allowed.  BW_ERROR_INVALID_ARGUMENT, for instance for a NULL, and
 * BW_ERROR_NO_MEMORY are not listed at each function.  What closes, destroys or frees takes
 * NULL and does nothing.
 *
 * Threads.  All functions may be called from any thread.  Launching from several
 * threads at once, on one plan too, is allowed.  What must not happen beside a
 * launch on the same plan is said at the function (updating or destroying it).
 */
#ifndef BAREWARP_H
#define BAREWARP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(BW_BUILD_SHARED) && defined(__GNUC__)
#define BW_API __attribute__((visibility("default")))
#else
#define BW_API
#endif

#define BW_VERSION_MAJOR 0
#define BW_VERSION_MINOR 1
#define BW_VERSION_PATCH 0

/* ---- status ------------------------------------------------------------- */

typedef enum bw_status {
  BW_OK = 0,
  BW_ERROR_INVALID_ARGUMENT = 1, /* a value outside its range, named in the text */
  BW_ERROR_UNSUPPORTED = 2,      /* valid, but this bundle or device cannot do it */
  BW_ERROR_NO_DRIVER = 3,        /* no driver library, or one that is too old */
  BW_ERROR_NO_DEVICE = 4,        /* no such device, or no code for it in the bundle */
  BW_ERROR_DRIVER = 5,           /* a driver call failed: see bw_last_curesult() */
  BW_ERROR_BUNDLE = 6,           /* truncated, corrupted, or of another version */
  BW_ERROR_IO = 7,               /* a file could not be read or written */
  BW_ERROR_NO_MEMORY = 8,        /* host memory */
  BW_ERROR_STATE = 9,            /* a call at the wrong time */
  BW_MORE = 10                   /* no error: bw_mailbox_round wants to be called again */
} bw_status;

/* The status in words, a static string; never NULL. */
BW_API const char *bw_status_text(bw_status status);

/* What the last failed call of this thread has to say: one line, valid until the
 * thread's next failing call; "" if none failed. */
BW_API const char *bw_last_error(void);

/* The CUresult behind this thread's last failed call, 0 if it was not the driver's. */
BW_API int bw_last_curesult(void);

/* "MAJOR.MINOR.PATCH" of the library in use. */
BW_API const char *bw_version(void);

/* ---- handles of the CUDA Driver API, without its header ------------------ */

/* CUstream.  NULL is the default stream of the device's context. */
typedef struct CUstream_st *bw_stream;
/* CUdeviceptr: an address in the device's memory. */
typedef uint64_t bw_devptr;

/* ---- bundle -------------------------------------------------------------- */

typedef struct bw_bundle bw_bundle;

/* Opens a bundle file; path NULL: the bundle embedded in the library.  The whole
 * file is read and verified (checksums of index and payload) before this returns, so
 * it may be replaced or removed afterwards.
 * BW_ERROR_IO: the file cannot be read.  BW_ERROR_BUNDLE: it is truncated,
 * corrupted, of another version or byte order (the text names the entry); or path is
 * NULL and this build of the library embeds none. */
BW_API bw_status bw_bundle_open(const char *path, bw_bundle **out);

/* The same from memory, which must stay valid and unchanged until the bundle and
 * every device opened from it are gone.  No alignment is needed. */
BW_API bw_status bw_bundle_open_memory(const void *data, size_t size, bw_bundle **out);

/* Releases the bundle; devices opened from it keep it. */
BW_API void bw_bundle_close(bw_bundle *bundle);

/* One compiled specialization.  Strings live as long as the bundle. */
typedef struct bw_kernel_info {
  const char *family;                     /* "wo_a" */
  const char *arch;                       /* "sm_100f" */
  const char *key;                        /* "t28x2r_h8": see bw_wo_a_key_name */
  const char *symbol;                     /* the entry point in the cubin */
  const char *ptxas;                      /* version and flags that made the cubin */
  uint32_t registers;                     /* per thread */
  uint32_t shared_static, shared_dynamic; /* bytes per CTA */
  uint32_t barriers;                      /* named barriers in use */
  uint32_t threads;                       /* per CTA */
  uint32_t cluster;                       /* CTAs per cluster */
  uint32_t code_bytes;                    /* machine code */
  bool waits; /* executes griddepcontrol.wait: may carry the PDL attribute */
} bw_kernel_info;

/* The number of specializations, and one of them, index below that number. */
BW_API size_t bw_bundle_count(const bw_bundle *bundle);
BW_API bw_status bw_bundle_kernel(const bw_bundle *bundle, size_t index, bw_kernel_info *out);

/* The entry's PTX (NUL-terminated text) or cubin, freshly allocated; release with
 * bw_free.  size excludes the NUL and may be NULL.  BW_ERROR_BUNDLE: it does not unpack. */
BW_API bw_status bw_bundle_ptx(const bw_bundle *bundle, size_t index, char **text, size_t *size);
BW_API bw_status bw_bundle_cubin(const bw_bundle *bundle, size_t index, void **cubin, size_t *size);
BW_API void bw_free(void *memory);

/* ---- device -------------------------------------------------------------- */

typedef struct bw_device bw_device;

#define BW_DEVICE_CURRENT (-1) /* the context current to the calling thread */

/* Binds a bundle to a device of a driver.
 *   driver   NULL: BAREWARP_DRIVER if set, else the system's driver.
 *            "cuda": the system's.  "emu": the emulated driver (found beside the
 *            library, or at BAREWARP_EMU).  Else the path of a driver library, with a /.
 *   ordinal  a device ordinal (its primary context is retained), or
 *            BW_DEVICE_CURRENT to use the calling thread's current context, which must
 *            then outlive the device and all its plans.
 * Open it once per context and share it: plans of one bw_device share loaded kernels.
 * BAREWARP_DEBUG is looked at here, once.
 * BW_ERROR_NO_DRIVER, BW_ERROR_NO_DEVICE (no such ordinal; or the bundle has no code
 * for this compute capability: the text names both), BW_ERROR_STATE
 * (BW_DEVICE_CURRENT, but no context is current). */
BW_API bw_status bw_device_open(bw_bundle *bundle, const char *driver, int ordinal,
                                bw_device **out);
/* Kernels stay loaded until the device and all its plans are released.  The last
 * release waits for the context's work and unloads them: from then on a graph captured
 * from their launches must not be launched. */
BW_API void bw_device_close(bw_device *device);

typedef struct bw_device_info {
  char name[128];
  int ordinal;
  int compute_major, compute_minor;
  int multiprocessors;
  size_t memory;      /* bytes */
  const char *arch;   /* the bundle's architecture chosen for it */
  const char *driver; /* "cuda", "emu" or the path */
  int driver_version; /* as cuDriverGetVersion: 13000 */
  bool emulated;
} bw_device_info;
/* What is known since it was opened; asks no driver.  Strings live as long as the device. */
BW_API bw_status bw_device_query(const bw_device *device, bw_device_info *out);

/* ---- launch flags -------------------------------------------------------- */

enum {
  /* Launch without the programmatic-stream-serialization attribute: the kernel
   * starts when the stream's earlier work has completed.  For the first launch
   * after weights were rewritten in place. */
  BW_LAUNCH_NO_PDL = 1u << 0,
  /* Where the kernel lets its dependents start; at most one of the three.  Default: late
   * for wo_a on sm_100f, after the wait for every other kernel.  In up_proj and
   * lamport_copy late means that the results are stored. */
  BW_LAUNCH_TRIGGER_ENTRY = 1u << 1,      /* kernels with TMEM: right after its alloc */
  BW_LAUNCH_TRIGGER_AFTER_WAIT = 1u << 2, /* right after griddepcontrol.wait */
  BW_LAUNCH_TRIGGER_LATE = 1u << 3        /* when the last stage's operands are in */
};

/* ---- wo_a: inverse RoPE + MXFP8 quantization + grouped WO-A GEMM ---------- */

#define BW_WO_A_HEAD_DIM   512u /* 448 plain + 64 rotary elements */
#define BW_WO_A_ROPE_DIM   64u  /* a rope row: 32 cosines, then 32 sines */
#define BW_WO_A_MAX_TOKENS 128u /* rows of a scale tile */

/* Sizes.  G groups of H heads, R output rows per group; N = G*R outputs (at most
 * 2^29) of K = H*512 inputs each. */
typedef struct bw_wo_a_shape {
  uint32_t groups;          /* G, 1.. */
  uint32_t heads_per_group; /* H, 1..8: those the bundle has (1, 2, 4, 8) */
  uint32_t lora_rank;       /* R, a multiple of 128 */
  uint32_t max_tokens;      /* largest T a launch may ask for, 1..128 */
} bw_wo_a_shape;

enum {
  /* Load weights and scales only after griddepcontrol.wait: for callers that let
   * another kernel of the stream write them. */
  BW_WO_A_WEIGHTS_AFTER_WAIT = 1u << 0
};

typedef struct bw_wo_a_config {
  bw_wo_a_shape shape;
  /* e4m3fn [N, K], row-major, 16-byte aligned. */
  bw_devptr weight;
  /* int32 [G, R, K/128] with element strides (R*K/128, 1, R): rows run fastest.
   * Byte j of the word of column block c is the ue8m0 scale of
   * k in [128c + 32j, 128c + 32j + 32).  16-byte aligned. */
  bw_devptr weight_scale;
  uint32_t flags; /* BW_WO_A_* */
} bw_wo_a_config;

typedef struct bw_wo_a_plan bw_wo_a_plan;

/* Answers without launching or loading whether shape runs on device.  BW_OK, or
 * BW_ERROR_INVALID_ARGUMENT / BW_ERROR_UNSUPPORTED with the reason in
 * bw_last_error(). */
BW_API bw_status bw_wo_a_supported(const bw_device *device, const bw_wo_a_shape *shape);

/* Validates everything (as far as the driver can tell, also that weight and
 * weight_scale are memory of this device and large enough), encodes the tensor maps and
 * loads every kernel the plan can dispatch to; nothing is left for the first launch,
 * which may be captured.  Weights stay the caller's and must outlive the plan's last
 * launch.  May be called while streams are being captured.
 * BW_ERROR_INVALID_ARGUMENT, BW_ERROR_UNSUPPORTED, BW_ERROR_BUNDLE (made for another
 * version of this library), BW_ERROR_DRIVER. */
BW_API bw_status bw_wo_a_plan_create(bw_device *device, const bw_wo_a_config *config,
                                     bw_wo_a_plan **out);

/* Points the plan at weights that moved (same shape).  Not beside a launch on this
 * plan; a captured graph keeps the old addresses.  Errors as bw_wo_a_plan_create; the plan
 * then keeps the old ones. */
BW_API bw_status bw_wo_a_plan_update(bw_wo_a_plan *plan, bw_devptr weight, bw_devptr weight_scale);

/* Not while a launch call on this plan is under way.  Work already launched need
 * not have finished, and graphs captured from the plan stay good while the device is
 * open. */
BW_API void bw_wo_a_plan_destroy(bw_wo_a_plan *plan);

typedef struct bw_wo_a_args {
  /* bf16 [T, G*H, 512], head stride 512, 16-byte aligned; not yet rotated back. */
  bw_devptr x;
  /* Elements from one token to the next: a multiple of 8, G*H*512..2^48. */
  uint64_t x_token_stride;
  /* int64 [T], contiguous, 8-byte aligned; 0 <= position < rows of rope. */
  bw_devptr positions;
  /* f32 [P, 64]: 32 cosines, then 32 sines; 16-byte aligned. */
  bw_devptr rope;
  /* out: e4m3fn [T, N], contiguous, 16-byte aligned. */
  bw_devptr q;
  /* out: ue8m0, 128*N/32 bytes in the F8_128x4 layout: the scale of (token t,
   * column n) at j*512 + (t%32)*16 + (t/32)*4 + (n%128)/32 with j = n/128.
   * Rows t >= T are written 0.  16-byte aligned. */
  bw_devptr qs;
  uint32_t tokens; /* T, 0..max_tokens; 0 launches nothing and writes nothing */
  uint32_t flags;  /* BW_LAUNCH_* */
} bw_wo_a_args;

/* Enqueues one call on stream (of the plan's device).  Allocates nothing, takes no
 * lock, never synchronizes, may be captured, works whatever context is current and
 * leaves it current.  With BAREWARP_DEBUG=1 the stream's context and the operands'
 * device and extent are checked too (of rope, its first row).  The outputs must not
 * overlap each other or an input (not checked).  With tokens 0 the operands may be NULL.
 * BW_ERROR_INVALID_ARGUMENT; BW_ERROR_DRIVER, also for a failure of earlier work that the
 * driver only reports now.
 *
 * PDL.  The launch carries the programmatic-stream-serialization attribute unless
 * BW_LAUNCH_NO_PDL is given.  Before its griddepcontrol.wait the kernel reads
 * weight and weight_scale only (nothing, with BW_WO_A_WEIGHTS_AFTER_WAIT); it
 * writes nothing.  So these two must not be written by any grid of the stream that
 * may still be running. */
BW_API bw_status bw_wo_a_launch(const bw_wo_a_plan *plan, const bw_wo_a_args *args,
                                bw_stream stream);

/* Bytes of q for `tokens` tokens, 0..max_tokens, and of qs (which has room for 128 tokens
 * always).  Either pointer may be NULL. */
BW_API bw_status bw_wo_a_output_sizes(const bw_wo_a_shape *shape, uint32_t tokens, size_t *q_bytes,
                                      size_t *qs_bytes);

/* What a token count dispatches to: a pure function of host integers. */
typedef struct bw_wo_a_key {
  uint32_t tile;  /* tokens per tile, 1..32 */
  uint32_t tiles; /* token tiles, 1..4 */
  uint32_t full;  /* 1: tokens is a multiple of tile */
  uint32_t heads_per_group;
} bw_wo_a_key;

/* tokens 1..128, heads_per_group 1..8, whether a bundle has the key or not. */
BW_API bw_status bw_wo_a_dispatch(uint32_t tokens, uint32_t heads_per_group, bw_wo_a_key *out);

/* Every key that 1..max_tokens tokens dispatch to, in order of first use, without
 * duplicates: 46 for 96 tokens, 50 for 128.  Writes at most capacity keys; *count is
 * the full number.  keys may be NULL when capacity is 0. */
BW_API bw_status bw_wo_a_keys(uint32_t max_tokens, uint32_t heads_per_group, bw_wo_a_key *keys,
                              size_t capacity, size_t *count);

#define BW_WO_A_KEY_NAME_SIZE 32
/* The key as it stands in the bundle: t<tile>x<tiles><f|r>_h<heads>, f = full,
 * r = ragged: "t28x2r_h8". */
BW_API bw_status bw_wo_a_key_name(const bw_wo_a_key *key, char name[BW_WO_A_KEY_NAME_SIZE]);

/* ---- mailbox: where every rank's up_proj leaves its columns ---------------
 *
 * Between up_proj and lamport_copy of tp_size ranks.  One step is one up_proj and then
 * one lamport_copy on every rank, with the same number of rows on all; on a rank the
 * steps of a mailbox follow each other on one stream, or on several ordered by events
 * or synchronization.  One mailbox serves all layers in turn.  Kernels of other makers
 * between them that are launched with the PDL attribute must execute
 * griddepcontrol.wait.  Why it works is in ptx/lamport_copy/README.md.
 *
 * Set-up.  Driver calls that could block until another rank has done its part are only
 * made once that rank has said it did.  So a mailbox is set up in rounds: every rank calls
 * bw_mailbox_round, the engine all-gathers the blobs it fills in (MPI, NCCL, ...), every
 * rank calls again with all of them, until it returns BW_OK:
 *
 *     bw_mailbox_create(device, &config, &mailbox);
 *     unsigned char mine[BW_MAILBOX_BLOB_SIZE], all[TP_SIZE][BW_MAILBOX_BLOB_SIZE];
 *     bw_status s = bw_mailbox_round(mailbox, NULL, 0, mine);
 *     while (s == BW_MORE) {
 *       MPI_Allgather(mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, comm);
 *       s = bw_mailbox_round(mailbox, all, TP_SIZE, mine);
 *     }
 *
 * A process that drives several devices calls it for each of its mailboxes before it
 * gathers.  The number of rounds is the same on every rank, whatever happens. */

#define BW_MAILBOX_MAX_RANKS 16u
#define BW_MAILBOX_BLOB_SIZE 512u

typedef enum bw_mailbox_mode {
  /* local if tp_size is 1; else multicast if allowed and possible on every rank, else
   * peers.  The choice is the same on all ranks. */
  BW_MAILBOX_AUTO = 0,
  /* One store reaches every rank (NVSwitch).  Not allowed if tp_size is 1, or if any
   * rank has NCCL_NVLS_ENABLE=0 or BAREWARP_MULTICAST=0 in its environment: then, and if
   * a device lacks it, no cuMulticast call is made on any rank. */
  BW_MAILBOX_MULTICAST = 1,
  /* Every rank's memory mapped on every other: NVLink or PCIe peer access. */
  BW_MAILBOX_PEERS = 2,
  /* Stores go to this rank's own memory only, whatever tp_size is: for one rank, or for
   * an engine (or a test) that fills in the other ranks' columns itself.  The rounds
   * then gather no other blob than its own: n = 1. */
  BW_MAILBOX_LOCAL = 3
} bw_mailbox_mode;

enum {
  /* lamport_copy does everything after its griddepcontrol.wait, polling too.  Then
   * up_proj may be launched with BW_LAUNCH_TRIGGER_ENTRY. */
  BW_MAILBOX_COPY_WAITS_FIRST = 1u << 0
};

/* The same on every rank, but for rank. */
typedef struct bw_mailbox_config {
  uint32_t hidden;   /* columns of a row, a multiple of 8 and of tp_size */
  uint32_t capacity; /* rows of a step at most, 1..; hidden * capacity <= 2^30 */
  uint32_t tp_size;  /* ranks, 1..16 */
  uint32_t rank;     /* this one, 0..tp_size-1 */
  bw_mailbox_mode mode;
  uint32_t flags; /* BW_MAILBOX_* of the enumeration above */
  /* A debugging aid, also set (to 2^22) by BAREWARP_DEBUG=1 at bw_device_open: after so
   * many polls of one 16-byte piece lamport_copy gives up and goes on with what is
   * there; see bw_mailbox_check.  0: it polls for ever. */
  uint32_t poll_limit;
} bw_mailbox_config;

typedef struct bw_mailbox bw_mailbox;

/* Validates config; everything that concerns the device is left to the rounds, so that
 * what fails there is known to all ranks.
 * BW_ERROR_INVALID_ARGUMENT, BW_ERROR_NO_MEMORY. */
BW_API bw_status bw_mailbox_create(bw_device *device, const bw_mailbox_config *config,
                                   bw_mailbox **out);

/* Memory that the engine allocated and shared between the ranks itself. */
typedef struct bw_mailbox_memory {
  /* This rank's ring, at least bw_mailbox_ring_size bytes, 16-byte aligned. */
  bw_devptr ring;
  /* 8 bytes of this rank's device, 8-byte aligned; 0: the library allocates them. */
  bw_devptr counters;
  /* Mode peers: every rank's ring as mapped for this device, peers[rank] = ring. */
  bw_devptr peers[BW_MAILBOX_MAX_RANKS];
  /* Mode multicast: the multicast address whose copies are the ranks' rings. */
  bw_devptr multicast;
} bw_mailbox_memory;

/* A mailbox in memory that the engine already shares; config.mode says how and must not
 * be BW_MAILBOX_AUTO unless tp_size is 1.  It goes through rounds too: each rank arms its
 * own ring, whatever that held, and none may store before all have.  The memory must
 * outlive the mailbox and stays mapped when it is destroyed.
 * The same errors; a pointer that is not aligned is named. */
BW_API bw_status bw_mailbox_adopt(bw_device *device, const bw_mailbox_config *config,
                                  const bw_mailbox_memory *memory, bw_mailbox **out);

/* Bytes of a rank's ring of row generations, for bw_mailbox_adopt. */
BW_API bw_status bw_mailbox_ring_size(const bw_device *device, uint32_t hidden, uint32_t capacity,
                                      size_t *bytes);

/* One round.  First call: blobs_in NULL, n 0.  Every later one: the blobs that the n
 * ranks got from the round before, BW_MAILBOX_BLOB_SIZE bytes each, in any order.
 * blob_out gets this rank's blob.  No alignment is needed.
 *   BW_MORE  gather the blobs and call again
 *   BW_OK    done: plans may be made and launched
 *   else     set-up is over; everything it had made is released.  A rank's own failure
 *            returns BW_MORE and is every rank's error in the next round, in the same
 *            words: "rank 3: ...".  BW_ERROR_INVALID_ARGUMENT: the blobs are no complete
 *            set: their number (it says which rank is missing), a rank given twice, other
 *            sizes or versions of the library, another round, another configuration.
 * Neither waits for another rank nor makes a driver call that can, except: fetching a
 * descriptor that the rank says it sent takes at most 30 s.
 *
 * Handles between processes of a node travel as file descriptors, fetched with
 * pidfd_getfd (same PID namespace, ptrace allowed), else sent over sockets
 * (SCM_RIGHTS, same network namespace); between nodes as fabric handles.
 * While it works, no other call on the mailbox. */
BW_API bw_status bw_mailbox_round(bw_mailbox *mailbox, const void *blobs_in, size_t n,
                                  void *blob_out);

/* Empties the mailbox and its step count on every rank, for instance after one gave up.
 * All ranks must have completed all work on it (or lost it) before any calls this; the
 * rounds then run again as above, and launching is an error until they are done.
 * BW_ERROR_STATE: it was not set up. */
BW_API bw_status bw_mailbox_reset(bw_mailbox *mailbox);

/* Releases the mailbox; plans made with it keep it.  At the last reference its memory is
 * unmapped, once this device's work is done, and graphs captured from launches on it must
 * not be launched any more; that of other ranks stays good as long as they use it, so ranks
 * may do so in any order, when the steps of all are over. */
BW_API void bw_mailbox_destroy(bw_mailbox *mailbox);

typedef struct bw_mailbox_info {
  bw_mailbox_mode mode; /* in use; what was asked for until the rounds are done */
  bool ready;
  uint32_t generations; /* of rows in the ring */
  bw_devptr ring;       /* bf16 [generations, capacity, hidden]; empty words are 0x80000000 */
  size_t ring_bytes;
  bw_devptr counters; /* u32 steps completed, u32 tickets of the running copy */
} bw_mailbox_info;
BW_API bw_status bw_mailbox_query(const bw_mailbox *mailbox, bw_mailbox_info *out);

/* With a poll limit: whether lamport_copy ever gave up.  BW_ERROR_STATE then names row,
 * word and the rank they should have come from.  Looks at host memory, never waits. */
BW_API bw_status bw_mailbox_check(const bw_mailbox *mailbox);

/* ---- up_proj: skinny bf16 GEMM + shared add, stored to every rank's mailbox ---------- */

#define BW_UP_PROJ_MAX_ROWS 8u

/* Sizes.  S = hidden_dim / tp_size columns of every row are this rank's. */
typedef struct bw_up_proj_shape {
  uint32_t latent_dim; /* L: a multiple of what the kernels for S take at a time; 3584 is */
  uint32_t hidden_dim; /* as the mailbox; S a multiple of the columns of a CTA: 8 is enough */
  uint32_t tp_size;    /* 1..16 */
  uint32_t rank;       /* 0..tp_size-1 */
  uint32_t max_rows;   /* largest M a launch may ask for, 1..8, within the mailbox */
} bw_up_proj_shape;

enum {
  /* Load the weight only after griddepcontrol.wait: for callers that let another kernel
   * of the stream write it. */
  BW_UP_PROJ_WEIGHT_AFTER_WAIT = 1u << 0
};

typedef struct bw_up_proj_config {
  bw_up_proj_shape shape;
  /* bf16 [S, L], contiguous, 32-byte aligned: this rank's rows. */
  bw_devptr weight;
  bw_mailbox *mailbox; /* set up; of the plan's device */
  uint32_t flags;      /* BW_UP_PROJ_* */
} bw_up_proj_config;

typedef struct bw_up_proj_plan bw_up_proj_plan;

/* What a row count dispatches to: a pure function of host integers.  block and vector
 * (with the rules of arithmetic in ptx/up_proj/README.md) decide the result's bits. */
typedef struct bw_up_proj_key {
  uint32_t rows;    /* M */
  uint32_t block;   /* threads of a CTA */
  uint32_t outputs; /* columns a CTA computes */
  uint32_t unroll;  /* k tiles whose loads are under way together */
  uint32_t vector;  /* elements a thread takes of a k tile */
} bw_up_proj_key;

/* shard: S.  latent_dim only tells the kernels of the model's sizes from those of 32
 * threads, which serve every L that is a multiple of 256 but not of the former's
 * block * vector; bundles for use lack them, those of the tests have them. */
BW_API bw_status bw_up_proj_dispatch(uint32_t rows, uint32_t shard, uint32_t latent_dim,
                                     bw_up_proj_key *out);

/* The keys of 1..max_rows rows, in that order; at most capacity are written, *count is
 * their number. */
BW_API bw_status bw_up_proj_keys(uint32_t max_rows, uint32_t shard, uint32_t latent_dim,
                                 bw_up_proj_key *keys, size_t capacity, size_t *count);

#define BW_UP_PROJ_KEY_NAME_SIZE 48
/* As in the bundle: m<rows>_b<block>o<outputs>u<unroll>v<vector>_<mode>, mode one of
 * multicast, peers, local. */
BW_API bw_status bw_up_proj_key_name(const bw_up_proj_key *key, bw_mailbox_mode mode,
                                     char name[BW_UP_PROJ_KEY_NAME_SIZE]);

/* Answers without loading whether shape runs on device in that mode (AUTO: in all it may
 * become).  BW_OK, or BW_ERROR_INVALID_ARGUMENT / BW_ERROR_UNSUPPORTED with the reason. */
BW_API bw_status bw_up_proj_supported(const bw_device *device, const bw_up_proj_shape *shape,
                                      bw_mailbox_mode mode);

/* Validates everything and loads every kernel the plan can dispatch to; may be called
 * while streams are being captured.  The weight stays the caller's.
 * BW_ERROR_STATE: the mailbox's rounds are not done.  Others as bw_wo_a_plan_create. */
BW_API bw_status bw_up_proj_plan_create(bw_device *device, const bw_up_proj_config *config,
                                        bw_up_proj_plan **out);

/* Points the plan at a weight that moved.  Not beside a launch on this plan; a captured
 * graph keeps the old address. */
BW_API bw_status bw_up_proj_plan_update(bw_up_proj_plan *plan, bw_devptr weight);

/* As bw_wo_a_plan_destroy. */
BW_API void bw_up_proj_plan_destroy(bw_up_proj_plan *plan);

typedef struct bw_up_proj_args {
  /* bf16 [M, L], contiguous, 32-byte aligned. */
  bw_devptr latent;
  /* bf16 [M, S], 32-byte aligned: this rank's columns, perhaps a slice of wider rows. */
  bw_devptr shared;
  /* Elements from one row of shared to the next: a multiple of 16, S..2^40. */
  uint64_t shared_row_stride;
  uint32_t rows;  /* M, 0..max_rows, the same on all ranks; 0 launches nothing and is no step */
  uint32_t flags; /* BW_LAUNCH_* */
} bw_up_proj_args;

/* Enqueues the first half of a step: columns [rank*S, rank*S + S) of rows 0..M-1 of every
 * rank's mailbox = bf16(bf16(latent . weight^T) + shared), with +0 for -0.  Capture,
 * contexts and threads as bw_wo_a_launch, but steps of one mailbox must be launched one
 * after the other.
 *
 * PDL.  Before its griddepcontrol.wait the kernel reads weight only (nothing, with
 * BW_UP_PROJ_WEIGHT_AFTER_WAIT); it writes nothing.  BW_LAUNCH_TRIGGER_ENTRY needs a
 * mailbox made with BW_MAILBOX_COPY_WAITS_FIRST: else a lamport_copy that starts early
 * could find the step count of the step before.
 *
 * With BAREWARP_DEBUG=1 the stream's context and the operands are checked, and an error
 * tells of two up_proj of a mailbox in a row, and of a stream other than the last step's
 * that is seen not to be ordered after it (BW_ERROR_STATE).
 * BW_ERROR_STATE: the mailbox is being set up again. */
BW_API bw_status bw_up_proj_launch(const bw_up_proj_plan *plan, const bw_up_proj_args *args,
                                   bw_stream stream);

/* ---- lamport_copy: takes the rows of a step out of the mailbox ----------------------- */

typedef struct bw_lamport_copy_args {
  /* out: bf16 [M, hidden], contiguous, 16-byte aligned; never read. */
  bw_devptr out;
  uint32_t rows;  /* M, 0..capacity, as of the step's up_proj */
  uint32_t flags; /* BW_LAUNCH_* */
} bw_lamport_copy_args;

/* Enqueues the second half of a step: waits until all words of rows 0..M-1 have come from
 * all ranks, writes them to out, empties the mailbox and counts the step.  If a rank never
 * produces its part, it never ends (see poll_limit).  Its grid is small enough that
 * several such cannot fill a GPU.  It needs no plan: the kernel was loaded in the rounds.
 * Capture, contexts and threads as bw_up_proj_launch; not before an up_proj of the step.
 *
 * PDL.  Before its griddepcontrol.wait the kernel polls the mailbox (not even that, with
 * BW_MAILBOX_COPY_WAITS_FIRST); it writes nothing.
 *
 * With BAREWARP_DEBUG=1 also: two lamport_copy in a row, or other rows than the up_proj
 * before; and a copy that gave up polling is told at the next launch (BW_ERROR_STATE). */
BW_API bw_status bw_lamport_copy_launch(bw_mailbox *mailbox, const bw_lamport_copy_args *args,
                                        bw_stream stream);

/* ---- host helpers for the formats ---------------------------------------- */

/* Checks weight [rows, cols] and scale shapes as a checkpoint gives them: weight
 * [G*R, H*512], scales one per 32 columns [G*R, H*16].  BW_OK or the reason. */
BW_API bw_status bw_wo_a_check_weight(const bw_wo_a_shape *shape, const int64_t weight_shape[2],
                                      const int64_t scale_shape[2]);

/* Row-major ue8m0 scales, uint8 [G*R, H*16] (scale of k in [32b, 32b+32) at column
 * b), to the packed MN-major weight_scale, and back.  Sizes of both: G*R*H*16 bytes.
 * dst and src must not overlap. */
BW_API bw_status bw_wo_a_pack_scales(const bw_wo_a_shape *shape, const uint8_t *row_major,
                                     uint32_t *packed);
BW_API bw_status bw_wo_a_unpack_scales(const bw_wo_a_shape *shape, const uint32_t *packed,
                                       uint8_t *row_major);

/* Row-major scales, uint8 [rows, cols] with rows 1..128 and cols a multiple of 4
 * (one per 32 columns of the matrix), to one row of F8_128x4 tiles (cols/4 blocks of
 * 512 bytes; rows beyond `rows` become 0), and back. */
BW_API bw_status bw_f8_128x4_swizzle(const uint8_t *row_major, uint32_t rows, uint32_t cols,
                                     uint8_t *tiles);
BW_API bw_status bw_f8_128x4_unswizzle(const uint8_t *tiles, uint32_t rows, uint32_t cols,
                                       uint8_t *row_major);

#ifdef __cplusplus
}
#endif
#endif
