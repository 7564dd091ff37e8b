/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of all functions, and the bodies of those that are lacking: they must exist,
 * because clients look every name up when they start.  This file does without cuda.h,
 * whose prototypes would contradict the bodies; nothing is called through these.
 */

int lacking(const char *what); /* CUresult in driver.h */

#define CALL(symbol, base, version) int symbol(void);
#define CALL_AS(symbol, base, version)
#define PER_THREAD(symbol, base, version) int symbol(void);
#define LACK(symbol, base, version)                                                                \
  int symbol(void);                                                                                \
  int symbol(void) {                                                                               \
    return lacking(#symbol);                                                                       \
  }
#define LACK_PER_THREAD LACK
#include "api.def"
#undef CALL
#undef CALL_AS
#undef PER_THREAD
#undef LACK
#undef LACK_PER_THREAD

typedef void (*any_function)(void);
struct entry {
  const char *symbol, *base;
  int version, per_thread;
  any_function fn;
};

extern const struct entry api_table[];
const struct entry api_table[] = {
#define CALL(symbol, base, version)       {#symbol, #base, version, 0, (any_function)symbol},
#define CALL_AS                           CALL
#define LACK                              CALL
#define PER_THREAD(symbol, base, version) {#symbol, #base, version, 1, (any_function)symbol},
#define LACK_PER_THREAD                   PER_THREAD
#include "api.def"
    {0, 0, 0, 0, 0}};
