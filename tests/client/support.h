/* SPDX-License-Identifier: Apache-2.0
 *
 * What the client needs besides the driver: errors that end it, random numbers of a seed,
 * memory between canaries, comparisons that are counted.
 */
#ifndef CLIENT_SUPPORT_H
#define CLIENT_SUPPORT_H

#include <cuda.h>
#include <stdint.h>

extern unsigned long long client_seed;
extern unsigned comparisons; /* made so far */

/* Each ends the program with status 1 when it does not hold, and says what, and the seed. */
void check(CUresult result, const char *call);
#define CU(call) check(call, #call)
void require(int good, const char *what);
void same(const char *what, int device, const float *got, const float *want, unsigned n);

uint64_t draw(void);
void draw_floats(float *x, unsigned n);

/* `host` is page-locked, `device` of the context that was current; both `count` words. */
struct buffer {
  unsigned count;
  CUdeviceptr device;
  float *host;
};

struct buffer make_buffer(unsigned count);
void free_buffer(struct buffer *b); /* and looks at the canaries */
void poison_host(const struct buffer *b);

#endif
