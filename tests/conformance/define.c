/* SPDX-License-Identifier: Apache-2.0
 *
 * The definitions by name.
 */
#include "conformance/define.h"

#include <string.h>

#include "conformance/judge.h"

static const struct definition *const tables[] = {definitions_scalar, definitions_cuda,
                                                  definitions_cuda_numbers, definitions_cuda_moves,
                                                  definitions_tensor};

bool define(const struct kernel_file *k, const uint64_t *in, uint64_t threads, uint64_t *out) {
  for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
    for (const struct definition *d = tables[t]; d->name; d++)
      if (strcmp(d->name, k->name) == 0) {
        d->compute(in, threads, out);
        return true;
      }
  return false;
}
