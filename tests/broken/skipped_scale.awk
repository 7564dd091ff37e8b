# SPDX-License-Identifier: Apache-2.0
#
# The scales of a rank's second token are not stored.
#
# @key t5x1f_h2
# @case tokens=5 heads=2
# @fails qs
# @spares fault q padding band input
# @says never written

BEGIN { want = 1 }
/st\.global\.b8 \[qs_to\], scale/ && ++seen == 2 { drop(); next }
{ print }
