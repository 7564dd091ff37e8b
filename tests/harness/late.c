/* SPDX-License-Identifier: Apache-2.0
 *
 * An operand that is written late; see late.h.
 */
#include "harness/late.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 2, THREADS = 64, SPINS = 500 };

static bool fill(struct bwt_late *late, const struct bwt_session *s, struct bwt_buffer *to,
                 const void *data, struct bwt_text *why) {
  uint8_t *zeros = calloc(1, to->size + 1);
  bool ok = zeros != NULL &&
            bwt_buffer_open(&late->staged, &s->driver, "staged", to->size, BWT_GUARDED, 0, 0, why);
  ok = ok && bwt_buffer_write(&late->staged, data, why) && bwt_buffer_write(to, zeros, why);
  free(zeros);
  return ok;
}

static bool enqueue(const struct bwt_late *late, const struct bwt_buffer *to,
                    struct bwt_text *why) {
  CUdeviceptr from = late->staged.data, target = to->data;
  uint32_t words = (uint32_t)(to->size / 4), spins = SPINS;
  void *parameters[] = {&from, &target, &words, &spins};
  CUresult error = bwt_kernel_launch(&late->kernel, BLOCKS, THREADS, NULL, true, parameters);
  if (error != CUDA_SUCCESS)
    bwt_say(why, "late_writer: %s\n", bwt_driver_error(late->kernel.driver, error));
  return error == CUDA_SUCCESS;
}

bool bwt_late_write(struct bwt_late *late, const struct bwt_session *s, struct bwt_buffer *to,
                    const void *data, struct bwt_text *why) {
  memset(late, 0, sizeof *late);
  if (bwt_kernel_open(&late->kernel, s, "late_writer", why) && fill(late, s, to, data, why) &&
      enqueue(late, to, why)) {
    memcpy(to->expected + to->band, data, to->size);
    return true;
  }
  bwt_late_close(late);
  return false;
}

void bwt_late_close(struct bwt_late *late) {
  if (late->staged.driver != NULL)
    bwt_buffer_close(&late->staged);
  bwt_kernel_close(&late->kernel);
  memset(late, 0, sizeof *late);
}
