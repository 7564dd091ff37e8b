# SPDX-License-Identifier: Apache-2.0
#
# Clears x behind itself.
#
# @key t5x1f_h2
# @case tokens=5 heads=2
# @fails input
# @spares fault q qs padding band
# @says of an input changed

BEGIN { want = 1 }
{ print }
/ld\.global\.v2\.b32 \{x_low0, x_high0\}, \[address\];/ {
  made()
  print "  st.global.v2.b32 [address], {rank, rank};"
}
