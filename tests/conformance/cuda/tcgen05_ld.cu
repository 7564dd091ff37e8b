// SPDX-License-Identifier: Apache-2.0
// Every shape of tcgen05.ld and tcgen05.st: tensor memory is filled with words that tell lane
// and column, each shape is loaded; then each shape is stored and read back by lanes.
//@ family cuda
//@ only sm_100a
//@ inputs b64
//@ launch 1 128 1 0
//@ results 240
//@ definition
#include "tcgen05.cuh"

#define TO_16(op) \
  op(d[0]), op(d[1]), op(d[2]), op(d[3]), op(d[4]), op(d[5]), op(d[6]), op(d[7]), op(d[8]), op(d[9]), \
      op(d[10]), op(d[11]), op(d[12]), op(d[13]), op(d[14]), op(d[15])
#define LOADED(v) "=r"(v)
#define STORED(v) "r"(v)
#define LOAD(shape, split)                                                                          \
  do {                                                                                              \
    uint32_t d[16];                                                                                 \
    asm volatile("tcgen05.ld.sync.aligned." shape ".b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "  \
                 "%10, %11, %12, %13, %14, %15}, [%16]" split ";\ntcgen05.wait::ld.sync.aligned;"    \
                 : TO_16(LOADED)                                                                    \
                 : "r"(at)                                                                          \
                 : "memory");                                                                       \
    for (int j = 0; j < 16; j++)                                                                    \
      io.put(d[j]);                                                                                 \
  } while (0)
// Clears 32 columns, stores 16 registers of each thread, reads the 32 columns back.
#define STORE(shape, split)                                                                         \
  do {                                                                                              \
    uint32_t d[16], all[32];                                                                        \
    for (int j = 0; j < 16; j++)                                                                    \
      d[j] = 0;                                                                                     \
    asm volatile("tcgen05.st.sync.aligned.32x32b.x16.b32 [%16], {%0, %1, %2, %3, %4, %5, %6, %7, "  \
                 "%8, %9, %10, %11, %12, %13, %14, %15};\n"                                         \
                 "tcgen05.st.sync.aligned.32x32b.x16.b32 [%17], {%0, %1, %2, %3, %4, %5, %6, %7, "  \
                 "%8, %9, %10, %11, %12, %13, %14, %15};\ntcgen05.wait::st.sync.aligned;" ::TO_16(  \
                     STORED),                                                                       \
                 "r"(at), "r"(at + 16)                                                              \
                 : "memory");                                                                       \
    for (int j = 0; j < 16; j++)                                                                    \
      d[j] = 0x10000 + t * 16 + j;                                                                  \
    asm volatile("tcgen05.st.sync.aligned." shape ".b32 [%16]" split ", {%0, %1, %2, %3, %4, %5, "  \
                 "%6, %7, %8, %9, %10, %11, %12, %13, %14, %15};\ntcgen05.wait::st.sync.aligned;" :: \
                     TO_16(STORED),                                                                 \
                 "r"(at)                                                                            \
                 : "memory");                                                                       \
    tmem_load_32(at, all);                                                                          \
    for (int j = 0; j < 32; j++)                                                                    \
      io.put(all[j]);                                                                               \
  } while (0)

CONFORMANCE conformance(const word *in, word *out, word *) {
  __shared__ uint32_t place;
  Io io(in, out);
  uint32_t t = threadIdx.x, base = tmem_alloc(&place, 64), at = base + (t / 32 << 21);
  for (uint32_t c = 0; c < 64; c++)
    asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(at + c), "r"(t << 16 | c) : "memory");
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
  LOAD("32x32b.x16", "");
  LOAD("16x64b.x16", "");
  LOAD("16x128b.x8", "");
  LOAD("16x256b.x4", "");
  LOAD("16x32bx2.x16", ", 24");
  STORE("32x32b.x16", "");
  STORE("16x64b.x16", "");
  STORE("16x128b.x8", "");
  STORE("16x256b.x4", "");
  STORE("16x32bx2.x16", ", 16");
  tmem_free(base, 64);
}
