# SPDX-License-Identifier: Apache-2.0
#
# Rotates forward instead of back.
#
# @key t5x1f_h2
# @case tokens=5 heads=2 kind=normal
# @fails q truth
# @spares fault padding band input

BEGIN { want = 4 } # two pairs, two iterations
/neg\.f32 even_sin, even_sin;/ {
  made()
  print "  neg.f32 odd_sin, odd_sin;"
  next
}
{ print }
