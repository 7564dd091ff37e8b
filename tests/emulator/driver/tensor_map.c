/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor maps: the calls; the checks and the format are the units' (units/tensormap.h).
 */
#include "driver.h"

#include "../units/tensormap.h"

#include <stdlib.h>

/* The reason is worth more than the number: EMU_TRACE shows it. */
static CUresult refuse(const char *why) {
  const char *trace = getenv("EMU_TRACE");
  if (trace && *trace && *trace != '0')
    complain("cuTensorMapEncodeTiled: %s", why);
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                void *address, const cuuint64_t *dim, const cuuint64_t *strides,
                                const cuuint32_t *box, const cuuint32_t *element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  API(ENTER_init);
  char why[256] = "";
  if (!map)
    return CUDA_ERROR_INVALID_VALUE;
  if (tensormap_encode(map, type, rank, (uintptr_t)address, dim, strides, box, element_strides,
                       interleave, swizzle, promotion, fill, why, sizeof why))
    return refuse(why);
  return CUDA_SUCCESS;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address) {
  API(ENTER_init);
  char why[256] = "";
  struct tensormap t;
  if (!map || !tensormap_decode(map, &t))
    return CUDA_ERROR_INVALID_VALUE;
  t.address = (uintptr_t)address;
  if (tensormap_check(&t, why, sizeof why))
    return refuse(why);
  tensormap_store(&t, map);
  return CUDA_SUCCESS;
}
