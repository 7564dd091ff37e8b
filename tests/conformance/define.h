/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions in C of what conformance kernels must answer, written from the PTX ISA.
 * Nothing here is shared with the emulated driver.
 */
#ifndef BW_CONFORMANCE_DEFINE_H
#define BW_CONFORMANCE_DEFINE_H

#include <stddef.h>
#include <stdint.h>

struct definition {
  const char *name; /* the kernel's */
  /* Operand a of thread i is in[a * threads + i]; result v goes to out[v * threads + i]. */
  void (*compute)(const uint64_t *in, uint64_t threads, uint64_t *out);
};

extern const struct definition definitions_scalar[], definitions_cuda[], definitions_cuda_numbers[],
    definitions_cuda_moves[], definitions_tensor[];

#endif
