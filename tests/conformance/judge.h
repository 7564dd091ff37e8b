/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a kernel's results are right: against the recorded answers of a GPU, against a
 * definition in C, or, for functions that the hardware approximates, within the error that
 * the ISA allows.
 */
#ifndef BW_CONFORMANCE_JUDGE_H
#define BW_CONFORMANCE_JUDGE_H

#include <stddef.h>

#include "conformance/kernel_file.h"
#include "conformance/record.h"
#include "conformance/run.h"

enum verdict { VERDICT_passed, VERDICT_failed, VERDICT_unjudged };

/* How many threads are told of a result that differs, how many lines of a kernel. */
extern unsigned judge_lines, judge_most;

/* why: what is wrong, a line for each result that differs (at most a few). */
enum verdict judge(const struct kernel_file *k, const struct outcome *o, const struct record *r,
                   char *why, size_t size);

/* A definition computes all results of all threads; false: none of that name. */
bool define(const struct kernel_file *k, const uint64_t *in, uint64_t threads, uint64_t *out);

/* Whether two answers of an approximate function agree: both within the ISA's bound of the
 * true value, so at most twice the bound apart; special values exactly. */
bool approx_agree(const struct kernel_file *k, const uint64_t *in, uint64_t threads, uint64_t i,
                  uint64_t a, uint64_t b);

#endif
