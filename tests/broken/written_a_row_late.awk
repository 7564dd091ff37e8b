# SPDX-License-Identifier: Apache-2.0
#
# Outputs go one row too far: the first is never written, the last lies behind the end.
#
# @key t5x1f_h1
# @case tokens=5 heads=1
# @fails q band
# @spares fault input
# @says past the end

BEGIN { want = 1 }
{ print }
/add\.u64 q_to, q_to, address;/ {
  made()
  print "  cvt.u64.u32 address, n;"
  print "  add.u64 q_to, q_to, address;"
}
