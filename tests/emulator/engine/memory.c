/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: the allocations of the devices, the generic address windows, and the one way
 * in and out of all of it.  An address is resolved to a memory and an offset after the
 * checks of group 1; definedness of every bit travels with the bytes.
 */
#include "internal.h"

#include <stdarg.h>

/* Distance between allocations, so that an overrun meets nothing by accident. */
#define GUARD_GAP (1ull << 20)
#define GARBAGE   0xa5

/* ---- allocations ------------------------------------------------------------------------ */

static uint32_t global_index(const struct engine_state *s, uint64_t addr) {
  uint32_t lo = 0, hi = s->global_n; /* the first with base > addr */
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    if (s->global[mid]->base > addr)
      hi = mid;
    else
      lo = mid + 1;
  }
  return lo;
}

struct mem *global_find(struct machine *m, uint64_t addr) {
  struct engine_state *s = m->s;
  struct mem *last = s->last_found;
  if (last && addr - last->base < last->size)
    return last;
  uint32_t i = global_index(s, addr);
  if (!i || addr - s->global[i - 1]->base >= s->global[i - 1]->size)
    return NULL;
  return s->last_found = s->global[i - 1];
}

/* For reports: the allocation before the address, if it ends less than a gap before it. */
struct mem *global_near(struct machine *m, uint64_t addr) {
  uint32_t i = global_index(m->s, addr);
  if (i && addr - m->s->global[i - 1]->base < m->s->global[i - 1]->size + GUARD_GAP / 2)
    return m->s->global[i - 1];
  return i < m->s->global_n && m->s->global[i]->base - addr < GUARD_GAP / 2 ? m->s->global[i]
                                                                            : NULL;
}

struct mem *global_alloc(struct device *d, uint64_t size, uint64_t align, const char *what) {
  struct machine *m = d->m;
  struct engine_state *s = m->s;
  if (size > d->memory - d->allocated)
    return NULL;
  uint8_t *data = malloc(size ? size : 1);
  uint8_t *undef = check_on(m, CHECK_undef) ? malloc(size ? size : 1) : NULL;
  if (!data || (check_on(m, CHECK_undef) && !undef)) {
    free(data);
    free(undef);
    return NULL;
  }
  memset(data, GARBAGE, size);
  if (undef)
    memset(undef, 0xff, size);
  if (align < 512)
    align = 512;
  struct mem *mem = emu_alloc(sizeof *mem);
  mem->base = (d->next_address + GUARD_GAP + align - 1) & ~(align - 1);
  mem->size = size;
  d->next_address = mem->base + size;
  d->allocated += size;
  mem->data = data;
  mem->undef = undef;
  mem->space = SPACE_global;
  mem->dev = d;
  mem->what = mem->name = strdup(what);
  /* Addresses only grow per device, but devices interleave. */
  uint32_t i = global_index(s, mem->base);
  s->global = emu_grow(s->global, s->global_n, &s->global_capacity, sizeof(struct mem *));
  memmove(s->global + i + 1, s->global + i, (s->global_n - i) * sizeof(struct mem *));
  s->global[i] = mem;
  s->global_n++;
  return mem;
}

void global_free(struct mem *mem) {
  if (mem->freed)
    return;
  mem->freed = true;
  order_mem_freed(mem);
  mem->dev->allocated -= mem->size;
  free(mem->data);
  free(mem->undef);
  mem->data = mem->undef = NULL;
}

/* ---- resolving ---------------------------------------------------------------------------- */

enum space generic_space(uint64_t addr, uint64_t *in_space) {
  *in_space = addr;
  if (addr >= SHARED_WINDOW && addr - SHARED_WINDOW < WINDOW_SIZE) {
    *in_space = addr - SHARED_WINDOW;
    return SPACE_shared_cluster;
  }
  if (addr >= LOCAL_WINDOW && addr - LOCAL_WINDOW < WINDOW_SIZE) {
    *in_space = addr - LOCAL_WINDOW;
    return SPACE_local;
  }
  if (addr >= PARAM_WINDOW && addr - PARAM_WINDOW < WINDOW_SIZE) {
    *in_space = addr - PARAM_WINDOW;
    return SPACE_param;
  }
  return SPACE_global;
}

static struct mem *bad_address(const struct access *a, enum space sp, uint64_t addr,
                               const char *rule, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Nothing can be read or written there, so this is reported and ends the launch even when
 * told to go on or when the check is off: as on hardware. */
static struct mem *bad_address(const struct access *a, enum space sp, uint64_t addr,
                               const char *rule, const char *fmt, ...) {
  struct report r = {.check = CHECK_bounds,
                     .rule = rule,
                     .who = a,
                     .has_address = true,
                     .space = (uint8_t)sp,
                     .address = addr};
  va_list ap;
  va_start(ap, fmt);
  (void)vsnprintf(r.text, sizeof r.text, fmt, ap);
  va_end(ap);
  report_publish(a->m, &r);
  if (a->grid)
    grid_fail(a->grid);
  return NULL;
}

/* What is no multimem instruction meets a multicast address, which the ISA leaves undefined.
 * true: go on.  An ordinary store may: it reaches all copies, as on hardware, when the check
 * is off or only reports.  All else has no meaning at all. */
static bool multicast_access(const struct access *a, enum space sp, uint64_t addr, uint64_t size,
                             bool write, bool plain_write, const struct mem *mem) {
  struct report r = {.check = CHECK_mailbox,
                     .rule = write ? "multicast-write" : "multicast-read",
                     .who = a,
                     .has_address = true,
                     .space = (uint8_t)sp,
                     .address = addr};
  (void)snprintf(r.text, sizeof r.text,
                 "ordinary %s of %llu bytes at %s, which the ISA leaves undefined: %s",
                 plain_write ? "store"
                 : write     ? "write"
                             : "read",
                 (unsigned long long)size, mem->what,
                 write ? "only multimem instructions may write there"
                       : "read through the addresses of the device's own memory");
  if (plain_write)
    return !report(a->m, &r);
  report_publish(a->m, &r);
  if (a->grid)
    grid_fail(a->grid);
  return false;
}

/* plain_write: of an ordinary store, not of an atomic or an asynchronous copy. */
static struct mem *resolve_global(const struct access *a, enum space sp, uint64_t addr,
                                  uint64_t size, bool write, bool plain_write, uint64_t *offset) {
  const char *verb = write ? "write" : "read";
  struct mem *mem = global_find(a->m, addr);
  if (!mem) {
    uint64_t in;
    enum space is = generic_space(addr, &in);
    if (is != SPACE_global)
      return bad_address(a, sp, addr, "wrong-space",
                         "%s of global memory at an address in another state space's window", verb);
    struct mem *near = global_near(a->m, addr);
    if (!near)
      return bad_address(a, sp, addr, "oob-global", "%s of %llu bytes where nothing is allocated",
                         verb, (unsigned long long)size);
    if (addr < near->base)
      return bad_address(a, sp, addr, "oob-global",
                         "%s of %llu bytes, %llu bytes before %s (%llu bytes)", verb,
                         (unsigned long long)size, (unsigned long long)(near->base - addr),
                         near->what, (unsigned long long)near->size);
    return bad_address(
        a, sp, addr, "oob-global", "%s of %llu bytes, %llu bytes past the end of %s (%llu bytes)",
        verb, (unsigned long long)size, (unsigned long long)(addr - near->base - near->size),
        near->what, (unsigned long long)near->size);
  }
  *offset = addr - mem->base;
  if (mem->freed)
    return bad_address(a, sp, addr, "use-after-free",
                       "%s of %llu bytes at %s + %llu, which was freed", verb,
                       (unsigned long long)size, mem->what, (unsigned long long)*offset);
  if (a->insn && !mem_reachable(a->dev, mem))
    return bad_address(a, sp, addr, "no-access",
                       "%s of %llu bytes at %s of device %d, to which device %d has no access",
                       verb, (unsigned long long)size, mem->what, mem->dev->ordinal,
                       a->dev->ordinal);
  if (write && mem->constant && a->insn)
    return bad_address(a, sp, addr, "wrong-space", "write to %s, which is constant", mem->what);
  if (size > mem->size - *offset)
    return bad_address(a, sp, addr, "oob-global",
                       "%s of %llu bytes at %s + %llu runs past its end (%llu bytes)", verb,
                       (unsigned long long)size, mem->what, (unsigned long long)*offset,
                       (unsigned long long)mem->size);
  if (mem->multicast && !multicast_access(a, sp, addr, size, write, plain_write, mem))
    return NULL;
  return mem;
}

static struct mem *resolve_shared(const struct access *a, enum space sp, uint64_t addr,
                                  uint64_t size, bool write, uint64_t *offset) {
  if (!a->cta)
    return bad_address(a, sp, addr, "wrong-space", "the host has no shared memory");
  struct cta *c = a->cta;
  if (sp == SPACE_shared) {
    if (addr >> SHARED_RANK_SHIFT != c->rank)
      return bad_address(a, sp, addr, addr >> 32 ? "oob-shared" : "wrong-space",
                         "%s of shared::cta memory at an address that is not in this CTA's window",
                         write ? "write" : "read");
  } else {
    c = cluster_cta(a, addr);
    if (!c)
      return NULL;
  }
  *offset = addr & low_mask(SHARED_RANK_SHIFT);
  if (*offset >= c->shared.size || size > c->shared.size - *offset)
    return bad_address(a, sp, addr, "oob-shared",
                       "%s of %llu bytes at offset %llu of the shared memory of CTA rank %u, which "
                       "has %llu bytes",
                       write ? "write" : "read", (unsigned long long)size,
                       (unsigned long long)*offset, c->rank, (unsigned long long)c->shared.size);
  return &c->shared;
}

static struct mem *resolve_local(const struct access *a, uint64_t addr, uint64_t size, bool write,
                                 uint64_t *offset) {
  struct warp *w = a->cta ? &a->cta->warp[a->warp] : NULL;
  if (!w)
    return bad_address(a, SPACE_local, addr, "wrong-space", "the host has no local memory");
  uint64_t each = w->fn->local_bytes;
  if (addr >= each || size > each - addr)
    return bad_address(a, SPACE_local, addr, "oob-local",
                       "%s of %llu bytes at offset %llu of local memory, which has %llu bytes",
                       write ? "write" : "read", (unsigned long long)size, (unsigned long long)addr,
                       (unsigned long long)each);
  *offset = a->lane * each + addr;
  return &w->local_mem;
}

static struct mem *resolve_param(const struct access *a, uint64_t addr, uint64_t size, bool write,
                                 uint64_t *offset) {
  if (!a->grid)
    return bad_address(a, SPACE_param, addr, "wrong-space", "the host has no parameters");
  struct mem *mem = &a->grid->run->param;
  if (write)
    return bad_address(a, SPACE_param, addr, "wrong-space", "write to a kernel parameter");
  if (addr >= mem->size || size > mem->size - addr)
    return bad_address(a, SPACE_param, addr, "oob-param",
                       "read of %llu bytes at offset %llu of the parameters, which have %llu bytes",
                       (unsigned long long)size, (unsigned long long)addr,
                       (unsigned long long)mem->size);
  *offset = addr;
  return mem;
}

static struct mem *resolve(const struct access *a, enum space sp, uint64_t addr, uint64_t size,
                           uint64_t align, bool write, bool plain_write, uint64_t *offset) {
  uint64_t in = addr;
  enum space at = sp == SPACE_generic ? generic_space(addr, &in) : sp;
  if (align > 1 && in & (align - 1)) {
    bad_address(a, sp, addr, "misaligned-access",
                "%s of %llu bytes needs an address divisible by %llu", write ? "write" : "read",
                (unsigned long long)size, (unsigned long long)align);
    return NULL;
  }
  switch (at) {
  case SPACE_shared:
  case SPACE_shared_cluster:
    return resolve_shared(a, at, in, size, write, offset);
  case SPACE_local:
    return resolve_local(a, in, size, write, offset);
  case SPACE_param:
    return resolve_param(a, in, size, write, offset);
  default: /* .const variables are placed in global memory */
    return resolve_global(a, sp, in, size, write, plain_write, offset);
  }
}

struct mem *mem_resolve(const struct access *a, enum space sp, uint64_t addr, uint64_t size,
                        uint64_t align, bool write, uint64_t *offset) {
  return resolve(a, sp, addr, size, align, write, false, offset);
}

multicast_lookup multicast_targets;

/* The same bytes to every copy behind a multicast address. */
static bool store_to_all(const struct access *a, uint64_t addr, uint32_t size, const void *data,
                         const void *undef) {
  struct multicast_target target[MAX_TARGETS];
  unsigned n = multicast_targets ? multicast_targets(a->m, addr, size, target, MAX_TARGETS) : 0;
  for (unsigned i = 0; i < n; i++) {
    struct access there = *a;
    there.dev = target[i].dev;
    if (!mem_store(&there, SPACE_global, target[i].address, size, 1, data, undef))
      return false;
  }
  return true;
}

/* ---- loads, stores, spans -------------------------------------------------------------------- */

void mem_touch(const struct access *a, struct mem *mem, uint64_t offset, uint64_t size,
               bool write) {
  shadow_note(a, mem, offset, size, write);
  if (write)
    a->m->activity++;
}

/* mbarriers lie in it. */
static bool guarded(const struct mem *mem) {
  return mem->space == SPACE_shared && mem->cta->mbar;
}

bool mem_load(const struct access *a, enum space sp, uint64_t addr, uint32_t size, uint32_t align,
              void *data, void *undef) {
  uint64_t at = 0;
  struct mem *mem = mem_resolve(a, sp, addr, size, align, false, &at);
  if (!mem)
    return false;
  if (guarded(mem) && !mbar_guard(a, mem, at, size, false))
    return false;
  memcpy(data, mem->data + at, size);
  if (undef && mem->undef)
    memcpy(undef, mem->undef + at, size);
  else if (undef)
    memset(undef, 0, size);
  shadow_note(a, mem, at, size, false);
  return true;
}

/* An undefined value reached memory that others read: global, or a peer's shared. */
bool store_defined(const struct access *a, const struct mem *mem, uint64_t addr) {
  if (mem->space != SPACE_global && (mem->space != SPACE_shared || mem->cta == a->cta))
    return true;
  struct report r = {.check = CHECK_undef,
                     .rule = "undef-store",
                     .who = a,
                     .has_address = true,
                     .space = mem->space,
                     .address = addr};
  (void)snprintf(r.text, sizeof r.text, "a value with undefined bits is written to %s", mem->what);
  return !report(a->m, &r);
}

bool mem_store(const struct access *a, enum space sp, uint64_t addr, uint32_t size, uint32_t align,
               const void *data, const void *undef) {
  uint64_t at = 0;
  struct mem *mem = resolve(a, sp, addr, size, align, true, !a->engine && !a->atomic, &at);
  if (!mem || (guarded(mem) && !mbar_guard(a, mem, at, size, true)))
    return false;
  if (mem->multicast)
    return store_to_all(a, mem->base + at, size, data, undef);
  if (undef && check_on(a->m, CHECK_undef)) {
    const uint8_t *u = undef;
    uint8_t any = 0;
    for (uint32_t i = 0; i < size; i++)
      any |= u[i];
    if (any && a->insn && !store_defined(a, mem, addr))
      return false;
  }
  a->m->activity += memcmp(mem->data + at, data, size) != 0;
  memcpy(mem->data + at, data, size);
  if (mem->undef && undef)
    memcpy(mem->undef + at, undef, size);
  else if (mem->undef)
    memset(mem->undef + at, 0, size);
  shadow_note(a, mem, at, size, true);
  return true;
}

uint8_t *mem_span(const struct access *a, enum space sp, uint64_t addr, uint64_t size, bool write,
                  uint8_t **undef) {
  uint64_t at = 0;
  struct mem *mem = mem_resolve(a, sp, addr, size, 1, write, &at);
  if (!mem || (guarded(mem) && !mbar_guard(a, mem, at, size, write)))
    return NULL;
  if (undef)
    *undef = mem->undef ? mem->undef + at : NULL;
  mem_touch(a, mem, at, size, write);
  return mem->data + at;
}
