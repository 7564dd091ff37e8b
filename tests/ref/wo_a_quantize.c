/* SPDX-License-Identifier: Apache-2.0
 *
 * wo_a's first and last steps: inverse RoPE, the MXFP8 quantization of x and of y, and
 * where scales lie.  Every float operation is one correctly rounded f32 operation, as
 * the kernel's instructions are.
 */
#include "ref/formats.h"
#include "ref/wo_a_ref.h"

#include <math.h>
#include <string.h>

size_t ref_wo_a_q_size(const struct ref_wo_a *c) {
  return (size_t)c->tokens * c->groups * c->rank;
}

size_t ref_wo_a_qs_size(const struct ref_wo_a *c) {
  return (size_t)128 * c->groups * c->rank / REF_WO_A_BLOCK;
}

size_t ref_wo_a_qs_offset(uint32_t token, uint32_t column) {
  size_t tile = column / 128;
  return tile * 512 + (size_t)(token % 32) * 16 + (size_t)(token / 32) * 4 + column % 128 / 32;
}

uint8_t ref_wo_a_weight_scale(const struct ref_wo_a *c, uint32_t n, uint32_t block) {
  uint32_t group = n / c->rank, row = n % c->rank;
  uint64_t words_per_group = (uint64_t)c->rank * c->heads * (REF_WO_A_HEAD / 128);
  uint64_t word = group * words_per_group + (uint64_t)(block / 4) * c->rank + row;
  return (uint8_t)(c->weight_scale[word] >> 8 * (block % 4));
}

/* One product, rounded once, whatever the compiler would like to fuse: the product of
 * two f32 is exact in double. */
static float multiply(float a, float b) {
  return (float)((double)a * (double)b);
}

static void rotate_back(float v[REF_WO_A_HEAD], const float *row) {
  for (uint32_t i = 0; i < 32; i++) {
    float *even = &v[REF_WO_A_PLAIN + 2 * i], *odd = even + 1;
    float c = row[i], s = row[32 + i];
    float e = fmaf(*even, c, multiply(*odd, s));
    float o = fmaf(*odd, c, -multiply(*even, s));
    *even = e;
    *odd = o;
  }
}

/* max.f32 of absolute values: a NaN loses; NaN only if all are NaN. */
static float amax_of(const float *v, uint32_t count) {
  float amax = NAN;
  for (uint32_t i = 0; i < count; i++)
    amax = fmaxf(amax, fabsf(v[i]));
  return amax;
}

static uint8_t scale_of(float amax) {
  return ref_ue8m0_from_f32(multiply(amax, (float)(1.0 / 448.0)));
}

void ref_wo_a_quantize(const struct ref_wo_a *c, uint8_t *codes, uint8_t *scales) {
  uint32_t heads = c->groups * c->heads;
  for (uint32_t t = 0; t < c->tokens; t++) {
    const float *rope = c->rope + c->positions[t] * 64;
    for (uint32_t h = 0; h < heads; h++) {
      const uint16_t *x = c->x + t * c->token_stride + (size_t)h * REF_WO_A_HEAD;
      float v[REF_WO_A_HEAD];
      for (uint32_t d = 0; d < REF_WO_A_HEAD; d++)
        v[d] = ref_bf16_value(x[d]);
      rotate_back(v, rope);
      for (uint32_t b = 0; b < REF_WO_A_BLOCKS; b++) {
        const float *block = v + (size_t)b * REF_WO_A_BLOCK;
        float amax = fmaxf(amax_of(block, REF_WO_A_BLOCK), 1e-10f);
        uint8_t e = scale_of(amax);
        float inverse = ref_ue8m0_inverse(e);
        for (uint32_t i = 0; i < REF_WO_A_BLOCK; i++)
          *codes++ = ref_e4m3_from_f32(multiply(block[i], inverse));
        *scales++ = e;
      }
    }
  }
}

void ref_wo_a_quantize_y(const struct ref_wo_a *c, const uint16_t *y, uint8_t *q, uint8_t *qs) {
  uint32_t outputs = c->groups * c->rank;
  if (c->tokens == 0)
    return;
  memset(qs, 0, ref_wo_a_qs_size(c)); /* rows of absent tokens stay 0 */
  for (uint32_t t = 0; t < c->tokens; t++) {
    for (uint32_t n = 0; n < outputs; n += REF_WO_A_BLOCK) {
      float v[REF_WO_A_BLOCK];
      for (uint32_t i = 0; i < REF_WO_A_BLOCK; i++)
        v[i] = ref_bf16_value(y[(size_t)t * outputs + n + i]);
      uint8_t e = scale_of(amax_of(v, REF_WO_A_BLOCK));
      float inverse = ref_ue8m0_inverse(e);
      for (uint32_t i = 0; i < REF_WO_A_BLOCK; i++)
        q[(size_t)t * outputs + n + i] = ref_e4m3_from_f32(multiply(v[i], inverse));
      qs[ref_wo_a_qs_offset(t, n)] = e;
    }
  }
}
