# SPDX-License-Identifier: Apache-2.0
#
# Token t reads the x and the position of token t + 1.
#
# @key t5x1f_h2
# @case tokens=5 heads=2 kind=normal
# @fails q qs
# @spares fault padding band input
# @says holds what belongs to token

BEGIN { want = 1 }
{ print }
/add\.u32 x_row, first_row, first_token;/ {
  made()
  print "  add.u32 x_row, x_row, 1;"
}
