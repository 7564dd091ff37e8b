/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions in C of the CUDA C++ kernels.  (Those that calculate: define_cuda_numbers.c; that
 * move and share: define_cuda_moves.c; on tensor cores: define_tensor.c.)
 */
#include <math.h>
#include <string.h>

#include "conformance/define.h"
#include "conformance/define_formats.h"

#define OUT(v) out[(v) * n + i]
#define IN(a)  in[(a) * n + i]

static uint32_t turned(uint32_t a, uint32_t b) { /* the Xor policy */
  return a ^ (b << 1 | b >> 31);
}

static void templates(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    uint32_t a = (uint32_t)IN(0), b = (uint32_t)IN(1), sum = 0, x = 0x5a5a5a5a, most = 0;
    for (uint32_t j = 0; j < 12; j++) {
      uint32_t v = a * (2 * j + 1) + b;
      sum += j < 5 ? v : 0;
      x = turned(x, v);
      most = j < 7 && v > most ? v : most;
    }
    uint32_t p13 = 1, p32 = 1;
    for (int j = 0; j < 13; j++)
      p13 *= a;
    for (int j = 0; j < 32; j++)
      p32 *= b;
    uint32_t c = turned(a + b, b);
    c = (c > b ? c : b) + b;
    OUT(0) = sum;
    OUT(1) = x;
    OUT(2) = most;
    OUT(3) = p13;
    OUT(4) = p32;
    OUT(5) = c;
  }
}

static void local_array(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    uint64_t count[256] = {0}, sorted[16];
    for (unsigned j = 0; j < 16; j++)
      count[IN(j / 8) >> 8 * (j % 8) & 255]++;
    for (unsigned v = 0, k = 0; v < 256; v++)
      for (uint64_t c = 0; c < count[v]; c++)
        sorted[k++] = v;
    for (unsigned j = 0; j < 16; j++)
      OUT(j) = sorted[(IN(0) + 5 * (uint64_t)j) & 15];
  }
}

static void shared_transpose(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    uint64_t first = i / 256 * 256, t = i % 256, x = t % 16, y = t / 16;
    uint32_t sum = 0;
    for (uint64_t j = 0; j < 16; j++)
      sum += (uint32_t)(in[first + 16 * y + j] * (j + 1));
    OUT(0) = in[first + 16 * x + y];
    OUT(1) = sum;
    OUT(2) = (uint32_t)(in[first + (t ^ 77)] * 3);
  }
}

static void shuffles(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    uint64_t first = i / 32 * 32, lane = i % 32;
    uint32_t sum = 0, scan = 0;
    int32_t most = INT32_MIN;
    for (uint64_t j = 0; j < 32; j++) {
      uint32_t v = (uint32_t)in[first + j];
      sum += v;
      scan += j <= lane ? v : 0;
      most = (int32_t)v > most ? (int32_t)v : most;
    }
    OUT(0) = sum;
    OUT(1) = scan;
    OUT(2) = in[first + (lane * 7 + 3) % 32];
    OUT(3) = lane % 8 + 3 < 8 ? in[i + 3] : in[i];
    OUT(4) = in[first + 9] << 32 | 9;
    OUT(5) = bits_of_double((double)(int32_t)in[first + (lane ^ 5)]);
    OUT(6) = (uint32_t)most;
  }
}

static void atomics(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t first = 0; first < n; first += 256) {
    uint32_t bins[16] = {0}, low = ~0u, high = 0, x = 0, sum = 0, real = 0;
    uint64_t wide = 0;
    for (uint64_t i = first; i < first + 256; i++) {
      uint32_t a = (uint32_t)in[i];
      bins[a & 15]++;
      low = a < low ? a : low;
      high = a > high ? a : high;
      wide += (uint64_t)a << 16;
      real += a & 255;
      x ^= a;
      sum += (a & 1023) - 500;
    }
    for (uint64_t i = first; i < first + 256; i++) {
      OUT(0) = bins[i & 15];
      OUT(1) = low;
      OUT(2) = high;
      OUT(3) = wide;
      OUT(4) = bits_of_float((float)real);
      OUT(5) = x;
      OUT(6) = 0;
      OUT(7) = sum;
      OUT(8) = high;
    }
  }
}

static void int_division(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    uint64_t a = IN(0), b = IN(1) | 1;
    uint32_t x = (uint32_t)a, y = (uint32_t)b;
    int64_t sx = (int32_t)x, sy = (int32_t)y == -1 ? 3 : (int32_t)y, sa = (int64_t)a,
            sb = (int64_t)b == -1 ? 3 : (int64_t)b;
    OUT(0) = x / y;
    OUT(1) = x % y;
    OUT(2) = (uint32_t)(sx / sy);
    OUT(3) = (uint32_t)(sx % sy);
    OUT(4) = a / b;
    OUT(5) = a % b;
    OUT(6) = (uint64_t)(sa / sb);
    OUT(7) = (uint64_t)(sa % sb);
    OUT(8) = x / 7;
    OUT(9) = (uint32_t)(sx % 10);
    OUT(10) = a / 1000000007;
    OUT(11) = (uint64_t)(sa / 12345);
    OUT(12) = (x & 0xffff) / (y & 0xffff);
    OUT(13) = (uint32_t)((int8_t)x % 11);
  }
}

static void switches(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    uint32_t a = (uint32_t)IN(0), k = (uint32_t)IN(1), r = k, x = a, steps = 0, s = 0;
    const uint32_t by[13] = {a + 1,
                             a * 5,
                             (a ^ 0xff00ff) - 9,
                             a - 9,
                             a << 3 | a >> 29,
                             ~a,
                             k,
                             a / 3,
                             (uint32_t)__builtin_popcount(a),
                             a & 0x12345678,
                             k,
                             k,
                             a * a};
    if (k < 13)
      r = by[k];
    while (x != 1 && x != 0 && steps < 60) {
      x = x % 2 ? 3 * x + 1 : x / 2;
      if (x % 17 == 5 && steps > k)
        continue;
      steps++;
      if (x > 0xf0000000)
        break;
    }
    for (uint32_t p = 0; p < k; p++)
      for (uint32_t q = p; q < (a & 7); q++)
        s += (p ^ q) & 1 ? p * q + 1 : 0;
    OUT(0) = r;
    OUT(1) = steps;
    OUT(2) = s;
  }
}

static void constants(const uint64_t *in, uint64_t n, uint64_t *out) {
  static const int a[3] = {1, -2, 3}, at[2] = {20, 40};
  static const double b[3] = {0.5, 1.5, -2.25};
  for (uint64_t i = 0; i < n; i++) {
    uint64_t k = IN(0);
    OUT(0) = (uint32_t)a[k % 3];
    OUT(1) = bits_of_double(b[k % 3] * 2);
    OUT(2) = (uint64_t)at[k & 1];
    OUT(3) = (uint64_t)(unsigned char)"conformance"[k % 12];
    OUT(4) = 1234;
  }
}

static uint32_t mix(uint32_t a, uint32_t b) {
  a ^= b << 13;
  a ^= a >> 17;
  return a * 0x9e3779b1u + b;
}

static void lineinfo(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    uint32_t a = (uint32_t)IN(0), b = (uint32_t)IN(1);
    for (uint32_t j = 0; j < 3; j++)
      a = mix(a, b + j);
    OUT(0) = a;
    OUT(1) = mix(b, a);
  }
}

static void struct_params(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    uint64_t a = IN(0);
    float scale = float_of(IN(1)) * 2;
    OUT(0) = ((a ^ a >> 24) & 255) | (((a >> 8) + (a >> 40 & 255)) & 0xffff) << 8;
    OUT(1) = isnan(scale) ? 0x7fffffff : bits_of_float(scale);
    OUT(2) = bits_of_double((double)(int32_t)(a >> 32) + (double)(a >> 32 & 255));
    OUT(3) = a;
    OUT(4) = ~a - a;
  }
}

static void bulk_copy(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    uint64_t v = in[i / 128 * 128 + 127 - i % 128];
    OUT(0) = v;
    OUT(1) = v * 3 * (i % 128 < 64 ? 2 : 1);
  }
}

static void warp_specialised(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    uint64_t r = i;
    for (uint64_t c = 0; i >= 128 && c < 8; c++)
      r = r * 33 + in[32 * c + (i + c) % 32];
    OUT(0) = r;
  }
}

/* Chunks of 64 words by 4 rows of the operands as 32-bit words; the ninth is past the end. */
static void tma_pipeline(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    uint32_t r = 0;
    for (uint64_t c = 0; c < 9; c++) {
      uint64_t column = c * 64 + i % 64, word = in[i / 64 * n + column / 2 % n];
      r = r * 31 + (c == 8 ? 0 : (uint32_t)(word >> 32 * (column % 2)));
    }
    OUT(0) = r;
    OUT(1) = 0;
  }
}

static void cluster_memory(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    uint64_t cluster = i / 512 * 512, rank = i / 128 % 4, t = i % 128, next = (rank + 1) % 4;
    uint32_t total = (uint32_t)rank;
    for (uint64_t j = 0; j < 128; j++) /* the CTA after this one adds to it */
      total += in[cluster + 128 * next + j] & 0xffff;
    OUT(0) = in[cluster + 128 * next + t];
    OUT(1) = total;
    OUT(2) = rank * 16 + 4;
    OUT(3) = in[cluster + 256 + 5];
  }
}

const struct definition definitions_cuda[] = {
    {"templates", templates},
    {"local_array", local_array},
    {"shared_transpose", shared_transpose},
    {"shuffles", shuffles},
    {"atomics", atomics},
    {"int_division", int_division},
    {"switches", switches},
    {"constants", constants},
    {"lineinfo", lineinfo},
    {"struct_params", struct_params},
    {"debug", struct_params},
    {"bulk_copy", bulk_copy},
    {"warp_specialised", warp_specialised},
    {"tma_pipeline", tma_pipeline},
    {"cluster_memory", cluster_memory},
    {NULL, NULL},
};
