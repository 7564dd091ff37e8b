# SPDX-License-Identifier: Apache-2.0
#
# One row past the end of a ragged tile is stored.
#
# @key t20x2r_h2
# @case tokens=37 heads=2
# @fails fault
# @spares input
# @says which another write may meet

BEGIN { want = 10 } # the tokens of a rank
/setp\.lt\.u32 live, out_row, end;/ { replace("setp\\.lt", "setp.le"); next }
{ print }
