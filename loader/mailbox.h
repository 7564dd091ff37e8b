/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the mailbox share.
 *
 *   mailbox.c         life, configuration, queries
 *   mailbox_rounds.c  set-up: verdicts, one step a round
 *   mailbox_blob.c    are the blobs complete, do the ranks agree
 *   mailbox_memory.c  memory and multicast objects: making, arming, mapping, releasing
 *   mailbox_handles.c how handles get from process to process
 *   mailbox_debug.c   contract checks of BAREWARP_DEBUG=1, polls that gave up
 */
#ifndef BW_LOADER_MAILBOX_H
#define BW_LOADER_MAILBOX_H

#include "device.h"
#include "mailbox_blob.h"

#define BWI_EMPTY_WORD UINT32_C(0x80000000) /* EMPTY_WORD of the kernels */

/* Steps completed and tickets of the running reader: two words that kernels touch. */
#define BWI_COUNTER_BYTES 8u

/* ---- handles (mailbox_handles.c) --------------------------------------------------- */

/* A driver's handle to memory or to a multicast object, shared by the mailboxes of this
 * process that use it and released with the last. */
typedef struct bwi_handle {
  const bwi_driver *driver;
  CUmemGenericAllocationHandle handle;
  uint64_t token; /* never 0, never used again */
  size_t references;
  struct bwi_handle *next;
} bwi_handle;

/* Takes over a fresh handle (releases it if that fails). */
bw_status bwi_handle_new(const bwi_driver *driver, CUmemGenericAllocationHandle handle,
                         bwi_handle **out);
/* Another reference to the handle of that token in this process; NULL: gone. */
bwi_handle *bwi_handle_find(const bwi_driver *driver, uint64_t token);
void bwi_handle_drop(bwi_handle **handle);

/* What a mailbox needs to exchange handles; all of it ends with the rounds. */
typedef struct bwi_mail {
  char address[24];                  /* prefix of the sockets' names */
  int sockets[BW_MAILBOX_MAX_RANKS]; /* one for each sender: none fills another's queue */
  int offered[2];                    /* descriptors of our memory, our multicast object */
  int taken[BW_MAILBOX_MAX_RANKS];   /* descriptors of the ranks' memory */
  int taken_multicast;               /* of rank 0's object */
} bwi_mail;

void bwi_mail_init(bwi_mail *mail);
/* Opens the sockets for `ranks` ranks. */
bw_status bwi_mail_open(bwi_mail *mail, uint32_t ranks);
void bwi_mail_close(bwi_mail *mail);

bw_status bwi_whereabouts_find(bwi_whereabouts *where);
bool bwi_same_process(const bwi_whereabouts *a, const bwi_whereabouts *b);
bool bwi_same_node(const bwi_whereabouts *a, const bwi_whereabouts *b);

/* A copy of another process's descriptor, by pidfd_getfd; -1: not to be had so. */
int bwi_descriptor_fetch(const bwi_whereabouts *from, const bwi_whereabouts *self, int descriptor);

enum { BWI_MAIL_MEMORY = 0, BWI_MAIL_MULTICAST = 1 };
/* Sends a descriptor to the sockets of a rank; never waits.  mailbox: the receiver's id. */
bw_status bwi_descriptor_send(const char *address, uint32_t sender, uint64_t mailbox, int kind,
                              int descriptor);
/* Receives what `sender` sent: at most `count` descriptors into *memory and *multicast
 * (NULL: not expected).  *deadline: of the clock bwi_milliseconds. */
bw_status bwi_descriptor_receive(bwi_mail *mail, uint32_t sender, uint64_t mailbox, int *memory,
                                 int *multicast, int64_t deadline);
int64_t bwi_milliseconds(void);
#define BWI_MAIL_TIMEOUT_MS 30000

/* ---- memory (mailbox_memory.c) ----------------------------------------------------- */

/* A handle mapped at an address; all zero: nothing. */
typedef struct bwi_mapping {
  bwi_handle *handle;
  CUdeviceptr address;
  size_t reserved; /* bytes of address space */
  bool mapped;
} bwi_mapping;

/* ---- contract checks (mailbox_debug.c) --------------------------------------------- */

/* The last launch that the checks know of, in one capture or outside of all. */
typedef struct bwi_last_launch {
  bool producing; /* an up_proj without its lamport_copy */
  uint32_t rows;
} bwi_last_launch;

typedef struct bwi_contract {
  pthread_mutex_t lock;
  bwi_last_launch eager, captured;
  unsigned long long capture; /* number of the capture that `captured` is about */
  bool launched;              /* eagerly, ever: stream and event are valid */
  bw_stream stream;
  CUevent event; /* behind the last eager launch; NULL until the first */
} bwi_contract;

/* ---- the mailbox ------------------------------------------------------------------- */

typedef enum bwi_purpose { BWI_CREATE = 1, BWI_ADOPT, BWI_RESET } bwi_purpose;
typedef enum bwi_mailbox_state { BWI_IN_ROUNDS = 0, BWI_READY, BWI_BROKEN } bwi_mailbox_state;

struct bw_mailbox {
  atomic_size_t references;
  atomic_int state; /* bwi_mailbox_state; launches look at it */
  bw_device *device;
  bw_mailbox_config config;
  bool adopted;
  atomic_bool used; /* work that touches it was enqueued */

  /* The reader's kernel. */
  const bwi_kernel *copy;
  uint32_t chunk_bytes;
  uint32_t copy_trigger; /* default place */

  /* Sizes in bytes. */
  uint32_t generations;
  uint32_t row_bytes, generation_bytes;
  size_t ring_bytes;
  size_t bytes; /* of the mapped memory: ring, counters, padding to granularities */
  size_t bytes_alignment;

  /* Addresses, once known. */
  bw_mailbox_mode mode;
  bw_devptr ring, counters;
  bw_devptr targets[BW_MAILBOX_MAX_RANKS]; /* rings as this device reaches them */
  uint32_t target_count;

  /* What is to be released. */
  bwi_mapping own, multicast;
  bwi_mapping peers[BW_MAILBOX_MAX_RANKS];
  bool bound;                /* own is bound to multicast */
  CUdeviceptr own_counters;  /* allocated for an adopted ring */
  uint32_t *stuck;           /* host memory: see mailbox_debug.c; NULL: no poll limit */
  CUdeviceptr stuck_address; /* the same for the device */

  /* The rounds. */
  bwi_purpose purpose;
  uint32_t round; /* calls completed */
  bwi_blob mine;
  bwi_blob all[BW_MAILBOX_MAX_RANKS]; /* by rank; those of ranks first..last */
  bwi_mail mail;
  bool want_multicast; /* decided in rounds 1, 2 and 5, the same on all ranks */
  bool one_process;    /* decided in round 1, as is handle_type */
  CUmemAllocationHandleType handle_type;

  bwi_contract contract;
};

bw_mailbox *bwi_mailbox_retain(bw_mailbox *mailbox);

/* The ranks that take part in the rounds: all, or in mode local this one. */
static inline uint32_t bwi_first_rank(const bw_mailbox *m) {
  return m->config.mode == BW_MAILBOX_LOCAL ? m->config.rank : 0;
}
static inline uint32_t bwi_last_rank(const bw_mailbox *m) {
  return m->config.mode == BW_MAILBOX_LOCAL ? m->config.rank : m->config.tp_size - 1;
}

/* BW_ERROR_STATE unless the rounds are done. */
bw_status bwi_mailbox_check_ready(const bw_mailbox *mailbox);

/* lamport_copy.c: finds and loads the reader's kernel and the number of generations.
 * entry: of find, which needs no context. */
bw_status bwi_lamport_copy_find(const bw_device *device, size_t *entry, uint32_t *generations);
bw_status bwi_lamport_copy_load(bw_mailbox *mailbox, size_t entry);

/* mailbox_blob.c: puts the blobs into mailbox->all by rank; BW_ERROR_INVALID_ARGUMENT. */
bw_status bwi_blobs_gather(bw_mailbox *mailbox, const void *blobs_in, size_t n);
/* The first failure that a rank tells, or a configuration that differs. */
bw_status bwi_blobs_judge(const bw_mailbox *mailbox);

/* mailbox_memory.c; all within enter and leave, in the relaxed capture mode. */
bw_status bwi_memory_size(bw_mailbox *m);
bw_status bwi_memory_create(bw_mailbox *m);
bw_status bwi_memory_adopt(bw_mailbox *m);
bw_status bwi_memory_arm(bw_mailbox *m);
bw_status bwi_memory_offer(bw_mailbox *m);
bw_status bwi_memory_import(bw_mailbox *m, const bwi_blob *from, const bwi_offer *offer,
                            int *descriptor, bwi_handle **out);
bw_status bwi_memory_map(bw_mailbox *m, bwi_mapping *mapping);
bw_status bwi_multicast_fit(bw_mailbox *m);
bw_status bwi_multicast_create(bw_mailbox *m);
bw_status bwi_multicast_add(bw_mailbox *m);
bw_status bwi_multicast_bind(bw_mailbox *m);
void bwi_multicast_release(bw_mailbox *m);
/* Everything, of the rounds too.  Enters by itself. */
void bwi_memory_release(bw_mailbox *m);

/* mailbox_debug.c */
bw_status bwi_contract_init(bw_mailbox *m);
void bwi_contract_end(bw_mailbox *m);
void bwi_contract_reset(bw_mailbox *m);
/* Before a launch (`producing`: of up_proj), when the device debugs: BW_ERROR_STATE; and
 * after one that succeeded. */
bw_status bwi_contract_check(bw_mailbox *m, bool producing, uint32_t rows, bw_stream stream);
void bwi_contract_launched(bw_mailbox *m, bool producing, uint32_t rows, bw_stream stream);

#endif
