/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory that knows what it should contain; see buffer.h.
 */
#include "harness/buffer.h"

#include "harness/random.h"

#include <stdlib.h>
#include <string.h>

/* Multiples of 16, resp. 32, but of no larger power of two. */
enum { BAND = 4096 + 16, BAND_32 = 4096 + 32 };

static bool failed(const struct bwt_buffer *b, CUresult result, const char *what,
                   struct bwt_text *why) {
  if (result == CUDA_SUCCESS)
    return false;
  bwt_say(why, "%s of %s (%zu bytes): %s\n", what, b->name, b->size,
          bwt_driver_error(b->driver, result));
  return true;
}

static size_t total(const struct bwt_buffer *b) {
  return b->size + 2 * b->band;
}

bool bwt_buffer_open(struct bwt_buffer *b, const struct bwt_driver *driver, const char *name,
                     size_t size, enum bwt_guard guard, int fill, uint64_t seed,
                     struct bwt_text *why) {
  memset(b, 0, sizeof *b);
  b->driver = driver;
  b->name = name;
  b->size = size;
  b->band = guard == BWT_GUARDED_32 ? BAND_32 : guard == BWT_GUARDED || size == 0 ? BAND : 0;
  b->expected = malloc(total(b));
  if (b->expected == NULL) {
    bwt_say(why, "no host memory for %s\n", name);
    return false;
  }
  if (fill >= 0) {
    memset(b->expected, fill, total(b));
  } else {
    struct bwt_random r;
    bwt_random_seed(&r, seed);
    bwt_random_bytes(&r, b->expected, total(b));
  }
  if (failed(b, driver->MemAlloc(&b->allocation, total(b)), "cuMemAlloc", why)) {
    free(b->expected);
    memset(b, 0, sizeof *b);
    return false;
  }
  b->data = b->allocation + b->band;
  if (failed(b, driver->MemcpyHtoD(b->allocation, b->expected, total(b)), "cuMemcpyHtoD", why)) {
    bwt_buffer_close(b);
    return false;
  }
  return true;
}

void bwt_buffer_close(struct bwt_buffer *b) {
  if (b->allocation != 0)
    b->driver->MemFree(b->allocation);
  free(b->expected);
  memset(b, 0, sizeof *b);
}

bool bwt_buffer_write(struct bwt_buffer *b, const void *data, struct bwt_text *why) {
  if (b->size == 0)
    return true;
  memcpy(b->expected + b->band, data, b->size);
  return !failed(b, b->driver->MemcpyHtoD(b->data, data, b->size), "cuMemcpyHtoD", why);
}

bool bwt_buffer_read(const struct bwt_buffer *b, void *data, struct bwt_text *why) {
  return b->size == 0 ||
         !failed(b, b->driver->MemcpyDtoH(data, b->data, b->size), "cuMemcpyDtoH", why);
}

/* Compares a part of the allocation; the text tells bytes by their place in the data. */
static size_t check(const struct bwt_buffer *b, const uint8_t *got, size_t from, size_t to,
                    const char *what, struct bwt_text *why) {
  size_t count = 0, first = 0;
  for (size_t i = from; i < to; i++)
    if (got[i] != b->expected[i] && count++ == 0)
      first = i;
  if (count > 0)
    bwt_say(why, "%s: %zu bytes %s changed, first at byte %lld of %zu: 0x%02X, was 0x%02X\n",
            b->name, count, what, (long long)first - (long long)b->band, b->size, got[first],
            b->expected[first]);
  return count;
}

enum part { BANDS, DATA };

static size_t check_part(const struct bwt_buffer *b, enum part part, struct bwt_text *why) {
  uint8_t *got = malloc(total(b));
  size_t count = 1; /* unreadable counts as changed */
  if (got != NULL &&
      !failed(b, b->driver->MemcpyDtoH(got, b->allocation, total(b)), "cuMemcpyDtoH", why)) {
    size_t end = b->band + b->size;
    if (part == DATA)
      count = check(b, got, b->band, end, "of an input", why);
    else
      count = check(b, got, 0, b->band, "before the start", why) +
              check(b, got, end, total(b), "past the end", why);
  }
  free(got);
  return count;
}

size_t bwt_buffer_check_bands(const struct bwt_buffer *b, struct bwt_text *why) {
  return b->band > 0 ? check_part(b, BANDS, why) : 0;
}

size_t bwt_buffer_check_unchanged(const struct bwt_buffer *b, struct bwt_text *why) {
  return b->size > 0 ? check_part(b, DATA, why) : 0;
}
