/* SPDX-License-Identifier: Apache-2.0
 *
 * For the suites of the emulator's units: programs with a race on purpose, run in child
 * processes with checks off, must show both outcomes within 20 schedule seeds.
 */
#ifndef BW_SUITES_EMU_UNITS_H
#define BW_SUITES_EMU_UNITS_H

#include "emu_engine.h"

static inline uint64_t unchecked(uint64_t seed, uint64_t (*fn)(void)) {
  int ends[2];
  ck_assert_int_eq(pipe(ends), 0);
  (void)fflush(NULL);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (!child) {
    (void)engine_start(seed, "none");
    uint64_t v = fn();
    _exit(write(ends[1], &v, sizeof v) == (ssize_t)sizeof v ? 0 : 1);
  }
  (void)close(ends[1]);
  uint64_t v = 0;
  ssize_t n = read(ends[0], &v, sizeof v);
  (void)close(ends[0]);
  int status = 0;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
  ck_assert_int_eq(n, (ssize_t)sizeof v);
  return v;
}

static inline void both_outcomes(uint64_t (*fn)(void), uint64_t one, uint64_t other) {
  bool seen[2] = {false, false};
  for (uint64_t seed = 1; seed <= 20; seed++) {
    uint64_t v = unchecked(seed, fn);
    BWT_REQUIRE(v == one || v == other, "seed %llu gives %llu", (unsigned long long)seed,
                (unsigned long long)v);
    seen[v == other] = true;
  }
  ck_assert_msg(seen[0] && seen[1], "only %llu in 20 seeds",
                (unsigned long long)(seen[0] ? one : other));
}

#endif
