// SPDX-License-Identifier: Apache-2.0
// wgmma on e4m3: a 64 x 32 tile, rows of 128 bytes with the 128-byte swizzle, four steps of K.
//@ family cuda
//@ only sm_90a
//@ inputs b64 b64 b64 b64 b64 b64
//@ launch 4 128 1 0
//@ results 16
//@ definition
#include "matrices.cuh"

static __device__ uint64_t descriptor(const void *p) {
  // Stride of eight rows 1024 bytes; 128-byte swizzle.
  return uint64_t((shared_address(p) & 0x3ffff) >> 4) | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 |
         uint64_t(1) << 62;
}

CONFORMANCE conformance(const word *in, word *out, word *) {
  __shared__ alignas(1024) uint8_t a[64 * 128], b[32 * 128];
  Io io(in, out);
  int t = threadIdx.x;
  constexpr int es = sizeof(uint8_t), k = 128 / es;
  // A row is two threads' numbers, 16 to a word; a row of B that of four.
  for (int j = 0; j < k / 2; j++)
    *(uint8_t *)&a[swizzled(t / 2, (t % 2 * (k / 2) + j) * es)] = e4m3_of(nibble(io.get(j / 16), j % 16) / 2);
  for (int j = 0; j < k / 4; j++)
    *(uint8_t *)&b[swizzled(t / 4, (t % 4 * (k / 4) + j) * es)] = e4m3_of(nibble(io.get(4 + j / 16), j % 16) / 2);
  fence_async();
  __syncthreads();
  float d[16];
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int s = 0; s < 4; s++)
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
        "%12, %13, %14, %15}, %16, %17, p, 1, 1;\n"
        "}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "l"(descriptor(a) + 2 * s), "l"(descriptor(b) + 2 * s), "r"(s));
  // The accumulators are operands, so that no use of them moves up before the wait.
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
                 "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]),
                 "+f"(d[13]), "+f"(d[14]), "+f"(d[15])::"memory");
  for (int j = 0; j < 16; j++)
    io.put(d[j]);
}
