/* SPDX-License-Identifier: Apache-2.0
 *
 * What runs a rule pair: the driver, contexts and streams, and what the names of the pair's
 * head stand for.  Between rule_run.c and rule_memory.c.
 */
#ifndef BW_HARNESS_RULE_RIG_H
#define BW_HARNESS_RULE_RIG_H

#include "harness/driver.h"
#include "harness/rule_pair.h"

enum { STREAMS = 4, DEVICES = 16, NAMES = 64 };

/* What harness/driver.h does not have. */
#define MORE_CALLS(X)                                                                              \
  X(CtxEnablePeerAccess, cuCtxEnablePeerAccess)                                                    \
  X(TensorMapEncodeTiled, cuTensorMapEncodeTiled)                                                  \
  X(MemHostAlloc, cuMemHostAlloc)                                                                  \
  X(MemFreeHost, cuMemFreeHost)                                                                    \
  X(MemCreate, cuMemCreate)                                                                        \
  X(MemRetainAllocationHandle, cuMemRetainAllocationHandle)                                        \
  X(MemRelease, cuMemRelease)                                                                      \
  X(MemAddressReserve, cuMemAddressReserve)                                                        \
  X(MemAddressFree, cuMemAddressFree)                                                              \
  X(MemMap, cuMemMap)                                                                              \
  X(MemUnmap, cuMemUnmap)                                                                          \
  X(MemSetAccess, cuMemSetAccess)                                                                  \
  X(MulticastCreate, cuMulticastCreate)                                                            \
  X(MulticastAddDevice, cuMulticastAddDevice)                                                      \
  X(MulticastBindMem, cuMulticastBindMem)

/* What a name of the head stands for. */
struct named {
  char name[48];
  CUdeviceptr address; /* 0: a tensor map */
  uint64_t bytes;
  CUtensorMap map;
  bool reserved; /* mapped address space, */
  bool host;     /* or the host's memory; else an allocation */
};

struct rig {
  const struct rule_pair *pair;
  struct bwt_driver d;
#define X(name, symbol) __typeof__(symbol) *name;
  MORE_CALLS(X)
#undef X
  CUcontext context[DEVICES];
  CUstream stream[DEVICES][STREAMS];
  struct named name[NAMES];
  unsigned names;
  CUmodule module[DEVICES];
  CUmemGenericAllocationHandle handle[NAMES];
  unsigned handles;
  CUresult result; /* the first failure */
  char why[256];   /* the pair or the rig is wrong, not the program */
};

/* false: the pair or the rig is at fault, which it says for each, or stops here. */
bool rig_wrong(struct rig *r, const char *what, const char *name);
bool rig_call(struct rig *r, CUresult result); /* what the pair does: the first failure is kept */
bool rig_prepare(struct rig *r, const char *what, CUresult result);
bool rig_enter(struct rig *r, unsigned device);
struct named *rig_find(struct rig *r, const char *name); /* NULL: no such */
struct named *rig_add(struct rig *r, const char *name);

/* rule_memory.c: the steps that make or free memory, and the end of all that a run made. */
bool rig_memory(struct rig *r, const struct rule_step *s);
bool rig_multicast(struct rig *r, const struct rule_step *s);
bool rig_map(struct rig *r, const struct rule_step *s);
bool rig_free(struct rig *r, const struct rule_step *s);
void rig_clean_up(struct rig *r);

#endif
