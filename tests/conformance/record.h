/* SPDX-License-Identifier: Apache-2.0
 *
 * What a GPU answered: a hash of every result of every kernel, over all its threads and
 * over a sample of them, and for some kernels the bits themselves.  README.md has the form
 * of the files.
 */
#ifndef BW_CONFORMANCE_RECORD_H
#define BW_CONFORMANCE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct record {
  struct entry *entry; /* by name, then by number of threads */
  size_t entries;
};

struct entry {
  char name[64];
  uint64_t threads;
  unsigned results;
  char fails[48]; /* the error that the launch ended with; no hashes then */
  uint64_t *hash; /* one per result */
  uint64_t *bits; /* results * threads words, or NULL */
};

/* Hash of one result over all threads: 48 bits. */
uint64_t record_hash(const uint64_t *words, uint64_t threads);

/* path: the hashes; the bits stand in path with ".bits" instead of its suffix.
 * NULL on success. */
const char *record_read(const char *path, struct record *r);
/* path may be a dump (name.dump, as --dump writes it): bits alone, of the first threads. */
const struct entry *record_dump(const struct record *r, const char *name);
const struct entry *record_find(const struct record *r, const char *name, uint64_t threads);

/* Appends one outcome; bits may be NULL: only hashes. */
void record_write(FILE *hashes, FILE *bits, const char *name, unsigned results, uint64_t threads,
                  const uint64_t *out);

#endif
