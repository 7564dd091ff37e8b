/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of matrix instructions: registers of elements whose kind of number the tile
 * decides (enum pool_mode).
 */
#ifndef BW_CONFORMANCE_TILE_H
#define BW_CONFORMANCE_TILE_H

#include <stdbool.h>
#include <stdint.h>

/* kind: an element type and how many in a 32-bit register ("f16x2", "e4m3x4", "tf32"),
 * or, with a c before it, an accumulator ("cf32", "cf16x2", "cs32"). */
bool tile_fill(const char *kind, unsigned operand, uint64_t threads, unsigned tile,
               uint64_t *values);

/* Random bits of (operand, thread) from the named seed. */
uint64_t pool_random(unsigned operand, uint64_t thread);

#endif
