/* SPDX-License-Identifier: Apache-2.0
 *
 * The projection in double: what the quantized operands mean, summed with 53 bits.  It
 * knows nothing of tensor cores; the model and the kernel are judged by it.
 */
#include "ref/formats.h"
#include "ref/wo_a_ref.h"

#include <math.h>
#include <stdlib.h>

enum { LANES = 8 }; /* weight rows summed side by side */

static void sum_rows(const double *x, const double (*w)[LANES], size_t k_size, double *y,
                     double *magnitude) {
  for (size_t first = 0; first < k_size; first += REF_WO_A_BLOCK) {
    double sum[LANES] = {0};
    for (size_t k = first; k < first + REF_WO_A_BLOCK; k++)
      for (int lane = 0; lane < LANES; lane++)
        sum[lane] += x[k] * w[k][lane];
    for (int lane = 0; lane < LANES; lane++) {
      y[lane] += sum[lane];
      magnitude[lane] += fabs(sum[lane]);
    }
  }
}

static void dequantize_x(const struct ref_wo_a *c, const uint8_t *codes, const uint8_t *scales,
                         double *x) {
  size_t count = (size_t)c->tokens * c->groups * c->heads * REF_WO_A_HEAD;
  for (size_t i = 0; i < count; i++)
    x[i] = ref_e4m3_value(codes[i]) * ref_ue8m0_value(scales[i / REF_WO_A_BLOCK]);
}

static void dequantize_rows(const struct ref_wo_a *c, uint32_t n, double (*w)[LANES]) {
  size_t k_size = (size_t)c->heads * REF_WO_A_HEAD;
  for (uint32_t lane = 0; lane < LANES; lane++)
    for (size_t k = 0; k < k_size; k++)
      w[k][lane] = ref_e4m3_value(c->weight[(n + lane) * k_size + k]) *
                   ref_ue8m0_value(ref_wo_a_weight_scale(c, n + lane, (uint32_t)(k / 32)));
}

bool ref_wo_a_truth_y(const struct ref_wo_a *c, double *y, double *magnitude) {
  size_t k_size = (size_t)c->heads * REF_WO_A_HEAD, outputs = (size_t)c->groups * c->rank;
  size_t elements = (size_t)c->tokens * c->groups * k_size;
  uint8_t *codes = malloc(elements), *scales = malloc(elements / REF_WO_A_BLOCK);
  double *x = calloc(elements, sizeof *x);
  double(*w)[LANES] = malloc(k_size * sizeof *w);
  bool ok = codes != NULL && scales != NULL && x != NULL && w != NULL;
  if (ok) {
    ref_wo_a_quantize(c, codes, scales);
    dequantize_x(c, codes, scales, x);
    for (size_t i = 0; i < c->tokens * outputs; i++)
      y[i] = magnitude[i] = 0;
    for (uint32_t n = 0; n < outputs; n += LANES) {
      dequantize_rows(c, n, w);
      for (uint32_t t = 0; t < c->tokens; t++) {
        const double *row = x + ((size_t)t * c->groups + n / c->rank) * k_size;
        size_t at = t * outputs + n;
        sum_rows(row, w, k_size, y + at, magnitude + at);
      }
    }
  }
  free(w);
  free(x);
  free(scales);
  free(codes);
  return ok;
}
