# SPDX-License-Identifier: Apache-2.0
#
# Rows past the end of a ragged tile read on instead of repeating the last token.
#
# @key t20x2r_h2
# @case tokens=37 heads=2 tight=1
# @fails fault
# @says oob-global

BEGIN { want = 5 } # the iterations
/min\.u32 row_low, .*last_row/ {
  made()
  if ($0 ~ /min\.u32 row_low, x_row/)
    print "  mov.u32 row_low, x_row;"
  next
}
{ print }
