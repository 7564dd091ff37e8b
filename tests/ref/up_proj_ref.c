/* SPDX-License-Identifier: Apache-2.0
 *
 * up_proj in C; see up_proj_ref.h.
 */
#include "ref/up_proj_ref.h"

#include "ref/formats.h"

#include <math.h>
#include <stdlib.h>

enum { WARP = 32, MAX_BLOCK = 1024 };

struct ref_up_proj_order ref_up_proj_order(uint32_t rows, uint32_t shard, uint32_t latent_dim) {
  struct ref_up_proj_order order = {224, 8};
  if (rows <= 5 && (shard == 448 || shard == 896))
    order.vector = 16;
  if (latent_dim % (order.block * order.vector) != 0)
    order = (struct ref_up_proj_order){32, 8};
  return order;
}

/* ---- the model ---------------------------------------------------------------- */

/* Every lane adds the sum of the lane across; all end with the same bits. */
static float warp_sum(const float *thread_sums) {
  float sums[WARP], next[WARP];
  for (int lane = 0; lane < WARP; lane++)
    sums[lane] = thread_sums[lane];
  for (int across = WARP / 2; across > 0; across /= 2) {
    for (int lane = 0; lane < WARP; lane++)
      next[lane] = sums[lane] + sums[lane ^ across];
    for (int lane = 0; lane < WARP; lane++)
      sums[lane] = next[lane];
  }
  return sums[0];
}

float ref_up_proj_sum(const float *a, const float *w, uint32_t latent_dim,
                      struct ref_up_proj_order order) {
  float thread_sums[MAX_BLOCK];
  for (uint32_t i = 0; i < order.block; i++) {
    float sum = 0;
    for (uint32_t first = i * order.vector; first < latent_dim; first += order.block * order.vector)
      for (uint32_t k = first; k < first + order.vector; k++)
        sum = fmaf(a[k], w[k], sum); /* the product is exact, so one rounding */
    thread_sums[i] = sum;
  }
  float total = 0;
  for (uint32_t warp = 0; warp < order.block / WARP; warp++)
    total += warp_sum(thread_sums + (size_t)warp * WARP);
  return total;
}

uint16_t ref_up_proj_finish_raw(float sum, uint16_t shared) {
  float g = ref_bf16_value(ref_bf16_from_f32(sum));
  return ref_bf16_from_f32(g + ref_bf16_value(shared));
}

uint16_t ref_up_proj_finish(float sum, uint16_t shared) {
  uint16_t out = ref_up_proj_finish_raw(sum, shared);
  return out == 0x8000 ? 0 : out;
}

static float *widen(const uint16_t *from, size_t count, float *to) {
  for (size_t i = 0; i < count; i++)
    to[i] = ref_bf16_value(from[i]);
  return to;
}

bool ref_up_proj_model(const struct ref_up_proj *c, uint16_t *out) {
  size_t length = c->latent_dim;
  float *latent = calloc(c->rows * length + 1, sizeof *latent);
  float *weight = calloc(length, sizeof *weight);
  bool ok = latent != NULL && weight != NULL;
  if (ok) {
    struct ref_up_proj_order order = ref_up_proj_order(c->rows, c->shard, c->latent_dim);
    widen(c->latent, c->rows * length, latent);
    for (size_t n = 0; n < c->shard; n++) {
      widen(c->weight + n * length, length, weight);
      for (size_t m = 0; m < c->rows; m++)
        out[m * c->shard + n] =
            ref_up_proj_finish(ref_up_proj_sum(latent + m * length, weight, c->latent_dim, order),
                               c->shared[m * c->shared_stride + n]);
    }
  }
  free(latent);
  free(weight);
  return ok;
}

/* ---- the truth ------------------------------------------------------------------ */

bool ref_up_proj_truth(const struct ref_up_proj *c, double *sum, double *magnitude) {
  size_t length = c->latent_dim;
  float *latent = calloc(c->rows * length + 1, sizeof *latent);
  float *weight = calloc(length, sizeof *weight);
  bool ok = latent != NULL && weight != NULL;
  if (ok) {
    widen(c->latent, c->rows * length, latent);
    for (size_t n = 0; n < c->shard; n++) {
      widen(c->weight + n * length, length, weight);
      for (size_t m = 0; m < c->rows; m++) {
        const float *a = latent + m * length;
        double y = 0, absolute = 0;
        for (size_t k = 0; k < length; k++) {
          double product = (double)a[k] * (double)weight[k];
          y += product;
          absolute += fabs(product);
        }
        sum[m * c->shard + n] = y;
        magnitude[m * c->shard + n] = absolute;
      }
    }
  }
  free(latent);
  free(weight);
  return ok;
}
