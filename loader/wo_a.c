/* SPDX-License-Identifier: Apache-2.0
 *
 * wo_a: plans and launches.
 *
 * A plan holds tensor maps and, for every token count it may be asked for, the
 * loaded kernel.  Launching copies pointers and sizes into an array on the stack and
 * makes one driver call; it writes to nothing that another launch could see.
 */
#include "wo_a.h"
#include "device.h"
#include "error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the kernels' interface ------------------------------------------------------------ */

/* Parameters in order, all naturally aligned without gaps: see the entry's PTX. */
enum { PARAMETERS = 12, PARAMETER_BYTES = 2 * 128 + 6 * 8 + 4 * 4 };

/* Bit of the parameter `flags`, above the BWI_TRIGGER_* in bits 0-1: nothing is read before
 * griddepcontrol.wait.  On Hopper, moreover, most of the weights are requested behind x and rope,
 * which would else come after them. */
enum { WEIGHTS_AFTER_WAIT = 1 << 2 };

/* A kernel and what the bundle's attributes say about launching it. */
typedef struct variant {
  const bwi_kernel *kernel;
  uint32_t tile_n;     /* outputs of a cluster; rows of the boxes of both maps */
  uint32_t box_k;      /* columns of the weight box, one a byte */
  uint32_t scale_box;  /* words of K of the scale box */
  uint32_t grid_y;     /* token tiles, unless the kernel says otherwise */
  uint32_t trigger;    /* default place of the trigger */
  uint32_t cta_tokens; /* of a CTA */
  uint32_t teams;      /* n tiles that a CTA has under way */
  uint32_t clusters;   /* of the grid, for each of grid_y */
  size_t map_pair;     /* which of the plan's */
} variant;

/* The maps of the weights and their scales, for kernels that want the same boxes. */
typedef struct maps {
  CUtensorMap weight, scale; /* first: both need 64-byte alignment, which their type has */
  uint32_t tile_n, box_k, scale_box;
} maps;
enum { MOST_MAPS = 2 };

struct bw_wo_a_plan {
  maps maps[MOST_MAPS];
  size_t maps_count;
  bw_device *device;
  bw_wo_a_shape shape;
  uint32_t flags;                            /* BW_WO_A_* */
  uint32_t outputs;                          /* N = G*R */
  uint64_t x_row;                            /* elements of a token in x: G*H*512 */
  size_t count;                              /* variants in use */
  variant *variants;                         /* count */
  uint8_t by_tokens[BW_WO_A_MAX_TOKENS + 1]; /* T -> variant; [0] is unused */
};

/* ---- choosing entries of the bundle --------------------------------------------------------- */

static size_t find_entry(const bw_device *device, const bw_wo_a_key *key) {
  char name[BW_WO_A_KEY_NAME_SIZE];
  if (bw_wo_a_key_name(key, name) != BW_OK)
    return BWI_NOT_FOUND;
  return bwi_bundle_find(device->bundle, "wo_a", device->info.arch, name);
}

/* "1, 2, 4, 8": the heads per group that the bundle has at least one kernel for. */
static void list_heads(const bw_device *device, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t heads = 1; heads <= 8; heads++) {
    bw_wo_a_key key = {.tile = 1, .tiles = 1, .full = 1, .heads_per_group = heads};
    if (find_entry(device, &key) != BWI_NOT_FOUND && used + 4 < size)
      used += (size_t)snprintf(text + used, size - used, "%s%u", used ? ", " : "", heads);
  }
}

static bw_status fail_missing(const bw_device *device, const bw_wo_a_key *key) {
  char name[BW_WO_A_KEY_NAME_SIZE], heads[32];
  (void)bw_wo_a_key_name(key, name);
  list_heads(device, heads, sizeof heads);
  return bwi_fail(BW_ERROR_UNSUPPORTED,
                  "shape.heads_per_group is %u: the bundle has no wo_a kernel %s for %s; it has "
                  "kernels for heads per group %s",
                  key->heads_per_group, name, device->info.arch, *heads ? heads : "none");
}

/* Entries for all keys of the shape; `entries` has room for BW_WO_A_MAX_TOKENS. */
static bw_status find_entries(const bw_device *device, const bw_wo_a_shape *shape, size_t *entries,
                              size_t *count) {
  bw_wo_a_key keys[BW_WO_A_MAX_TOKENS];
  bw_status status =
      bw_wo_a_keys(shape->max_tokens, shape->heads_per_group, keys, BW_WO_A_MAX_TOKENS, count);
  for (size_t i = 0; status == BW_OK && i < *count; i++) {
    entries[i] = find_entry(device, &keys[i]);
    if (entries[i] == BWI_NOT_FOUND)
      return fail_missing(device, &keys[i]);
    status = bwi_kernel_fits(device, bwi_bundle_entry(device->bundle, entries[i]));
  }
  return status;
}

bw_status bw_wo_a_supported(const bw_device *device, const bw_wo_a_shape *shape) {
  if (!device)
    return bwi_fail_null("device");
  bw_status status = bwi_wo_a_check_shape(shape);
  if (status != BW_OK)
    return status;
  size_t entries[BW_WO_A_MAX_TOKENS], count = 0;
  return find_entries(device, shape, entries, &count);
}

/* ---- a kernel's attributes ----------------------------------------------------- */

static bw_status fail_attribute(const bw_kernel_info *k, const char *name, uint32_t value,
                                const char *wanted) {
  return bwi_fail(BW_ERROR_BUNDLE, "wo_a %s: attribute %s is %u, must be %s", k->key, name, value,
                  wanted);
}

/* What this library relies on, so that a bundle of another generation is refused here and
 * not by the GPU. */
static bw_status check_variant(const bw_kernel_info *k, const variant *v, uint32_t parameter_bytes,
                               uint32_t heads) {
  if (parameter_bytes != PARAMETER_BYTES)
    return bwi_fail(BW_ERROR_BUNDLE,
                    "wo_a %s takes %u bytes of parameters, this library passes %d: the bundle and "
                    "the library are of different versions",
                    k->key, parameter_bytes, PARAMETER_BYTES);
  if (k->cluster != heads)
    return bwi_fail(BW_ERROR_BUNDLE, "wo_a %s has clusters of %u, must be its heads, %u", k->key,
                    k->cluster, heads);
  if (v->tile_n < 16 || 128 % v->tile_n != 0)
    return fail_attribute(k, "tile_n", v->tile_n, "16, 32, 64 or 128");
  if (v->box_k == 0 || v->box_k % 16 != 0 || v->box_k > 128)
    return fail_attribute(k, "box_k", v->box_k, "16..128 and a multiple of 16");
  if (v->scale_box == 0 || v->scale_box > 4)
    return fail_attribute(k, "scale_box", v->scale_box, "1..4");
  if (v->grid_y == 0)
    return fail_attribute(k, "grid_y", v->grid_y, "at least 1");
  if (v->teams < 1 || v->teams > 2)
    return fail_attribute(k, "teams", v->teams, "1 or 2");
  if (v->trigger > BWI_TRIGGER_AFTER_WAIT)
    return fail_attribute(k, "trigger", v->trigger, "0..2");
  return BW_OK;
}

static bw_status read_variant(const bw_device *device, size_t entry, const bw_wo_a_shape *shape,
                              variant *v) {
  const bw_bundle *b = device->bundle;
  uint32_t tile = 0, tiles = 0;
  bw_status status = bwi_bundle_need_attribute(b, entry, "tile_n", &v->tile_n);
  if (status == BW_OK)
    status = bwi_bundle_need_attribute(b, entry, "box_k", &v->box_k);
  if (status == BW_OK)
    status = bwi_bundle_need_attribute(b, entry, "scale_box", &v->scale_box);
  if (status == BW_OK)
    status = bwi_bundle_need_attribute(b, entry, "tile", &tile);
  if (status == BW_OK)
    status = bwi_bundle_need_attribute(b, entry, "tiles", &tiles);
  if (status != BW_OK)
    return status;
  v->grid_y = tiles;
  (void)bwi_bundle_attribute(b, entry, "grid_y", &v->grid_y);
  v->trigger = BWI_TRIGGER_LATE;
  (void)bwi_bundle_attribute(b, entry, "trigger", &v->trigger);
  v->teams = 1;
  (void)bwi_bundle_attribute(b, entry, "teams", &v->teams);
  status = check_variant(bwi_bundle_entry(b, entry), v, bwi_bundle_parameter_bytes(b, entry),
                         shape->heads_per_group);
  if (status == BW_OK)
    v->cta_tokens = tile * tiles / v->grid_y;
  return status;
}

/* ---- weights ------------------------------------------------------------------- */

static bw_status check_weights(const bw_device *device, const bw_wo_a_shape *shape,
                               bw_devptr weight, bw_devptr weight_scale) {
  uint64_t rows = (uint64_t)shape->groups * shape->lora_rank;
  uint64_t columns = (uint64_t)shape->heads_per_group * BW_WO_A_HEAD_DIM;
  bw_status status = bwi_check_operand(device, "weight", weight, rows * columns);
  if (status == BW_OK)
    status = bwi_check_operand(device, "weight_scale", weight_scale, rows * columns / 32);
  return status;
}

static bw_status check_weight_addresses(bw_devptr weight, bw_devptr weight_scale) {
  bw_status status = bwi_check_address("weight", weight, 16);
  return status == BW_OK ? bwi_check_address("weight_scale", weight_scale, 16) : status;
}

/* weight as bytes [N, K] with boxes of tile_n rows x box_k columns in the 128-byte swizzle,
 * weight_scale as words [G, K/128, R] with boxes of tile_n rows x scale_box words.
 * L2 promotion of the weights to 128 bytes, the width of a box: with 256 an H200 streams them 2 to
 * 6% slower, whatever the order of boxes (ptx/wo_a/TUNING.md). */
static bw_status encode_maps(const bw_device *device, const bw_wo_a_shape *shape, bw_devptr weight,
                             bw_devptr weight_scale, maps *m) {
  const bwi_driver *cu = device->driver;
  cuuint64_t rank = shape->lora_rank;
  cuuint64_t k = (cuuint64_t)shape->heads_per_group * BW_WO_A_HEAD_DIM;
  cuuint32_t ones[3] = {1, 1, 1};

  cuuint64_t weight_dims[2] = {k, shape->groups * rank};
  cuuint64_t weight_strides[1] = {k};
  cuuint32_t weight_box[2] = {m->box_k, m->tile_n};
  bw_status status = BWI_CALL(
      cu, cuTensorMapEncodeTiled,
      (&m->weight, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, (void *)(uintptr_t)weight, weight_dims,
       weight_strides, weight_box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
       CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  if (status != BW_OK)
    return status;

  cuuint64_t scale_dims[3] = {rank, k / 128, shape->groups};
  cuuint64_t scale_strides[2] = {rank * 4, rank * 4 * (k / 128)};
  cuuint32_t scale_box[3] = {m->tile_n, m->scale_box, 1};
  return BWI_CALL(cu, cuTensorMapEncodeTiled,
                  (&m->scale, CU_TENSOR_MAP_DATA_TYPE_INT32, 3, (void *)(uintptr_t)weight_scale,
                   scale_dims, scale_strides, scale_box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
                   CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* A kernel usually has a cluster for each n tile.  One with the attribute any_clusters (1, or
 * the most to have at once) divides the n tiles evenly among the clusters it gets, the first so
 * many one more; a cluster quantizes x anew for each group that its tiles touch.  Clusters beyond
 * those that the device holds at once form another wave.  What it takes, in cycles of an H200 as
 * its clocks were read there with 8 to 96 tokens a CTA (ptx/wo_a/TUNING.md): quantizing, and an n
 * tile of 128 rows, or of fewer, which more tokens make up for.  Two tiles that two teams have at
 * once take as long as one and a half. */
enum { QUANTIZE_CYCLES = 2300, QUANTIZE_TOKEN = 66 };
enum { TILE_CYCLES = 2900, TILE_TOKEN = 38, SMALL_TILE_CYCLES = 1000, SMALL_TILE_TOKEN = 31 };
enum { MOST_WALKED = 256 }; /* clusters looked at one by one: plans of any size are made at once */

/* Of n tiles of one group. */
static uint64_t cost_in_group(const variant *v, uint64_t count) {
  uint64_t quantize = QUANTIZE_CYCLES + (uint64_t)QUANTIZE_TOKEN * v->cta_tokens;
  uint64_t tile = v->tile_n == 128 ? TILE_CYCLES + (uint64_t)TILE_TOKEN * v->cta_tokens
                                   : SMALL_TILE_CYCLES + (uint64_t)SMALL_TILE_TOKEN * v->cta_tokens;
  if (count == 0)
    return 0;
  if (v->teams == 1)
    return quantize + count * tile;
  return quantize + count / 2 * (tile + tile / 2) + count % 2 * tile;
}

/* Of `count` n tiles from number `first` on: the rest of a group, whole ones, the start of one. */
static uint64_t cost_of_cluster(const variant *v, uint64_t first, uint64_t count,
                                uint64_t per_group) {
  uint64_t head = per_group - first % per_group;
  if (head >= count)
    return cost_in_group(v, count);
  uint64_t rest = count - head;
  return cost_in_group(v, head) + rest / per_group * cost_in_group(v, per_group) +
         cost_in_group(v, rest % per_group);
}

static uint64_t cost_of(const variant *v, uint64_t tiles, uint64_t per_group, uint64_t clusters,
                        uint64_t fit) {
  uint64_t each = tiles / clusters, more = tiles % clusters, first = 0, most = 0;
  if (clusters > MOST_WALKED) /* as if one of the longest ended just in another group */
    most = cost_of_cluster(v, 1, each + (more != 0), per_group);
  for (uint64_t c = 0; clusters <= MOST_WALKED && c < clusters; c++) {
    uint64_t count = each + (c < more);
    uint64_t cycles = cost_of_cluster(v, first, count, per_group);
    most = cycles > most ? cycles : most;
    first += count;
  }
  return (clusters * v->grid_y + fit - 1) / fit * most;
}

/* Of all divisions the cheapest. */
static void choose_clusters(const bw_wo_a_plan *plan, size_t entry, variant *v) {
  uint64_t per_group = plan->shape.lora_rank / v->tile_n, tiles = plan->outputs / v->tile_n;
  uint64_t fit = v->kernel->clusters, least = UINT64_MAX;
  uint32_t any = 0;
  v->clusters = (uint32_t)tiles;
  if (!bwi_bundle_attribute(plan->device->bundle, entry, "any_clusters", &any) || any == 0)
    return;
  if (any > 1 && any < fit)
    fit = any;
  uint64_t most = tiles * v->grid_y / fit + per_group;
  for (uint64_t each = 0; each <= most && each <= tiles; each++) {
    /* First as many as run at once: some then have a tile less. */
    uint64_t clusters = each == 0 ? fit / v->grid_y : (tiles + each - 1) / each;
    if (clusters == 0 || clusters > tiles)
      continue;
    uint64_t cost = cost_of(v, tiles, per_group, clusters, fit);
    if (cost < least) {
      least = cost;
      v->clusters = (uint32_t)clusters;
    }
  }
}

/* The plan's maps for the boxes of a variant: those that an earlier one wants, or new ones. */
static bw_status choose_maps(bw_wo_a_plan *plan, const bw_kernel_info *k, variant *v) {
  for (v->map_pair = 0; v->map_pair < plan->maps_count; v->map_pair++) {
    const maps *m = &plan->maps[v->map_pair];
    if (v->tile_n == m->tile_n && v->box_k == m->box_k && v->scale_box == m->scale_box)
      return BW_OK;
  }
  if (v->map_pair == MOST_MAPS)
    return bwi_fail(BW_ERROR_BUNDLE, "wo_a %s wants boxes unlike those of the plan's other kernels",
                    k->key);
  maps *m = &plan->maps[plan->maps_count++];
  m->tile_n = v->tile_n;
  m->box_k = v->box_k;
  m->scale_box = v->scale_box;
  return BW_OK;
}

/* Entry i of the plan. */
static bw_status add_variant(bw_wo_a_plan *plan, size_t i, size_t entry) {
  variant *v = &plan->variants[i];
  bw_status status = read_variant(plan->device, entry, &plan->shape, v);
  if (status == BW_OK)
    status = choose_maps(plan, bwi_bundle_entry(plan->device->bundle, entry), v);
  if (status == BW_OK)
    status = bwi_kernel_load(plan->device, entry, &v->kernel);
  if (status == BW_OK)
    choose_clusters(plan, entry, v);
  return status;
}

/* Which of the plan's keys each token count has: keys come in order of first use. */
static void map_tokens(bw_wo_a_plan *plan, const bw_wo_a_key *keys) {
  for (uint32_t tokens = 1; tokens <= plan->shape.max_tokens; tokens++) {
    bw_wo_a_key key = {0};
    (void)bw_wo_a_dispatch(tokens, plan->shape.heads_per_group, &key);
    for (size_t i = 0; i < plan->count; i++)
      if (memcmp(&keys[i], &key, sizeof key) == 0)
        plan->by_tokens[tokens] = (uint8_t)i;
  }
}

static bw_status fill_plan(bw_wo_a_plan *plan, const bw_wo_a_config *config) {
  size_t entries[BW_WO_A_MAX_TOKENS] = {0};
  bw_wo_a_key keys[BW_WO_A_MAX_TOKENS];
  const bw_wo_a_shape *shape = &plan->shape;
  bw_status status = find_entries(plan->device, shape, entries, &plan->count);
  if (status == BW_OK)
    status = bw_wo_a_keys(shape->max_tokens, shape->heads_per_group, keys, BW_WO_A_MAX_TOKENS,
                          &plan->count);
  if (status != BW_OK)
    return status;
  plan->variants = calloc(plan->count, sizeof *plan->variants);
  if (!plan->variants)
    return bwi_fail_memory("a plan");
  map_tokens(plan, keys);
  bwi_scope scope;
  status = bwi_enter(plan->device, &scope);
  if (status != BW_OK)
    return status;
  status = check_weights(plan->device, shape, config->weight, config->weight_scale);
  for (size_t i = 0; status == BW_OK && i < plan->count; i++)
    status = add_variant(plan, i, entries[i]);
  for (size_t i = 0; status == BW_OK && i < plan->maps_count; i++)
    status = encode_maps(plan->device, shape, config->weight, config->weight_scale, &plan->maps[i]);
  return bwi_leave(&scope, status);
}

bw_status bw_wo_a_plan_create(bw_device *device, const bw_wo_a_config *config, bw_wo_a_plan **out) {
  if (!device)
    return bwi_fail_null("device");
  if (!config)
    return bwi_fail_null("config");
  if (!out)
    return bwi_fail_null("out");
  bw_status status = bwi_wo_a_check_shape(&config->shape);
  if (status == BW_OK)
    status = check_weight_addresses(config->weight, config->weight_scale);
  if (status != BW_OK)
    return status;
  if ((config->flags & ~(uint32_t)BW_WO_A_WEIGHTS_AFTER_WAIT) != 0)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "config.flags is 0x%x, must be 0x0 or 0x%x",
                    config->flags, BW_WO_A_WEIGHTS_AFTER_WAIT);
  _Static_assert(_Alignof(bw_wo_a_plan) >= 64, "cuTensorMapEncodeTiled wants 64-byte alignment");
  size_t size = (sizeof(bw_wo_a_plan) + 127) / 128 * 128;
  bw_wo_a_plan *plan = aligned_alloc(128, size);
  if (!plan)
    return bwi_fail_memory("a plan");
  memset(plan, 0, size);
  plan->device = bwi_device_retain(device);
  plan->shape = config->shape;
  plan->flags = config->flags;
  plan->outputs = config->shape.groups * config->shape.lora_rank;
  plan->x_row = (uint64_t)config->shape.groups * config->shape.heads_per_group * BW_WO_A_HEAD_DIM;
  status = fill_plan(plan, config);
  if (status == BW_OK)
    *out = plan;
  else
    bw_wo_a_plan_destroy(plan);
  return status;
}

bw_status bw_wo_a_plan_update(bw_wo_a_plan *plan, bw_devptr weight, bw_devptr weight_scale) {
  if (!plan)
    return bwi_fail_null("plan");
  bw_status status = check_weight_addresses(weight, weight_scale);
  bwi_scope scope;
  if (status == BW_OK)
    status = bwi_enter(plan->device, &scope);
  if (status != BW_OK)
    return status;
  maps updated[MOST_MAPS]; /* the plan keeps its old ones if this fails */
  memcpy(updated, plan->maps, sizeof updated);
  status = check_weights(plan->device, &plan->shape, weight, weight_scale);
  for (size_t i = 0; status == BW_OK && i < plan->maps_count; i++)
    status = encode_maps(plan->device, &plan->shape, weight, weight_scale, &updated[i]);
  status = bwi_leave(&scope, status);
  if (status == BW_OK)
    memcpy(plan->maps, updated, sizeof updated);
  return status;
}

void bw_wo_a_plan_destroy(bw_wo_a_plan *plan) {
  if (!plan)
    return;
  bw_device_close(plan->device);
  free(plan->variants);
  free(plan);
}

/* ---- launching ------------------------------------------------------------------------------- */

/* Longest token stride: 128 of them still fit 64-bit byte addresses with room to spare. */
#define MAX_TOKEN_STRIDE (UINT64_C(1) << 48)

static bw_status check_args(const bw_wo_a_plan *plan, const bw_wo_a_args *args) {
  bw_status status = bwi_check_address("args.x", args->x, 16);
  if (status != BW_OK)
    return status;
  if (args->x_token_stride < plan->x_row || args->x_token_stride > MAX_TOKEN_STRIDE)
    return bwi_fail_range("args.x_token_stride", args->x_token_stride, plan->x_row,
                          MAX_TOKEN_STRIDE);
  if (args->x_token_stride % 8 != 0)
    return bwi_fail_multiple("args.x_token_stride", args->x_token_stride, 8);
  status = bwi_check_address("args.positions", args->positions, 8);
  if (status == BW_OK)
    status = bwi_check_address("args.rope", args->rope, 16);
  if (status == BW_OK)
    status = bwi_check_address("args.q", args->q, 16);
  if (status == BW_OK)
    status = bwi_check_address("args.qs", args->qs, 16);
  return status;
}

/* BAREWARP_DEBUG=1.  Of rope, whose rows are not known here, the first row. */
static bw_status debug_check(const bw_wo_a_plan *plan, const bw_wo_a_args *args, bw_stream stream) {
  const bw_device *d = plan->device;
  uint64_t tokens = args->tokens;
  uint64_t x_bytes = ((tokens - 1) * args->x_token_stride + plan->x_row) * 2;
  bwi_scope scope;
  bw_status status = bwi_enter(d, &scope);
  if (status != BW_OK)
    return status;
  status = bwi_check_stream(d, stream);
  if (status == BW_OK)
    status = bwi_check_operand(d, "args.x", args->x, x_bytes);
  if (status == BW_OK)
    status = bwi_check_operand(d, "args.positions", args->positions, tokens * 8);
  if (status == BW_OK)
    status = bwi_check_operand(d, "args.rope", args->rope, BW_WO_A_ROPE_DIM * 4);
  if (status == BW_OK)
    status = bwi_check_operand(d, "args.q", args->q, tokens * plan->outputs);
  if (status == BW_OK)
    status = bwi_check_operand(d, "args.qs", args->qs, UINT64_C(4) * plan->outputs);
  return bwi_leave(&scope, status);
}

/* Without PDL there is no time before the wait in which weights could come: x goes first. */
static uint32_t kernel_flags(const bw_wo_a_plan *plan, const variant *v, uint32_t launch_flags) {
  uint32_t flags = bwi_trigger_bits(launch_flags, v->trigger);
  if ((plan->flags & BW_WO_A_WEIGHTS_AFTER_WAIT) || (launch_flags & BW_LAUNCH_NO_PDL))
    flags |= WEIGHTS_AFTER_WAIT;
  return flags;
}

static bw_status enqueue(const bw_wo_a_plan *plan, const bw_wo_a_args *args, bw_stream stream) {
  const variant *v = &plan->variants[plan->by_tokens[args->tokens]];
  const maps *m = &plan->maps[v->map_pair];
  const bw_kernel_info *k = v->kernel->info;
  uint64_t x_token_stride = args->x_token_stride * 2; /* bytes, of bf16 */
  uint32_t tiles_per_group = plan->shape.lora_rank / v->tile_n;
  uint32_t flags = kernel_flags(plan, v, args->flags);
  /* The driver only reads through these: the casts drop const, nothing else. */
  void *parameters[PARAMETERS] = {
      (void *)&m->weight,    (void *)&m->scale,      (void *)&args->x,  (void *)&args->positions,
      (void *)&args->rope,   (void *)&args->q,       (void *)&args->qs, &x_token_stride,
      (void *)&args->tokens, (void *)&plan->outputs, &tiles_per_group,  &flags};
  /* Below 2^31: cluster <= 8, N <= 2^29, tile_n >= 16. */
  uint32_t grid_x = k->cluster * v->clusters;
  return bwi_kernel_launch(plan->device, v->kernel, grid_x, v->grid_y,
                           !(args->flags & BW_LAUNCH_NO_PDL), stream, parameters);
}

bw_status bw_wo_a_launch(const bw_wo_a_plan *plan, const bw_wo_a_args *args, bw_stream stream) {
  if (!plan)
    return bwi_fail_null("plan");
  if (!args)
    return bwi_fail_null("args");
  if (args->tokens > plan->shape.max_tokens)
    return bwi_fail_range("args.tokens", args->tokens, 0, plan->shape.max_tokens);
  bw_status status = bwi_check_launch_flags(args->flags);
  if (status != BW_OK || args->tokens == 0) /* operands of no tokens may be NULL */
    return status;
  status = check_args(plan, args);
  if (status == BW_OK && plan->device->debug)
    status = debug_check(plan, args, stream);
  return status == BW_OK ? enqueue(plan, args, stream) : status;
}
