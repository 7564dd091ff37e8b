/* SPDX-License-Identifier: Apache-2.0
 *
 * A conformance kernel as its file describes it: lines that start with //@ (README.md).
 */
#ifndef BW_CONFORMANCE_KERNEL_FILE_H
#define BW_CONFORMANCE_KERNEL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNEL_OPERANDS 32
#define KERNEL_TENSORS  4

struct tensor {
  bool scratch; /* over the scratch buffer, else over the operands */
  unsigned type, rank, interleave, swizzle, fill;
  uint64_t dims[5], strides[5], offset;
  uint32_t box[5], steps[5];
};

struct kernel_file {
  char name[64];
  char *text; /* the PTX */
  size_t size;
  char *notes; /* the text that the //@ lines and the numbered comments stand in */
  char family[64], target[16], operand[KERNEL_OPERANDS][24], fails[48];
  unsigned operands, results;
  unsigned grid[3], block[3], cluster[3], shared;
  unsigned tile;   /* threads that hold one matrix tile */
  unsigned sample; /* CTAs of a sample; 0: always all */
  bool zero;       /* the scratch buffer starts as zeros */
  bool definition; /* judged by a definition in C */
  bool unrecorded; /* what the GPU answers is not recorded: the line says why */
  bool varies;     /* the emulated driver may answer otherwise: the line says why */
  char approx[16]; /* how an approximate function is judged; "" if it is none */
  double approx_bits;
  struct tensor tensor[KERNEL_TENSORS];
  unsigned tensors;
};

/* realloc that ends the program where there is no memory. */
void *kernel_grow(void *old, size_t size);

/* Reads folder/name.ptx; the //@ lines from `notes` instead, if that names a file.
 * NULL on success, else what is wrong (a static text). */
const char *kernel_read(const char *ptx, const char *notes, struct kernel_file *k);
void kernel_free(struct kernel_file *k);

/* The comment "// N: ..." of a result, for messages; "" if there is none. */
void kernel_note(const struct kernel_file *k, unsigned result, char *to, size_t size);

#endif
