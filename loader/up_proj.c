/* SPDX-License-Identifier: Apache-2.0
 *
 * up_proj: plans and launches.
 *
 * A plan holds the loaded kernel for every row count it may be asked for, and the
 * addresses in the ranks' mailboxes where its columns go.
 */
#include "up_proj.h"
#include "error.h"
#include "mailbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the kernels' interface -------------------------------------------------------- */

/* Parameters in order, naturally aligned without gaps: see the entry's PTX. */
enum { PARAMETERS = 12, PARAMETER_BYTES = 4 * 8 + 8 * BW_MAILBOX_MAX_RANKS + 8 + 6 * 4 };

/* Bit 2 of the parameter `flags`. */
enum { WEIGHTS_AFTER_WAIT = 1 << 2 };

typedef struct variant {
  const bwi_kernel *kernel;
  uint32_t outputs; /* columns of a CTA */
  uint32_t k_tile;  /* elements of a k tile: block * vector */
  uint32_t trigger; /* default place of the trigger */
} variant;

struct bw_up_proj_plan {
  bw_device *device;
  bw_mailbox *mailbox;
  bw_up_proj_shape shape;
  uint32_t flags; /* BW_UP_PROJ_* */
  uint32_t shard; /* S */
  bw_devptr weight;
  variant by_rows[BW_UP_PROJ_MAX_ROWS]; /* M - 1 */
  uint64_t targets[BW_MAILBOX_MAX_RANKS];
};

/* ---- shapes ------------------------------------------------------------------------ */

static bw_status check_shape(const bw_up_proj_shape *s) {
  if (!s)
    return bwi_fail_null("shape");
  if (s->tp_size == 0 || s->tp_size > BW_MAILBOX_MAX_RANKS)
    return bwi_fail_range("shape.tp_size", s->tp_size, 1, BW_MAILBOX_MAX_RANKS);
  if (s->rank >= s->tp_size)
    return bwi_fail_range("shape.rank", s->rank, 0, s->tp_size - 1);
  if (s->hidden_dim == 0 || s->hidden_dim > 1u << 30)
    return bwi_fail_range("shape.hidden_dim", s->hidden_dim, 8, 1u << 30);
  if (s->hidden_dim % s->tp_size != 0)
    return bwi_fail_multiple("shape.hidden_dim", s->hidden_dim, s->tp_size);
  if (s->max_rows == 0 || s->max_rows > BW_UP_PROJ_MAX_ROWS)
    return bwi_fail_range("shape.max_rows", s->max_rows, 1, BW_UP_PROJ_MAX_ROWS);
  if (s->latent_dim == 0 || s->latent_dim > BWI_UP_PROJ_MAX_LATENT)
    return bwi_fail_range("shape.latent_dim", s->latent_dim, 1, BWI_UP_PROJ_MAX_LATENT);
  return BW_OK;
}

/* ---- choosing entries of the bundle ------------------------------------------------ */

static bw_status fail_missing(const bw_device *device, const bw_up_proj_shape *shape,
                              const bw_up_proj_key *key, const char *name) {
  uint32_t tile = bwi_up_proj_k_tile(key->rows, shape->hidden_dim / shape->tp_size);
  if (shape->latent_dim % tile != 0)
    return bwi_fail(BW_ERROR_UNSUPPORTED,
                    "shape.latent_dim is %u, must be a multiple of %u for %u rows (the bundle has "
                    "no up_proj kernel %s for %s, which would do)",
                    shape->latent_dim, tile, key->rows, name, device->info.arch);
  return bwi_fail(BW_ERROR_UNSUPPORTED, "the bundle has no up_proj kernel %s for %s", name,
                  device->info.arch);
}

/* The entry for `rows` rows in a mode that is no longer AUTO. */
static bw_status find_entry(const bw_device *device, const bw_up_proj_shape *shape, uint32_t rows,
                            bw_mailbox_mode mode, bw_up_proj_key *key, size_t *entry) {
  char name[BW_UP_PROJ_KEY_NAME_SIZE];
  bw_status status =
      bw_up_proj_dispatch(rows, shape->hidden_dim / shape->tp_size, shape->latent_dim, key);
  if (status == BW_OK)
    status = bw_up_proj_key_name(key, mode, name);
  if (status != BW_OK)
    return status;
  *entry = bwi_bundle_find(device->bundle, "up_proj", device->info.arch, name);
  if (*entry == BWI_NOT_FOUND)
    return fail_missing(device, shape, key, name);
  return bwi_kernel_fits(device, bwi_bundle_entry(device->bundle, *entry));
}

static bw_status supported(const bw_device *device, const bw_up_proj_shape *shape,
                           bw_mailbox_mode mode) {
  bw_status status = BW_OK;
  for (uint32_t rows = 1; status == BW_OK && rows <= shape->max_rows; rows++) {
    bw_up_proj_key key;
    size_t entry;
    status = find_entry(device, shape, rows, mode, &key, &entry);
  }
  return status;
}

bw_status bw_up_proj_supported(const bw_device *device, const bw_up_proj_shape *shape,
                               bw_mailbox_mode mode) {
  if (!device)
    return bwi_fail_null("device");
  if ((uint32_t)mode > BW_MAILBOX_LOCAL)
    return bwi_fail_range("mode", (uint32_t)mode, BW_MAILBOX_AUTO, BW_MAILBOX_LOCAL);
  bw_status status = check_shape(shape);
  if (status != BW_OK)
    return status;
  if (mode != BW_MAILBOX_AUTO)
    return supported(device, shape, mode);
  if (shape->tp_size == 1)
    return supported(device, shape, BW_MAILBOX_LOCAL);
  status = supported(device, shape, BW_MAILBOX_MULTICAST);
  return status == BW_OK ? supported(device, shape, BW_MAILBOX_PEERS) : status;
}

/* ---- a kernel's attributes --------------------------------------------------------- */

static bw_status check_attribute(const bw_device *device, size_t entry, const char *name,
                                 uint32_t wanted) {
  uint32_t value = 0;
  bw_status status = bwi_bundle_need_attribute(device->bundle, entry, name, &value);
  if (status != BW_OK || value == wanted)
    return status;
  return bwi_fail(BW_ERROR_BUNDLE, "up_proj %s: attribute %s is %u, must be %u",
                  bwi_bundle_entry(device->bundle, entry)->key, name, value, wanted);
}

/* What this library relies on, so that a bundle of another generation is refused here and
 * not by the GPU. */
static bw_status check_entry(const bw_device *device, const bw_mailbox *mailbox, size_t entry,
                             const bw_up_proj_key *key) {
  const bw_kernel_info *k = bwi_bundle_entry(device->bundle, entry);
  uint32_t bytes = bwi_bundle_parameter_bytes(device->bundle, entry);
  if (bytes != PARAMETER_BYTES)
    return bwi_fail(BW_ERROR_BUNDLE,
                    "up_proj %s takes %u bytes of parameters, this library passes %u: the bundle "
                    "and the library are of different versions",
                    k->key, bytes, (unsigned)PARAMETER_BYTES);
  bw_status status = check_attribute(device, entry, "rows", key->rows);
  if (status == BW_OK)
    status = check_attribute(device, entry, "block", key->block);
  if (status == BW_OK)
    status = check_attribute(device, entry, "outputs", key->outputs);
  if (status == BW_OK)
    status = check_attribute(device, entry, "vector", key->vector);
  if (status == BW_OK)
    status = check_attribute(device, entry, "generations", mailbox->generations);
  return status;
}

static bw_status load_variant(bw_up_proj_plan *plan, uint32_t rows) {
  const bw_bundle *b = plan->device->bundle;
  variant *v = &plan->by_rows[rows - 1];
  bw_up_proj_key key;
  size_t entry;
  bw_status status =
      find_entry(plan->device, &plan->shape, rows, plan->mailbox->mode, &key, &entry);
  if (status == BW_OK)
    status = check_entry(plan->device, plan->mailbox, entry, &key);
  if (status != BW_OK)
    return status;
  v->outputs = key.outputs;
  v->k_tile = key.block * key.vector;
  v->trigger = BWI_TRIGGER_AFTER_WAIT;
  (void)bwi_bundle_attribute(b, entry, "trigger", &v->trigger);
  if (v->trigger != BWI_TRIGGER_LATE && v->trigger != BWI_TRIGGER_AFTER_WAIT)
    return bwi_fail(BW_ERROR_BUNDLE, "up_proj %s: attribute trigger is %u, must be 0 or 2",
                    bwi_bundle_entry(b, entry)->key, v->trigger);
  return bwi_kernel_load(plan->device, entry, &v->kernel);
}

/* ---- plans ------------------------------------------------------------------------- */

static bw_status check_weight(const bw_device *device, const bw_up_proj_shape *shape,
                              bw_devptr weight) {
  uint64_t bytes = UINT64_C(2) * (shape->hidden_dim / shape->tp_size) * shape->latent_dim;
  return bwi_check_operand(device, "weight", weight, bytes);
}

static bw_status check_mailbox(const bw_device *device, const bw_mailbox *m,
                               const bw_up_proj_shape *s) {
  bw_status status = bwi_mailbox_check_ready(m);
  if (status != BW_OK)
    return status;
  if (m->device != device)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "config.mailbox is of device %d, must be of the plan's, %d",
                    m->device->info.ordinal, device->info.ordinal);
  if (s->hidden_dim != m->config.hidden)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "shape.hidden_dim is %u, the mailbox's is %u",
                    s->hidden_dim, m->config.hidden);
  if (s->tp_size != m->config.tp_size)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "shape.tp_size is %u, the mailbox's is %u",
                    s->tp_size, m->config.tp_size);
  if (s->rank != m->config.rank)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "shape.rank is %u, the mailbox's is %u", s->rank,
                    m->config.rank);
  if (s->max_rows > m->config.capacity)
    return bwi_fail_range("shape.max_rows", s->max_rows, 1, m->config.capacity);
  return BW_OK;
}

/* Where this rank's columns of row 0 go.  A CTA's columns of a row are one store of 4, 8 or
 * 16 bytes: the ring and its rows are 16-byte aligned, the rest is checked. */
static bw_status set_targets(bw_up_proj_plan *plan) {
  const bw_mailbox *m = plan->mailbox;
  uint64_t offset = UINT64_C(2) * plan->shape.rank * plan->shard;
  for (uint32_t rows = 1; rows <= plan->shape.max_rows; rows++) {
    uint32_t width = 2 * plan->by_rows[rows - 1].outputs;
    if (offset % width != 0)
      return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                      "shape.rank * hidden_dim / tp_size * 2 is %llu bytes, must be a multiple of "
                      "%u for %u rows",
                      (unsigned long long)offset, width, rows);
    if (m->row_bytes % width != 0)
      return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                      "a mailbox row has %u bytes, must be a multiple of %u for %u rows",
                      m->row_bytes, width, rows);
  }
  for (uint32_t t = 0; t < m->target_count; t++)
    plan->targets[t] = m->targets[t] + offset;
  return BW_OK;
}

static bw_status fill_plan(bw_up_proj_plan *plan) {
  bwi_scope scope;
  bw_status status = bwi_enter(plan->device, &scope);
  if (status != BW_OK)
    return status;
  status = check_weight(plan->device, &plan->shape, plan->weight);
  for (uint32_t rows = 1; status == BW_OK && rows <= plan->shape.max_rows; rows++)
    status = load_variant(plan, rows);
  if (status == BW_OK)
    status = set_targets(plan);
  return bwi_leave(&scope, status);
}

bw_status bw_up_proj_plan_create(bw_device *device, const bw_up_proj_config *config,
                                 bw_up_proj_plan **out) {
  if (!device)
    return bwi_fail_null("device");
  if (!config)
    return bwi_fail_null("config");
  if (!config->mailbox)
    return bwi_fail_null("config.mailbox");
  if (!out)
    return bwi_fail_null("out");
  bw_status status = check_shape(&config->shape);
  if (status == BW_OK)
    status = check_mailbox(device, config->mailbox, &config->shape);
  if (status == BW_OK)
    status = supported(device, &config->shape, config->mailbox->mode);
  if (status == BW_OK)
    status = bwi_check_address("weight", config->weight, 32);
  if (status != BW_OK)
    return status;
  if ((config->flags & ~(uint32_t)BW_UP_PROJ_WEIGHT_AFTER_WAIT) != 0)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "config.flags is 0x%x, must be 0x0 or 0x%x",
                    config->flags, BW_UP_PROJ_WEIGHT_AFTER_WAIT);
  bw_up_proj_plan *plan = calloc(1, sizeof *plan);
  if (!plan)
    return bwi_fail_memory("a plan");
  plan->device = bwi_device_retain(device);
  plan->mailbox = bwi_mailbox_retain(config->mailbox);
  plan->shape = config->shape;
  plan->flags = config->flags;
  plan->shard = config->shape.hidden_dim / config->shape.tp_size;
  plan->weight = config->weight;
  status = fill_plan(plan);
  if (status == BW_OK)
    *out = plan;
  else
    bw_up_proj_plan_destroy(plan);
  return status;
}

bw_status bw_up_proj_plan_update(bw_up_proj_plan *plan, bw_devptr weight) {
  if (!plan)
    return bwi_fail_null("plan");
  bw_status status = bwi_check_address("weight", weight, 32);
  bwi_scope scope;
  if (status == BW_OK)
    status = bwi_enter(plan->device, &scope);
  if (status != BW_OK)
    return status;
  status = bwi_leave(&scope, check_weight(plan->device, &plan->shape, weight));
  if (status == BW_OK)
    plan->weight = weight;
  return status;
}

void bw_up_proj_plan_destroy(bw_up_proj_plan *plan) {
  if (!plan)
    return;
  bw_mailbox_destroy(plan->mailbox);
  bw_device_close(plan->device);
  free(plan);
}

/* ---- launching --------------------------------------------------------------------- */

/* Longest row stride: 8 of them still fit 64-bit byte addresses with room to spare. */
#define MAX_ROW_STRIDE (UINT64_C(1) << 40)

static bw_status check_args(const bw_up_proj_plan *plan, const bw_up_proj_args *args) {
  bw_status status = bwi_check_address("args.latent", args->latent, 32);
  if (status == BW_OK)
    status = bwi_check_address("args.shared", args->shared, 32);
  if (status != BW_OK)
    return status;
  if (args->shared_row_stride < plan->shard || args->shared_row_stride > MAX_ROW_STRIDE)
    return bwi_fail_range("args.shared_row_stride", args->shared_row_stride, plan->shard,
                          MAX_ROW_STRIDE);
  if (args->shared_row_stride % 16 != 0)
    return bwi_fail_multiple("args.shared_row_stride", args->shared_row_stride, 16);
  if ((args->flags & BW_LAUNCH_TRIGGER_ENTRY) &&
      !(plan->mailbox->config.flags & BW_MAILBOX_COPY_WAITS_FIRST))
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "args.flags has BW_LAUNCH_TRIGGER_ENTRY, which needs a mailbox made with "
                    "BW_MAILBOX_COPY_WAITS_FIRST");
  return BW_OK;
}

/* BAREWARP_DEBUG=1. */
static bw_status debug_check(const bw_up_proj_plan *plan, const bw_up_proj_args *args,
                             bw_stream stream) {
  const bw_device *d = plan->device;
  uint64_t rows = args->rows;
  bwi_scope scope;
  bw_status status = bwi_enter(d, &scope);
  if (status != BW_OK)
    return status;
  status = bwi_check_stream(d, stream);
  if (status == BW_OK)
    status = bwi_check_operand(d, "args.latent", args->latent, rows * plan->shape.latent_dim * 2);
  if (status == BW_OK)
    status = bwi_check_operand(d, "args.shared", args->shared,
                               ((rows - 1) * args->shared_row_stride + plan->shard) * 2);
  status = bwi_leave(&scope, status);
  return status == BW_OK ? bwi_contract_check(plan->mailbox, true, args->rows, stream) : status;
}

static bw_status enqueue(const bw_up_proj_plan *plan, const bw_up_proj_args *args,
                         bw_stream stream) {
  const bw_mailbox *m = plan->mailbox;
  const variant *v = &plan->by_rows[args->rows - 1];
  bw_devptr steps = m->counters;
  uint64_t shared_stride = args->shared_row_stride * 2; /* bytes, of bf16 */
  uint32_t row_bytes_latent = plan->shape.latent_dim * 2;
  uint32_t k_tiles = plan->shape.latent_dim / v->k_tile;
  uint32_t flags = bwi_trigger_bits(args->flags, v->trigger);
  if (plan->flags & BW_UP_PROJ_WEIGHT_AFTER_WAIT)
    flags |= WEIGHTS_AFTER_WAIT;
  /* The driver only reads through these: the casts drop const, nothing else. */
  void *parameters[PARAMETERS] = {(void *)&args->latent,
                                  (void *)&plan->weight,
                                  (void *)&args->shared,
                                  &steps,
                                  (void *)plan->targets,
                                  &shared_stride,
                                  (void *)&m->target_count,
                                  &row_bytes_latent,
                                  (void *)&m->row_bytes,
                                  (void *)&m->generation_bytes,
                                  &k_tiles,
                                  &flags};
  return bwi_kernel_launch(plan->device, v->kernel, plan->shard / v->outputs, 1,
                           !(args->flags & BW_LAUNCH_NO_PDL), stream, parameters);
}

bw_status bw_up_proj_launch(const bw_up_proj_plan *plan, const bw_up_proj_args *args,
                            bw_stream stream) {
  if (!plan)
    return bwi_fail_null("plan");
  if (!args)
    return bwi_fail_null("args");
  bw_status status = bwi_mailbox_check_ready(plan->mailbox);
  if (status != BW_OK)
    return status;
  if (args->rows > plan->shape.max_rows)
    return bwi_fail_range("args.rows", args->rows, 0, plan->shape.max_rows);
  status = bwi_check_launch_flags(args->flags);
  if (status != BW_OK || args->rows == 0) /* operands of no rows may be NULL */
    return status;
  status = check_args(plan, args);
  if (status == BW_OK && plan->device->debug)
    status = debug_check(plan, args, stream);
  if (status != BW_OK)
    return status;
  atomic_store_explicit(&plan->mailbox->used, true, memory_order_relaxed);
  status = enqueue(plan, args, stream);
  if (status == BW_OK && plan->device->debug)
    bwi_contract_launched(plan->mailbox, true, args->rows, stream);
  return status;
}
