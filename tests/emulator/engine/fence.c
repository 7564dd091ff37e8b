/* SPDX-License-Identifier: Apache-2.0
 *
 * Fences, and hints about caches.  The machine performs accesses in the order in which
 * they are executed, so a fence moves nothing; it is an event of the ordering that the
 * checks compare accesses by.  Hints change no result, but an address that a prefetch of
 * a tensor map or a fence on one names must be valid.
 */
#include "warp_memory.h"

/* ---- ordering -------------------------------------------------------------------------------- */

/* fence.sc counts as fence.acq_rel: the machine is one sequence anyway. */
static enum step exec_fence(struct warp *w, const struct insn *I, uint32_t lanes) {
  uint8_t sem = I->mod[0] == MOD_acquire   ? SEM_acquire
                : I->mod[0] == MOD_release ? SEM_release
                                           : SEM_acq_rel;
  order_fence(w, lanes, scope_of((enum mod)I->mod[1], SCOPE_cta), sem);
  return STEP_next;
}
static enum step exec_membar(struct warp *w, const struct insn *I, uint32_t lanes) {
  order_fence(w, lanes, scope_of((enum mod)I->mod[0], SCOPE_cta), SEM_acq_rel);
  return STEP_next;
}
static enum step exec_acquire_cluster(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I;
  order_fence_shared(w, lanes, SEM_acquire);
  return STEP_next;
}
static enum step exec_release_cluster(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I;
  order_fence_shared(w, lanes, SEM_release);
  return STEP_next;
}
static enum step exec_mbarrier_init(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I;
  order_fence_mbarrier_init(w, lanes);
  return STEP_next;
}
static enum step exec_nothing(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)w, (void)I, (void)lanes; /* proxies of aliases are not told apart */
  return STEP_next;
}

/* ---- proxies ------------------------------------------------------------------- */

static enum step exec_async(struct warp *w, const struct insn *I, uint32_t lanes) {
  order_fence_async(w, lanes,
                    I->mod[0] == MOD_none     ? ORDER_both
                    : I->mod[0] == MOD_global ? ORDER_global
                                              : ORDER_shared);
  return STEP_next;
}
static enum step exec_async_both(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I;
  order_fence_async(w, lanes, ORDER_both);
  return STEP_next;
}
static enum step exec_async_acquire(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I;
  order_fence_shared(w, lanes, SEM_acquire);
  order_fence_async(w, lanes, ORDER_shared);
  return STEP_next;
}
static enum step exec_async_release(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I;
  order_fence_async(w, lanes, ORDER_shared);
  order_fence_shared(w, lanes, SEM_release);
  return STEP_next;
}
static enum step exec_map_release(struct warp *w, const struct insn *I, uint32_t lanes) {
  order_fence_tensormap(w, lanes, scope_of((enum mod)I->mod[0], SCOPE_sys), false);
  return STEP_next;
}

/* fence.proxy.tensormap::generic.acquire.scope [map], 128 */
static enum step exec_map_acquire(struct warp *w, const struct insn *I, uint32_t lanes) {
  FOR_LANES(l, lanes) {
    uint64_t addr, at;
    struct access a = access_of(w, I, (int)l);
    a.proxy = PROXY_tensormap;
    if (!opd_address(w, I, &I->opd[0], (int)l, &addr) ||
        !mem_resolve(&a, SPACE_generic, addr, 128, 128, false, &at))
      return STEP_fault;
  }
  order_fence_tensormap(w, lanes, scope_of((enum mod)I->mod[0], SCOPE_sys), true);
  return STEP_next;
}

static const char *check_map(const struct insn *I) {
  return I->opd[1].imm == 128 ? NULL : "the size of a tensor map is 128";
}

/* ---- hints ----------------------------------------------------------------------------------- */

static enum step exec_hint(struct warp *w, const struct insn *I, uint32_t lanes) {
  uint64_t addr[WARP];
  return warp_addresses(w, I, &I->opd[0], lanes, addr) ? STEP_next : STEP_fault;
}

static enum step exec_prefetch_map(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct opd *o = &I->opd[0];
  enum space sp =
      o->symbol && o->space != SPACE_generic ? (enum space)o->space : space_of((enum mod)I->mod[0]);
  FOR_LANES(l, lanes) {
    uint64_t addr, at;
    struct access a = access_of(w, I, (int)l);
    a.proxy = PROXY_tensormap;
    if (!opd_address(w, I, o, (int)l, &addr) || !mem_resolve(&a, sp, addr, 128, 64, false, &at))
      return STEP_fault;
  }
  return STEP_next;
}

/* The policy is opaque: what it says is kept, in an encoding of our own. */
static enum step exec_policy(struct warp *w, const struct insn *I, uint32_t lanes) {
  FOR_LANES(l, lanes) opd_set(w, &I->opd[0], (int)l, 0x1000000000000000ull | I->mod[0], 0);
  return STEP_next;
}

/* discard.L2 ends the life of the 128 bytes' value. */
static enum step exec_discard(struct warp *w, const struct insn *I, uint32_t lanes) {
  FOR_LANES(l, lanes) {
    uint64_t addr, at;
    struct access a = access_of(w, I, (int)l);
    if (!opd_address(w, I, &I->opd[0], (int)l, &addr))
      return STEP_fault;
    struct mem *mem = mem_resolve(&a, SPACE_generic, addr, 128, 128, true, &at);
    if (!mem)
      return STEP_fault;
    if (mem->undef)
      memset(mem->undef + at, 0xff, 128);
    mem_touch(&a, mem, at, 128, true);
  }
  return STEP_next;
}

static const char *check_128(const struct insn *I) {
  return I->opd[1].imm == 128 ? NULL : "the size is 128";
}

/* ---- forms ----------------------------------------------------------------------------------- */

#define D        "definition"
#define SCOPE    "{.cta|.cluster|.gpu|.sys}"
#define PRIORITY "{.L2::evict_last|.L2::evict_normal|.L2::evict_first|.L2::evict_unchanged}"

const struct form forms_fence[] = {
    {"fence[.sc|.acq_rel|.acquire|.release]" SCOPE, "", exec_fence, 0, D, NULL},
    {"fence.acquire.sync_restrict::shared::cluster.cluster", "", exec_acquire_cluster, 0, D, NULL},
    {"fence.release.sync_restrict::shared::cta.cluster", "", exec_release_cluster, 0, D, NULL},
    {"fence.mbarrier_init.release.cluster", "", exec_mbarrier_init, 0, D, NULL},
    {"fence.proxy.alias", "", exec_nothing, 0, D, NULL},
    {"fence.proxy.async[.global|.shared::cta|.shared::cluster]", "", exec_async, 0, D, NULL},
    {"fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster", "",
     exec_async_acquire, 0, D, NULL},
    {"fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster", "",
     exec_async_release, 0, D, NULL},
    {"fence.proxy.tensormap::generic.release" SCOPE, "", exec_map_release, 0, D, NULL},
    {"fence.proxy.tensormap::generic.acquire" SCOPE, "m i", exec_map_acquire, 0, D, check_map},
    {"membar{.cta|.gl|.sys}", "", exec_membar, 0, D, NULL},
    {"membar.proxy.alias", "", exec_nothing, 0, D, NULL},
    {"membar.proxy.async", "", exec_async_both, 0, D, NULL},
    {"prefetch[.global|.local]{.L1|.L2}", "m", exec_hint, 0, D, NULL},
    {"prefetch[.global]{.L2::evict_last|.L2::evict_normal}", "m", exec_hint, 0, D, NULL},
    {"prefetchu.L1", "m", exec_hint, 0, D, NULL},
    {"prefetch[.const|.param].tensormap", "m", exec_prefetch_map, 0, D, NULL},
    {"createpolicy.fractional" PRIORITY "[.L2::evict_first|.L2::evict_unchanged].b64", "w64 r32?",
     exec_policy, 0, D, NULL},
    {"createpolicy.range[.global]" PRIORITY "[.L2::evict_first|.L2::evict_unchanged].b64",
     "w64 m r32 r32", exec_policy, 0, D, NULL},
    {"applypriority[.global].L2::evict_normal", "m i", exec_hint, 0, D, check_128},
    {"discard[.global].L2", "m i", exec_discard, 0, D, check_128},
    {NULL, NULL, NULL, 0, NULL, NULL},
};
