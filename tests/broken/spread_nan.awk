# SPDX-License-Identifier: Apache-2.0
#
# A NaN in one weight row takes the scale of the 32 rows around it.
#
# @key t5x1f_h2
# @case tokens=5 heads=2 kind=weight_nan
# @fails q qs
# @spares fault padding band input
# @says 0xFF, expected

BEGIN { want = 3 } # the tokens of a rank
/redux\.sync\.max\.abs\.f32 amax,/ { replace("max\\.abs\\.f32", "max.abs.NaN.f32"); next }
{ print }
