# SPDX-License-Identifier: Apache-2.0
#
# Outputs go 16 columns too low: the first lie before the start.
#
# @key t5x1f_h2
# @case tokens=5 heads=2
# @fails q band
# @spares fault padding input
# @says before the start

BEGIN { want = 1 }
{ print }
/add\.u64 q_to, q_to, address;/ {
  made()
  print "  sub.u64 q_to, q_to, 16;"
}
