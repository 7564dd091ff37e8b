// SPDX-License-Identifier: Apache-2.0
// Constant and global variables with initial values, pointers between them, a managed one
// (.attribute(.managed)).
//@ family cuda
//@ inputs small
//@ launch 1 128 1 0
//@ results 5
//@ definition
#include "common.cuh"

struct Pair {
  short a;
  double b;
};
__constant__ Pair pairs[3] = {{1, 0.5}, {-2, 1.5}, {3, -2.25}};
__device__ int base[4] = {10, 20, 30, 40};
__device__ int *pointers[2] = {&base[1], &base[3]};
__device__ const char text[] = "conformance";
__managed__ int shared_with_host = 1234;

CONFORMANCE conformance(const word *in, word *out, word *) {
  Io io(in, out);
  unsigned k = unsigned(io.get(0));
  io.put(int(pairs[k % 3].a));
  io.put(pairs[k % 3].b * 2);
  io.put(*pointers[k & 1]);
  io.put(unsigned(text[k % sizeof text]));
  io.put(shared_with_host);
}
