/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers of the tests; see random.h.
 */
#include "harness/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t splitmix64(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

uint64_t bwt_mix(uint64_t seed, uint64_t number) {
  uint64_t state = seed ^ number * 0xd1342543de82ef95u;
  return splitmix64(&state);
}

uint64_t bwt_run_seed(void) {
  const char *set = getenv("BW_SEED");
  if (set != NULL && *set != '\0')
    return strtoull(set, NULL, 0);
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  uint64_t seed = (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec;
  seed = bwt_mix(seed, (uint64_t)getpid()) >> 40; /* short enough to be typed */
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
  setenv("BW_SEED", text, 1);
  return seed;
}

void bwt_random_seed(struct bwt_random *r, uint64_t seed) {
  for (int i = 0; i < 4; i++)
    r->state[i] = splitmix64(&seed);
}

static uint64_t rotate(uint64_t v, int by) {
  return v << by | v >> (64 - by);
}

uint64_t bwt_random_u64(struct bwt_random *r) {
  uint64_t *s = r->state, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = rotate(s[3], 45);
  return result;
}

uint32_t bwt_random_below(struct bwt_random *r, uint32_t bound) {
  return (uint32_t)((bwt_random_u64(r) >> 32) * bound >> 32);
}

double bwt_random_unit(struct bwt_random *r) {
  return (double)(bwt_random_u64(r) >> 11) * 0x1p-53;
}

double bwt_random_normal(struct bwt_random *r) {
  double u = 1 - bwt_random_unit(r), v = bwt_random_unit(r); /* Box and Muller */
  return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

void bwt_random_bytes(struct bwt_random *r, void *bytes, size_t size) {
  uint8_t *to = bytes;
  while (size > 0) {
    uint64_t word = bwt_random_u64(r);
    size_t n = size < sizeof word ? size : sizeof word;
    memcpy(to, &word, n);
    to += n;
    size -= n;
  }
}
