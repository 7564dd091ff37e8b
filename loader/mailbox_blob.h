/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank tells the others in a round of a mailbox's set-up: a blob of fixed size and
 * layout (this machine's byte order; the magic number differs in the other).
 */
#ifndef BW_LOADER_MAILBOX_BLOB_H
#define BW_LOADER_MAILBOX_BLOB_H

#include "barewarp.h"

/* Read first; changes never. */
typedef struct bwi_blob_head {
  uint64_t magic;
  uint32_t version; /* of the layout and of the rounds */
  uint32_t size;    /* bytes of the whole blob */
} bwi_blob_head;

#define BWI_BLOB_MAGIC   UINT64_C(0x786f626c69616d77) /* "wmailbox" */
#define BWI_BLOB_VERSION 1u

/* Where a process is, to choose how handles reach it. */
typedef struct bwi_whereabouts {
  uint8_t node[16];    /* boot id of the kernel */
  uint8_t process[16]; /* random, with the process number: tells processes apart */
  uint64_t pid_namespace;
  int32_t pid;
  uint32_t reserved;
} bwi_whereabouts;

/* A handle of the driver for others to take; which field counts depends on where they
 * are.  The descriptor is open in the offering process until the rounds are over. */
typedef struct bwi_offer {
  uint64_t token; /* of handles.c, within the process; 0: nothing is offered */
  int32_t descriptor;
  uint32_t reserved;
  uint8_t fabric[64];
} bwi_offer;

/* Why a rank cannot or must not use multicast. */
typedef enum bwi_multicast_bar {
  BWI_MULTICAST_POSSIBLE = 0,
  BWI_MULTICAST_BARRED_BY_NCCL,     /* NCCL_NVLS_ENABLE=0 */
  BWI_MULTICAST_BARRED_BY_BAREWARP, /* BAREWARP_MULTICAST=0 */
  BWI_MULTICAST_NO_DEVICE,          /* the device lacks it */
  BWI_MULTICAST_NO_DRIVER           /* the driver lacks its calls */
} bwi_multicast_bar;

/* How far multicast has come on a rank. */
typedef enum bwi_multicast_state {
  BWI_MULTICAST_NONE = 0, /* not tried */
  BWI_MULTICAST_FAILED,   /* `text` says why */
  BWI_MULTICAST_CREATED,  /* rank 0 */
  BWI_MULTICAST_ADDED,
  BWI_MULTICAST_BOUND /* and mapped */
} bwi_multicast_state;

enum { BWI_CAN_DESCRIPTOR = 1u << 0, BWI_CAN_FABRIC = 1u << 1 };

typedef struct bwi_blob {
  bwi_blob_head head;
  uint64_t id; /* random: one mailbox of one rank */
  uint32_t purpose;
  uint32_t round;
  /* The configuration. */
  uint32_t rank, tp_size, hidden, capacity, mode, generations;
  /* The verdict so far, and what is to be said of it (or of multicast). */
  uint32_t status; /* bw_status */
  int32_t curesult;
  char text[144];
  bwi_whereabouts where;
  uint32_t multicast_bar;
  uint32_t multicast_state;
  uint64_t bytes; /* of the mapped memory */
  uint32_t can;   /* BWI_CAN_* */
  uint32_t armed; /* 1: own memory is empty */
  bwi_offer memory, multicast;
  /* Descriptors to be sent by the rank of that bit. */
  uint32_t memory_wanted;
  uint32_t multicast_wanted; /* 1: by rank 0 */
  char mail_address[24];     /* where: prefix of the names of this rank's sockets; NUL-ended */
} bwi_blob;

_Static_assert(sizeof(bwi_blob) <= BW_MAILBOX_BLOB_SIZE, "a blob outgrew its size");

#endif
