# SPDX-License-Identifier: Apache-2.0
#
# A word is stored as a vector of two halves, which come in any order.
#
# @family up_proj
# @says different sizes

BEGIN { want = 1 }
/multimem\.st\.relaxed\.sys\.global\.b32/ {
  made()
  print "    {"
  print "      .reg .b16 low, high;"
  print "      mov.b32 {low, high}, word0;"
  sub(/global\.b32/, "global.v2.bf16")
  sub(/word0/, "{low, high}")
  print "  " $0
  print "    }"
  next
}
{ print }
