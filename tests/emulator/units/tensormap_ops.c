/* SPDX-License-Identifier: Apache-2.0
 *
 * Instructions on tensor maps: prefetch.tensormap, tensormap.replace and
 * tensormap.cp_fenceproxy (PTX ISA 9.7.9.16, 9.7.9.28, 9.7.13.17).
 */
#include "bulk.h"
#include "tensormap.h"

#include <string.h>

static enum step exec_prefetch(struct warp *w, const struct insn *I, uint32_t lanes) {
  enum space sp = I->mod[0] == MOD_param   ? SPACE_param
                  : I->mod[0] == MOD_const ? SPACE_const
                                           : SPACE_generic;
  FOR_LANES(lane, lanes) {
    const struct opd *o = &I->opd[0];
    struct access a = access_of(w, I, lane);
    uint8_t bytes[TENSORMAP_BYTES];
    uint64_t addr;
    if (!opd_address(w, I, o, lane, &addr))
      return STEP_fault;
    a.proxy = PROXY_tensormap;
    if (!mem_load(&a, o->symbol ? (enum space)o->space : sp, addr, TENSORMAP_BYTES, 1, bytes, NULL))
      return STEP_fault;
  }
  return STEP_next;
}

/* PTX numbers the element types a little differently from the driver API. */
static uint8_t element_type(uint64_t code) {
  static const uint8_t types[] = {TM_uint8,       TM_uint16,      TM_uint32,       TM_int32,
                                  TM_uint64,      TM_int64,       TM_float16,      TM_float32,
                                  TM_float32_ftz, TM_float64,     TM_bfloat16,     TM_tf32,
                                  TM_tf32_ftz,    TM_16u4_align8, TM_16u4_align16, TM_16u6_align16};
  return code < sizeof types ? types[code] : 0xff;
}

static void set_field(struct tensormap *t, enum mod field, unsigned ord, uint64_t v) {
  if (ord >= TENSORMAP_RANKS)
    return;
  switch ((int)field) {
  case MOD_global_address:
    t->address = v;
    break;
  case MOD_rank:
    t->rank = (uint8_t)((v & 7) + 1); /* the field counts from 0 */
    break;
  case MOD_box_dim:
    t->box[ord] = (uint32_t)v;
    break;
  case MOD_global_dim:
    t->dim[ord] = v & 0xffffffffu ? v & 0xffffffffu : (uint64_t)1 << 32;
    break;
  case MOD_global_stride:
    if (ord + 1 < TENSORMAP_RANKS)
      t->stride[ord + 1] = v;
    break;
  case MOD_element_stride:
    t->step[ord] = (uint32_t)v;
    break;
  case MOD_elemtype:
    t->type = element_type(v);
    t->stride[0] = tm_element_bytes(t->type);
    break;
  case MOD_interleave_layout:
    t->interleave = (uint8_t)v;
    break;
  case MOD_swizzle_mode:
    t->swizzle = (uint8_t)v;
    break;
  default:
    t->oob_nan = (uint8_t)v;
  }
}

static enum step exec_replace(struct warp *w, const struct insn *I, uint32_t lanes) {
  enum space sp = I->mod[1] == MOD_global        ? SPACE_global
                  : I->mod[1] == MOD_shared__cta ? SPACE_shared
                                                 : SPACE_generic;
  bool has_ord = I->nopd == 3;
  FOR_LANES(lane, lanes) {
    const struct opd *o = &I->opd[0], *value = &I->opd[I->nopd - 1];
    struct access a = access_of(w, I, lane);
    uint8_t bytes[TENSORMAP_BYTES];
    struct tensormap t;
    uint64_t addr;
    if (!opd_address(w, I, o, lane, &addr) || !require_defined(w, I, value, lane, "tensor map"))
      return STEP_fault;
    if (o->symbol)
      sp = (enum space)o->space;
    if (!mem_load(&a, sp, addr, TENSORMAP_BYTES, 64, bytes, NULL))
      return STEP_fault;
    if (!tensormap_decode(bytes, &t)) {
      hard_fault(&a, CHECK_bounds, "bad-tensormap", "no tensor map lies at 0x%llx",
                 (unsigned long long)addr);
      return STEP_fault;
    }
    set_field(&t, (enum mod)I->mod[0], has_ord ? (unsigned)I->opd[1].imm : 0,
              opd_get(w, value, lane));
    tensormap_store(&t, bytes);
    if (!mem_store(&a, sp, addr, TENSORMAP_BYTES, 64, bytes, NULL))
      return STEP_fault;
  }
  return STEP_next;
}

/* One copy by the warp as a whole, then fence.proxy.tensormap::generic.release by each lane. */
static enum step exec_cp_fenceproxy(struct warp *w, const struct insn *I, uint32_t lanes) {
  int lane = __builtin_ctz(lanes);
  struct access a = access_of(w, I, lane);
  uint8_t bytes[TENSORMAP_BYTES], undef[TENSORMAP_BYTES];
  uint64_t to, from;
  bool track = check_on(a.m, CHECK_undef);
  if (!global_operand(w, I, &I->opd[0], lane, &to) ||
      !shared_operand(w, I, &I->opd[1], lane, SPACE_shared, &from) ||
      !mem_load(&a, SPACE_shared_cluster, from, TENSORMAP_BYTES, 128, bytes, track ? undef : NULL))
    return STEP_fault;
  if (!mem_store(&a, SPACE_global, to, TENSORMAP_BYTES, 128, bytes, track ? undef : NULL))
    return STEP_fault;
  order_map_copied(w, lanes, lane,
                   I->mod[0] == MOD_cta       ? SCOPE_cta
                   : I->mod[0] == MOD_cluster ? SCOPE_cluster
                   : I->mod[0] == MOD_gpu     ? SCOPE_gpu
                                              : SCOPE_sys);
  return STEP_next;
}

#define DEFINITION .tested = "definition"

const struct form forms_tensormap[] = {
    {.pattern = "prefetch[.param|.const].tensormap",
     .operands = "m",
     .exec = exec_prefetch,
     DEFINITION},
    {.pattern = "tensormap.replace.tile{.global_address}[.global|.shared::cta].b1024.b64",
     .operands = "m r64",
     .exec = exec_replace,
     DEFINITION},
    {.pattern = "tensormap.replace.tile{.rank}[.global|.shared::cta].b1024.b32",
     .operands = "m r32",
     .exec = exec_replace,
     DEFINITION},
    {.pattern = "tensormap.replace.tile{.box_dim|.global_dim|.element_stride}"
                "[.global|.shared::cta].b1024.b32",
     .operands = "m i r32",
     .exec = exec_replace,
     DEFINITION},
    {.pattern = "tensormap.replace.tile{.global_stride}[.global|.shared::cta].b1024.b64",
     .operands = "m i r64",
     .exec = exec_replace,
     DEFINITION},
    {.pattern = "tensormap.replace.tile{.elemtype|.interleave_layout|.swizzle_mode|.fill_mode}"
                "[.global|.shared::cta].b1024.b32",
     .operands = "m i",
     .exec = exec_replace,
     DEFINITION},
    {.pattern = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release"
                "{.cta|.cluster|.gpu|.sys}.sync.aligned",
     .operands = "m m i",
     .exec = exec_cp_fenceproxy,
     .flags = FORM_aligned,
     DEFINITION},
    {.pattern = NULL},
};
