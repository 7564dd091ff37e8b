/* SPDX-License-Identifier: Apache-2.0
 *
 * A bounded text that grows by printf.
 */
#include "harness/text.h"

#include <stdarg.h>
#include <stdio.h>

void bwt_say(struct bwt_text *text, const char *format, ...) {
  size_t room = sizeof text->chars - text->length;
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text->chars + text->length, room, format, args);
  va_end(args);
  if (n > 0)
    text->length += (size_t)n < room ? (size_t)n : room - 1;
}
