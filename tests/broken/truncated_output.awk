# SPDX-License-Identifier: Apache-2.0
#
# The sum is cut to bf16 instead of rounded.
#
# @key t5x1f_h2
# @case tokens=5 heads=2 kind=normal
# @fails q truth
# @spares fault padding band input
# @says against double

BEGIN { want = 3 } # the tokens of a rank
/cvt\.rn\.bf16x2\.f32 y,/ { replace("cvt\\.rn", "cvt.rz"); next }
{ print }
