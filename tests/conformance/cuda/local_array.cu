// SPDX-License-Identifier: Apache-2.0
// A local array with run-time indices: an insertion sort, a heap of one thread's own.
//@ family cuda
//@ inputs b64 b64
//@ launch 2 128 1 0
//@ results 16
//@ definition
#include "common.cuh"

CONFORMANCE conformance(const word *in, word *out, word *) {
  Io io(in, out);
  word a = io.get(0), b = io.get(1);
  int v[16];
  for (int j = 0; j < 16; j++)
    v[j] = int(j < 8 ? a >> (8 * j) : b >> (8 * (j - 8))) & 0xff;
  for (int j = 1; j < 16; j++) {
    int x = v[j], k = j;
    while (k > 0 && v[k - 1] > x) {
      v[k] = v[k - 1];
      k--;
    }
    v[k] = x;
  }
  int at = int(a & 15);
  for (int j = 0; j < 16; j++) {
    io.put(v[at]);
    at = (at + 5) & 15;
  }
}
