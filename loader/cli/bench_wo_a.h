/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers of wo_a of one shape for benchmarks, each with weights of its own.
 */
#ifndef BW_CLI_BENCH_WO_A_H
#define BW_CLI_BENCH_WO_A_H

#include "cli/bench.h"

typedef struct bench_wo_a_layer {
  CUdeviceptr weight, scale;
  bw_wo_a_plan *plan;
} bench_wo_a_layer;

typedef struct bench_wo_a {
  bw_wo_a_shape shape; /* given */
  uint32_t layers;     /* given, or 0: as many as it takes to leave the cache */
  uint32_t tokens;     /* of the row under way, up to the shape's */
  bench_wo_a_layer *layer;
  CUdeviceptr memory[5]; /* x, positions, rope, q, qs */
  size_t q_bytes, qs_bytes;
} bench_wo_a;

bool bench_wo_a_open(bench *b, bench_wo_a *j);
void bench_wo_a_close(bench *b, bench_wo_a *j);
/* For bench_chain: launch `number` is layer number % layers. */
bool bench_wo_a_launch(bench *b, void *data, uint32_t r, uint32_t number,
                       const struct bench_way *way, CUstream stream);
/* What a launch must read and write. */
double bench_wo_a_bytes(const bench_wo_a *j);

#endif
