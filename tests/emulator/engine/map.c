/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that the driver layer owns: pinned host memory, which kernels see at its own
 * address, and physical allocations mapped at reserved addresses.
 */
#include "map.h"

#include "internal.h"

static void remove_at(struct engine_state *s, uint32_t i) {
  s->global_n--;
  memmove(s->global + i, s->global + i + 1, (s->global_n - i) * sizeof(struct mem *));
}

struct mem *global_map(struct device *d, uint64_t base, uint64_t size, uint8_t *data,
                       uint8_t *undef, const char *what) {
  struct engine_state *s = d->m->s;
  /* What was unmapped here earlier is forgotten: these addresses come back. */
  for (uint32_t i = s->global_n; i-- > 0;) {
    const struct mem *old = s->global[i];
    if (old->freed && old->base < base + size && base < old->base + old->size)
      remove_at(s, i);
  }
  s->last_found = NULL;
  struct mem *mem = emu_alloc(sizeof *mem);
  mem->base = base;
  mem->size = size;
  mem->data = data;
  mem->undef = undef;
  mem->space = SPACE_global;
  mem->dev = d;
  mem->mapped = true;
  mem->reach = UINT32_MAX;
  mem->what = mem->name = strdup(what);
  uint32_t i = 0;
  while (i < s->global_n && s->global[i]->base <= base)
    i++;
  s->global = emu_grow(s->global, s->global_n, &s->global_capacity, sizeof(struct mem *));
  memmove(s->global + i + 1, s->global + i, (s->global_n - i) * sizeof(struct mem *));
  s->global[i] = mem;
  s->global_n++;
  return mem;
}

void global_map_of(struct mem *mem, uint64_t number, uint64_t size) {
  const struct engine_state *s = mem->dev->m->s;
  struct mem *other = NULL;
  for (uint32_t i = 0; i < s->global_n && !other; i++)
    if (s->global[i]->allocation == number && !s->global[i]->freed)
      other = s->global[i];
  mem->allocation = number;
  order_mem_same(mem, other, size);
}

void global_unmap(struct mem *mem) {
  order_mem_freed(mem);
  mem->freed = true; /* warps may have cached it, and reports name it */
  mem->data = mem->undef = NULL;
}
