# SPDX-License-Identifier: Apache-2.0
#
# The same where the allocation ends with the outputs: the bounds check sees it.
#
# @key t5x1f_h1
# @case tokens=5 heads=1 tight=1
# @fails fault
# @says oob-global

BEGIN { want = 1 }
{ print }
/add\.u64 q_to, q_to, address;/ {
  made()
  print "  cvt.u64.u32 address, n;"
  print "  add.u64 q_to, q_to, address;"
}
