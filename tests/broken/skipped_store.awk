# SPDX-License-Identifier: Apache-2.0
#
# The second token of a rank is computed and not stored.
#
# @key t5x1f_h2
# @case tokens=5 heads=2
# @fails q
# @spares fault qs padding band input
# @says never written

BEGIN { want = 1 }
/st\.global\.b8 \[q_to\], code/ && ++seen == 2 { drop(); next }
{ print }
