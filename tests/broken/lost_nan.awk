# SPDX-License-Identifier: Apache-2.0
#
# A NaN is taken for a large number on its way out.
#
# @key t5x1f_h2
# @case tokens=5 heads=2 kind=nan
# @fails q
# @spares fault qs padding band input
# @says NaN on one side only

BEGIN { want = 3 } # the tokens of a rank
/cvt\.rn\.satfinite\.e4m3x2\.f32 code,/ {
  made()
  print "  max.f32 y, y, 0fC7000000;"
}
{ print }
