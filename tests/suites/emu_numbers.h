/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers for tests of single instructions: random operands, the bits of floats and back, the
 * value of an f16.  Nothing of the emulator's.
 */
#ifndef BW_SUITES_EMU_NUMBERS_H
#define BW_SUITES_EMU_NUMBERS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef __int128 wide;

/* The seed of rnd: a case sets it first. */
static uint64_t state;
static inline uint64_t rnd(void) { /* splitmix64 */
  uint64_t z = state += 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}
static inline uint32_t f2u(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return u;
}
static inline float u2f(uint32_t u) {
  float f;
  memcpy(&f, &u, 4);
  return f;
}
static inline double u2d(uint64_t u) {
  double d;
  memcpy(&d, &u, 8);
  return d;
}
static inline uint64_t d2u(double d) {
  uint64_t u;
  memcpy(&u, &d, 8);
  return u;
}

/* Corner values first, then random ones; narrower types take the low bits. */
static inline uint64_t operand(void) {
  static const uint64_t corner[] = {0,
                                    1,
                                    2,
                                    3,
                                    31,
                                    32,
                                    33,
                                    63,
                                    64,
                                    127,
                                    128,
                                    255,
                                    256,
                                    0x7fff,
                                    0x8000,
                                    0xffff,
                                    0x10000,
                                    0x7fffffff,
                                    0x80000000,
                                    0xffffffff,
                                    0x100000000,
                                    0x7fffffffffffffff,
                                    0x8000000000000000,
                                    ~0ull,
                                    ~1ull};
  uint64_t r = rnd();
  return r % 3 ? rnd() >> (rnd() % 64) : corner[r / 3 % (sizeof corner / sizeof *corner)];
}

static inline double f16_value(uint32_t h) {
  const int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
  double v = e == 31 ? (m ? (double)NAN : (double)INFINITY)
             : e     ? ldexp(1024 + m, e - 25)
                     : ldexp(m, -24);
  return h >> 15 ? -v : v;
}

/* Of `struct tiny *t` (emu_warp.h): the register of that name in lane l. */
#define R(name) tiny_reg(t, name)[l]

#endif
