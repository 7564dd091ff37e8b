# SPDX-License-Identifier: Apache-2.0
#
# The second step of each stage takes the scale of x of the first.
#
# @key t5x1f_h2
# @case tokens=5 heads=2 kind=mixed
# @fails q truth
# @spares fault padding band input

BEGIN { want = 4 } # the stages
/tcgen05\.mma.*0x2882001[0-9a-f]/ { replace("0x28820010", "0x28820000"); next }
{ print }
