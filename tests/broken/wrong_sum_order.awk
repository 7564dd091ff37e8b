# SPDX-License-Identifier: Apache-2.0
#
# The partial sums of heads 1 and 2 are added in the other order.
#
# @key t5x1f_h4
# @case tokens=5 heads=4 kind=cancel
# @fails q
# @spares fault padding band input

BEGIN { want = 2 }
# The inbox is read head by head; tokens of one chunk share a load.
/ld\.shared(\.v[24])?\.b32 .*\[inbox\+[0-9]+\];/ {
  if (++loads == 2) {
    held = $0
    made()
    holding = 1
    next
  }
  if (loads == 3) {
    made()
    print
    third = 1
    next
  }
}
holding && /add\.rn\.f32/ && !third { second_adds = second_adds $0 "\n"; next }
third && /add\.rn\.f32/ { print; next }
third && holding { printf "%s\n%s", held, second_adds; holding = 0 }
{ print }
