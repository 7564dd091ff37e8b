// SPDX-License-Identifier: Apache-2.0
// Templates: policies, compile-time loops, recursion over packs.
//@ family cuda
//@ inputs u32 u32
//@ launch 4 256 1 0
//@ results 6
//@ definition
#include "common.cuh"

struct Add {
  static constexpr uint32_t zero = 0;
  static __device__ uint32_t apply(uint32_t a, uint32_t b) { return a + b; }
};
struct Xor {
  static constexpr uint32_t zero = 0x5a5a5a5a;
  static __device__ uint32_t apply(uint32_t a, uint32_t b) { return a ^ (b << 1 | b >> 31); }
};
struct Max {
  static constexpr uint32_t zero = 0;
  static __device__ uint32_t apply(uint32_t a, uint32_t b) { return a > b ? a : b; }
};

template <class Op, int N> struct Fold {
  uint32_t v[N];
  __device__ Fold(uint32_t a, uint32_t b) {
#pragma unroll
    for (int j = 0; j < N; j++)
      v[j] = a * (2 * j + 1) + b;
  }
  __device__ uint32_t run() const {
    uint32_t r = Op::zero;
#pragma unroll
    for (int j = 0; j < N; j++)
      r = Op::apply(r, v[j]);
    return r;
  }
};

template <int N> __device__ uint32_t power(uint32_t x) {
  if constexpr (N == 0)
    return 1;
  else if constexpr (N % 2 == 0)
    return power<N / 2>(x * x);
  else
    return x * power<N - 1>(x);
}

template <class... Ops> __device__ uint32_t chain(uint32_t a, uint32_t b) {
  uint32_t r = a;
  ((r = Ops::apply(r, b)), ...);
  return r;
}

CONFORMANCE conformance(const word *in, word *out, word *) {
  Io io(in, out);
  uint32_t a = uint32_t(io.get(0)), b = uint32_t(io.get(1));
  io.put(Fold<Add, 5>(a, b).run());
  io.put(Fold<Xor, 12>(a, b).run());
  io.put(Fold<Max, 7>(a, b).run());
  io.put(power<13>(a));
  io.put(power<32>(b));
  io.put(chain<Add, Xor, Max, Add>(a, b));
}
