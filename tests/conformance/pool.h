/* SPDX-License-Identifier: Apache-2.0
 *
 * The operands of the conformance kernels: for each kind of value its corner cases, then
 * random ones.  A value depends on the named seed, the operand's number and the thread
 * alone, so that every run of a kernel, on any driver and of any size, sees the same.
 */
#ifndef BW_CONFORMANCE_POOL_H
#define BW_CONFORMANCE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#define POOL_SEED "barewarp-conformance-1"

/* Fills values[0..threads) with operand number `operand` of `operands`.
 * kind: the name of the pool ("f32", "shift", "tile:f16x2"); tile: threads that share a
 * matrix tile, and with it what kind of numbers they hold (pool_tile_mode).
 * false: no such pool.
 * The first threads of one operand see every corner; of two, every pair of corners; of
 * three and more, random corners in the first half. */
bool pool_fill(const char *kind, unsigned operand, unsigned operands, uint64_t threads,
               unsigned tile, uint64_t *values);

/* What the elements of a tile are, by the tile's number. */
enum pool_mode {
  TILE_moderate,   /* exponents within a few powers of two */
  TILE_wide,       /* any finite number, exponents spread evenly */
  TILE_cancelling, /* few magnitudes, random signs: sums near zero */
  TILE_subnormal,  /* smallest exponents */
  TILE_zeros,      /* half of the elements zero, the others wide */
  TILE_infinite,   /* an infinity now and then */
  TILE_nan,        /* a NaN or an infinity now and then */
  TILE_raw,        /* random bits */
  TILE_modes
};

/* A well-mixed 64-bit function of a number; pure. */
uint64_t pool_mix(uint64_t number);

#endif
