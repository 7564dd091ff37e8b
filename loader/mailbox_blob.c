/* SPDX-License-Identifier: Apache-2.0
 *
 * The blobs of a round: whether they are one good blob of every rank, and what they say.
 * Everything here comes to the same end on every rank that was given the same blobs.
 */
#include "error.h"
#include "mailbox.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Static_assert(BW_MAILBOX_MAX_RANKS <= 32, "sets of ranks are 32-bit words");

/* ---- the blobs of all ranks -------------------------------------------------------- */

static bw_status fail_config(const bwi_blob *theirs, const char *name, uint64_t value,
                             const bwi_blob *mine, uint64_t wanted) {
  return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                  "config.%s is %" PRIu64 " on rank %u and %" PRIu64
                  " on rank %u: it must be the same on all ranks",
                  name, value, theirs->rank, wanted, mine->rank);
}

static bw_status check_config(const bwi_blob *b, const bwi_blob *mine) {
  if (b->tp_size != mine->tp_size)
    return fail_config(b, "tp_size", b->tp_size, mine, mine->tp_size);
  if (b->hidden != mine->hidden)
    return fail_config(b, "hidden", b->hidden, mine, mine->hidden);
  if (b->capacity != mine->capacity)
    return fail_config(b, "capacity", b->capacity, mine, mine->capacity);
  if (b->mode != mine->mode)
    return fail_config(b, "mode", b->mode, mine, mine->mode);
  if (b->generations != mine->generations && b->generations && mine->generations)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "the ring has %u generations on rank %u and %u on rank %u: the ranks' bundles "
                    "are of different versions",
                    b->generations, b->rank, mine->generations, mine->rank);
  return BW_OK;
}

/* Whether blob number i can be read at all, and is of this round. */
static bw_status check_blob(const bw_mailbox *m, size_t i, const bwi_blob *b) {
  if (b->head.magic != BWI_BLOB_MAGIC)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "blobs_in: number %zu is no blob of a mailbox", i);
  if (b->head.version != BWI_BLOB_VERSION)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "blobs_in: number %zu is of version %u, this library's are of version %u: all "
                    "ranks must use the same library",
                    i, b->head.version, BWI_BLOB_VERSION);
  if (b->head.size != sizeof *b)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "blobs_in: number %zu has %u bytes, this library's have %zu", i, b->head.size,
                    sizeof *b);
  if (b->rank >= m->config.tp_size)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "blobs_in: number %zu is of rank %u of %u, this mailbox has %u ranks", i,
                    b->rank, b->tp_size, m->config.tp_size);
  if (b->purpose != (uint32_t)m->purpose || b->round != m->round - 1)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "blobs_in: number %zu (rank %u) is of round %u of another call, or of this "
                    "one; it must be of round %u of this",
                    i, b->rank, b->round, m->round - 1);
  return BW_OK;
}

/* "3, 5" */
static void list_missing(const bw_mailbox *m, uint32_t present, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t r = bwi_first_rank(m); r <= bwi_last_rank(m); r++)
    if (!(present >> r & 1) && used + 8 < size)
      used += (size_t)snprintf(text + used, size - used, "%s%u", used ? ", " : "", r);
}

bw_status bwi_blobs_gather(bw_mailbox *m, const void *blobs_in, size_t n) {
  size_t wanted = bwi_last_rank(m) - bwi_first_rank(m) + 1;
  if (!blobs_in)
    return bwi_fail_null("blobs_in");
  if (n > wanted)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "n is %zu, must be %zu, one blob of every rank", n,
                    wanted);
  bwi_blob before[BW_MAILBOX_MAX_RANKS];
  memcpy(before, m->all, sizeof before);
  uint32_t present = 0;
  for (size_t i = 0; i < n; i++) {
    bwi_blob b;
    memcpy(&b, (const unsigned char *)blobs_in + i * BW_MAILBOX_BLOB_SIZE, sizeof b);
    bw_status status = check_blob(m, i, &b);
    if (status != BW_OK)
      return status;
    if (present >> b.rank & 1)
      return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                      "blobs_in: rank %u is there twice: two processes have the same rank, or a "
                      "blob was gathered twice",
                      b.rank);
    present |= 1u << b.rank;
    b.text[sizeof b.text - 1] = '\0';
    b.mail_address[sizeof b.mail_address - 1] = '\0';
    m->all[b.rank] = b;
  }
  char missing[64];
  list_missing(m, present, missing, sizeof missing);
  if (*missing)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "n is %zu, must be %zu: no blob of rank %s", n,
                    wanted, missing);
  for (uint32_t r = bwi_first_rank(m); r <= bwi_last_rank(m); r++)
    if (m->round > 1 && m->all[r].id != before[r].id)
      return bwi_fail(
          BW_ERROR_INVALID_ARGUMENT,
          "blobs_in: the blob of rank %u is of another mailbox than in the round before", r);
  if (m->all[m->config.rank].id != m->mine.id)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "blobs_in: the blob of rank %u is not this mailbox's: two ranks have the same "
                    "number, or mailboxes were mixed up",
                    m->config.rank);
  return BW_OK;
}

/* ---- the verdict ------------------------------------------------------------------- */

/* The first rank that failed decides for all.  Against rank `first` configurations are
 * compared, so that the words are the same everywhere. */
bw_status bwi_blobs_judge(const bw_mailbox *m) {
  const bwi_blob *first = &m->all[bwi_first_rank(m)];
  for (uint32_t r = bwi_first_rank(m); r <= bwi_last_rank(m); r++) {
    const bwi_blob *b = &m->all[r];
    if (b->status != BW_OK)
      return bwi_fail_cu(b->status, b->curesult, "rank %u: %s", r, b->text);
  }
  for (uint32_t r = bwi_first_rank(m) + 1; r <= bwi_last_rank(m); r++) {
    bw_status status = check_config(&m->all[r], first);
    if (status != BW_OK)
      return status;
  }
  return BW_OK;
}
