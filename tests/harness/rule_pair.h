/* SPDX-License-Identifier: Apache-2.0
 *
 * Rule pairs: files of tests/rules that hold two PTX programs in one, a bad twin that
 * breaks one rule of the emulator and a good one that keeps it, and say how to launch
 * them and what the report must be.  tests/rules/README.md documents the format.
 */
#ifndef BW_HARNESS_RULE_PAIR_H
#define BW_HARNESS_RULE_PAIR_H

#include "harness/text.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum { RULE_STEPS = 32, RULE_MARKS = 8, RULE_DIMS = 3, RULE_ARGS = 256 };

enum rule_step_kind { RULE_memory, RULE_multicast, RULE_map, RULE_launch, RULE_free, RULE_wait };
enum rule_where { RULE_device, RULE_host, RULE_mapped };
enum rule_fill { RULE_zero, RULE_none, RULE_index };

/* One line of the head; `name` is what it makes, launches or frees. */
struct rule_step {
  enum rule_step_kind kind;
  char name[32];
  uint64_t bytes;      /* memory, multicast */
  enum rule_fill fill; /* memory */
  enum rule_where where;
  unsigned device; /* memory, launch */
  /* launch */
  unsigned grid, block, cluster, shared, stream;
  bool pdl;
  char args[RULE_ARGS]; /* "A,B+64,7"; of a map, the memory's name */
  /* map: elements, of the fastest dimension first */
  unsigned rank, elements[RULE_DIMS], box[RULE_DIMS], swizzle, element_bytes;
  uint64_t stride; /* bytes from one row to the next; of dimension 2, rows * stride */
};

struct rule_pair {
  char path[PATH_MAX];
  char group[16];  /* the folder */
  char rule[96];   /* its id; or several, "a|b" */
  bool strangers;  /* devices have no access to each other's memory */
  bool some_seeds; /* the bad twin shows within 20 seeds, not on each */
  unsigned devices;
  char arch[16]; /* EMU_ARCH of the file's .target */
  struct rule_step step[RULE_STEPS];
  unsigned steps;
  unsigned here[RULE_MARKS], heres;   /* lines the report may name */
  unsigned other[RULE_MARKS], others; /* lines of its other side; none: it has none */
  char *good, *bad;                   /* the two programs */
};

/* Reads and checks a file; false: *why says what is wrong with it, and at which line. */
bool bwt_rule_pair_read(struct rule_pair *p, const char *path, struct bwt_text *why);
/* The report's rule is that of the pair, or one of those. */
bool bwt_rule_pair_expects(const struct rule_pair *p, const char *rule);
void bwt_rule_pair_free(struct rule_pair *p);

#endif
