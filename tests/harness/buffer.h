/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory that knows what it should contain: guard bands on both sides, a host
 * copy of what was put in, and checks that say what changed.
 */
#ifndef BW_HARNESS_BUFFER_H
#define BW_HARNESS_BUFFER_H

#include "harness/driver.h"
#include "harness/text.h"

#include <stdint.h>

enum bwt_guard {
  BWT_GUARDED,   /* bands on both sides; the data are aligned to 16 bytes and no more */
  BWT_TIGHT,     /* an allocation of exactly this size: a bounds checker sees overruns */
  BWT_GUARDED_32 /* as BWT_GUARDED, aligned to 32 bytes and no more */
};

struct bwt_buffer {
  const struct bwt_driver *driver;
  const char *name;
  size_t size, band;
  CUdeviceptr allocation, data;
  uint8_t *expected; /* of the whole allocation, bands included */
};

/* size bytes, all bytes and bands set to fill: 0xFF is a NaN in every format used here
 * and a position far out of range, so that what must not be read shows in the result.
 * fill < 0: bands of random bytes, for outputs.  size may be 0.  false: *why. */
bool bwt_buffer_open(struct bwt_buffer *b, const struct bwt_driver *driver, const char *name,
                     size_t size, enum bwt_guard guard, int fill, uint64_t seed,
                     struct bwt_text *why);
void bwt_buffer_close(struct bwt_buffer *b);

/* New contents, on host and device. */
bool bwt_buffer_write(struct bwt_buffer *b, const void *data, struct bwt_text *why);
/* The device's contents, without the bands. */
bool bwt_buffer_read(const struct bwt_buffer *b, void *data, struct bwt_text *why);

/* How many bytes outside the data changed; says where. */
size_t bwt_buffer_check_bands(const struct bwt_buffer *b, struct bwt_text *why);
/* How many bytes of the data differ from what was written last; says where. */
size_t bwt_buffer_check_unchanged(const struct bwt_buffer *b, struct bwt_text *why);

#endif
