/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors, random numbers, guarded memory; see support.h.
 */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256 };
#define CANARY 0x5ac3a53cu

unsigned long long client_seed;
unsigned comparisons;
static unsigned long long drawn;

/* ---- errors, random numbers --------------------------------------------------------- */

void check(CUresult result, const char *call) {
  if (result == CUDA_SUCCESS)
    return;
  const char *name = "unknown";
  (void)cuGetErrorName(result, &name);
  (void)fprintf(stderr, "seed %llu: %s: %s\n", client_seed, call, name);
  exit(1);
}

void require(int good, const char *what) {
  comparisons++;
  if (good)
    return;
  (void)fprintf(stderr, "seed %llu: wrong: %s\n", client_seed, what);
  exit(1);
}

/* splitmix64. */
uint64_t draw(void) {
  uint64_t z = client_seed + ++drawn * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* Of any sign, mostly in [2^-8, 2^8); one of sixteen is zero, subnormal or large. */
static float draw_float(void) {
  uint64_t bits = draw();
  float sign = bits & 1 ? -1.0f : 1.0f, fraction = 1 + (float)(bits >> 40) * 0x1p-24f;
  switch (bits >> 1 & 15) {
  case 0:
    return sign * (bits & 32 ? 0.0f : bits & 64 ? 0x1p-140f * fraction : 0x1p12f * fraction);
  default:
    return sign * ldexpf(fraction, (int)(bits >> 5 & 15) - 8);
  }
}

void draw_floats(float *x, unsigned n) {
  for (unsigned i = 0; i < n; i++)
    x[i] = draw_float();
}

static uint32_t word_of(float x) {
  uint32_t word;
  memcpy(&word, &x, 4);
  return word;
}

/* ---- memory between canaries -------------------------------------------------------- */

struct buffer make_buffer(unsigned count) {
  struct buffer b = {.count = count};
  size_t bytes = 4 * (size_t)count;
  void *host;
  CU(cuMemAlloc(&b.device, bytes + 2 * GUARD));
  CU(cuMemsetD32(b.device, CANARY, count + 2 * GUARD / 4));
  CU(cuStreamSynchronize(
      NULL)); /* a memset is not over when it returns, nor do other streams wait */
  CU(cuMemHostAlloc(&host, bytes + 2 * GUARD, CU_MEMHOSTALLOC_PORTABLE));
  uint32_t *words = host;
  for (unsigned i = 0; i < count + 2 * GUARD / 4; i++)
    words[i] = CANARY;
  b.device += GUARD;
  b.host = (float *)(words + GUARD / 4);
  return b;
}

static void check_canaries(const struct buffer *b) {
  uint32_t guards[2][GUARD / 4];
  CU(cuMemcpyDtoH(guards[0], b->device - GUARD, GUARD));
  CU(cuMemcpyDtoH(guards[1], b->device + 4 * (size_t)b->count, GUARD));
  int intact = 1;
  for (unsigned i = 0; i < GUARD / 4; i++) {
    intact &= guards[0][i] == CANARY && guards[1][i] == CANARY;
    intact &= word_of(b->host[(int)i - GUARD / 4]) == CANARY;
    intact &= word_of(b->host[b->count + i]) == CANARY;
  }
  require(intact, "a canary beside a buffer");
}

void free_buffer(struct buffer *b) {
  check_canaries(b);
  CU(cuMemFree(b->device - GUARD));
  CU(cuMemFreeHost(b->host - GUARD / 4));
}

void poison_host(const struct buffer *b) {
  memset(b->host, 0xff, 4 * (size_t)b->count);
}

void same(const char *what, int device, const float *got, const float *want, unsigned n) {
  comparisons++;
  for (unsigned i = 0; i < n; i++)
    if (word_of(got[i]) != word_of(want[i])) {
      (void)fprintf(stderr, "seed %llu: wrong: device %d, %s[%u] is %a, not %a\n", client_seed,
                    device, what, i, (double)got[i], (double)want[i]);
      exit(1);
    }
}
