/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of a PTX text: each is the text with one line changed so that one synchronization
 * or ordering instruction is missing, weaker, or counts wrongly.  The text is what
 * ptx/lib/finish.awk leaves: one statement a line.  Line numbers do not change.
 */
#ifndef BW_MUTATE_MUTANT_H
#define BW_MUTATE_MUTANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name, what is done */
#define BWM_KINDS(X)                                                                               \
  X(delete, "an instruction is left out; a wait on an mbarrier is over at once")                   \
  X(scope, "sys to gpu, gpu or cluster to cta")                                                    \
  X(semantics, "acquire or release to relaxed, acq_rel to one of them, relaxed to weak")           \
  X(arrivals, "a count of arrivals, threads or groups is off by one unit")                         \
  X(bytes, "a count of transaction bytes is off by 16")                                            \
  X(parity, "a wait asks for the other parity")                                                    \
  X(generation, "the generation of a step of the mailbox, or the count of steps, is wrong")

enum bwm_kind {
#define X(name, text) BWM_##name,
  BWM_KINDS(X)
#undef X
      BWM_KIND_COUNT
};
const char *bwm_kind_name(enum bwm_kind kind);

struct bwm_mutant {
  uint32_t line; /* of the text, from 1 */
  enum bwm_kind kind;
  char change[64];       /* "left out", "acq_rel -> release", "129 -> 130" */
  char instruction[400]; /* as it was, without comment */
  char step[96];         /* the last heading before it: "// ---- ... ---" without the dashes */
  char replacement[640]; /* what the line becomes */
};

/* All mutants of a text, in order of lines; false: no memory.  *list: free(). */
bool bwm_mutants(const char *ptx, struct bwm_mutant **list, size_t *count);
/* The mutant's text; free().  NULL: no memory. */
char *bwm_apply(const char *ptx, const struct bwm_mutant *m);

/* The first `what` in text[0..length-1]; NULL: none. */
const char *bwm_find(const char *text, size_t length, const char *what);

#endif
