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
 *
 * Ownership.  Every object holds a reference to what it was made from, so objects
 * may be released in any order.  No object is tied to the thread that made it.
 *
 * Errors.  Every function that can fail returns a bw_status.  Anything but BW_OK
 * means that nothing was launched, kept or changed; bw_last_error() then says
 * which argument was wrong, what it was and what is allowed.
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
  BW_ERROR_STATE = 9             /* a call at the wrong time */
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

BW_API void bw_bundle_close(bw_bundle *bundle);

/* One compiled specialization.  Strings live as long as the bundle. */
typedef struct bw_kernel_info {
  const char *family;  /* "wo_a" */
  const char *arch;    /* "sm_100f" */
  const char *key;     /* "t28x2r_h8": see bw_wo_a_key_name */
  const char *symbol;  /* the entry point in the cubin */
  const char *ptxas;   /* version and flags that made the cubin */
  uint32_t registers;  /* per thread */
  uint32_t shared_static, shared_dynamic; /* bytes per CTA */
  uint32_t barriers;   /* named barriers in use */
  uint32_t threads;    /* per CTA */
  uint32_t cluster;    /* CTAs per cluster */
  uint32_t code_bytes; /* machine code */
  bool waits;          /* executes griddepcontrol.wait: may carry the PDL attribute */
} bw_kernel_info;

BW_API size_t bw_bundle_count(const bw_bundle *bundle);
BW_API bw_status bw_bundle_kernel(const bw_bundle *bundle, size_t index, bw_kernel_info *out);

/* The entry's PTX (NUL-terminated text) or cubin, freshly allocated; release with
 * bw_free.  size excludes the NUL. */
BW_API bw_status bw_bundle_ptx(const bw_bundle *bundle, size_t index, char **text, size_t *size);
BW_API bw_status bw_bundle_cubin(const bw_bundle *bundle, size_t index, void **cubin,
                                 size_t *size);
BW_API void bw_free(void *memory);

/* ---- device -------------------------------------------------------------- */

typedef struct bw_device bw_device;

#define BW_DEVICE_CURRENT (-1) /* the context current to the calling thread */

/* Binds a bundle to a device of a driver.
 *   driver   NULL: BAREWARP_DRIVER if set, else the system's driver.
 *            "cuda": the system's.  "emu": the emulated driver (found beside the
 *            library, or at BAREWARP_EMU).  Else the path of a driver library.
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
  size_t memory;          /* bytes */
  const char *arch;       /* the bundle's architecture chosen for it */
  const char *driver;     /* "cuda", "emu" or the path */
  int driver_version;     /* as cuDriverGetVersion: 13000 */
  bool emulated;
} bw_device_info;
BW_API bw_status bw_device_query(const bw_device *device, bw_device_info *out);

/* ---- launch flags -------------------------------------------------------- */

enum {
  /* Launch without the programmatic-stream-serialization attribute: the kernel
   * starts when the stream's earlier work has completed.  For the first launch
   * after weights were rewritten in place. */
  BW_LAUNCH_NO_PDL = 1u << 0,
  /* Where the kernel lets its dependents start; at most one of the three.  Default:
   * what was measured to be best for the shape. */
  BW_LAUNCH_TRIGGER_ENTRY = 1u << 1,      /* kernels with TMEM: right after its alloc */
  BW_LAUNCH_TRIGGER_AFTER_WAIT = 1u << 2, /* right after griddepcontrol.wait */
  BW_LAUNCH_TRIGGER_LATE = 1u << 3        /* when the last stage's operands are in */
};

/* ---- wo_a: inverse RoPE + MXFP8 quantization + grouped WO-A GEMM ---------- */

#define BW_WO_A_HEAD_DIM 512u   /* 448 plain + 64 rotary elements */
#define BW_WO_A_ROPE_DIM 64u    /* a rope row: 32 cosines, then 32 sines */
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
 * plan; a captured graph keeps the old addresses. */
BW_API bw_status bw_wo_a_plan_update(bw_wo_a_plan *plan, bw_devptr weight,
                                     bw_devptr weight_scale);

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
 * overlap each other or an input.  With tokens 0 the operands may be NULL.
 *
 * PDL.  The launch carries the programmatic-stream-serialization attribute unless
 * BW_LAUNCH_NO_PDL is given.  Before its griddepcontrol.wait the kernel reads
 * weight and weight_scale only (nothing, with BW_WO_A_WEIGHTS_AFTER_WAIT); it
 * writes nothing.  So these two must not be written by any grid of the stream that
 * may still be running. */
BW_API bw_status bw_wo_a_launch(const bw_wo_a_plan *plan, const bw_wo_a_args *args,
                                bw_stream stream);

/* Bytes of q for `tokens` tokens and of qs (which has room for 128 tokens always). */
BW_API bw_status bw_wo_a_output_sizes(const bw_wo_a_shape *shape, uint32_t tokens,
                                      size_t *q_bytes, size_t *qs_bytes);

/* What a token count dispatches to: a pure function of host integers. */
typedef struct bw_wo_a_key {
  uint32_t tile;  /* tokens per tile, 1..32 */
  uint32_t tiles; /* token tiles, 1..4 */
  uint32_t full;  /* 1: tokens is a multiple of tile */
  uint32_t heads_per_group;
} bw_wo_a_key;

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
