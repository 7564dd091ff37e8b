/* SPDX-License-Identifier: Apache-2.0
 *
 * What kernels gave on a GPU for fixed operands, as text: a head of "# name: value" lines,
 * then a case a line,
 *
 *   wo_a t=5 g=1 h=2 r=128 kind=mixed seed=7 key=t5x1f_h2 cubin=X hash=X size=N [emu=X] [bits=HEX]
 *   up_proj m=3 tp=8 l=3584 n=7168 kind=mixed seed=7 key=... cubin=X hash=X size=N ...
 *
 * in which cubin is the hash of the machine code that ran, hash that of its results (q, then
 * qs; up_proj: its columns of the M rows), emu that of the emulator's where it is another,
 * and bits are all of the results.  The hash is XXH64, in 16 hexadecimal digits.
 */
#ifndef BW_HARNESS_RECORD_H
#define BW_HARNESS_RECORD_H

#include "harness/ranks.h"
#include "harness/up_proj_inputs.h"
#include "harness/wo_a_inputs.h"

#include <stdio.h>

struct bwt_record {
  bool wo_a;                              /* else up_proj */
  uint32_t tokens, groups, heads, rank;   /* of wo_a */
  uint32_t rows, tp_size, latent, hidden; /* of up_proj; rank 0, mode local */
  uint32_t kind;                          /* enum bwt_wo_a_kind or bwt_up_proj_kind */
  uint64_t seed;
  char key[BW_UP_PROJ_KEY_NAME_SIZE];
  uint64_t cubin, hash, emulated; /* emulated: 0 if it is as hash */
  size_t size;                    /* bytes of results */
  uint8_t *bits;                  /* NULL or size bytes, to be freed */
};

/* The cases that are recorded; returns how many.  records NULL: only that. */
size_t bwt_record_cases(struct bwt_record *records);

/* Fills in key and cubin of a case, for the device in use. */
bool bwt_record_identify(const struct bwt_session *s, struct bwt_record *record,
                         struct bwt_text *why);
/* Runs a case on device 0: size and bits (freshly allocated) and their hash.  key and cubin
 * stay. */
bool bwt_record_run(struct bwt_ranks *ranks, struct bwt_record *record, struct bwt_text *why);

/* One line. */
void bwt_record_print(FILE *file, const struct bwt_record *record, bool with_bits);
/* Reads a line, which may be changed; false if it is none of these. */
bool bwt_record_parse(char *line, struct bwt_record *record);
/* "wo_a t=5 ... seed=7": what identifies a case to a reader. */
void bwt_record_name(const struct bwt_record *record, char *name, size_t size);

#endif
