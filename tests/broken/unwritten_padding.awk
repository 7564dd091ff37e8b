# SPDX-License-Identifier: Apache-2.0
#
# Of the scale rows that no token has, 64..95 are not cleared.
#
# @key t5x1f_h2
# @case tokens=5 heads=2
# @fails padding
# @spares fault q qs band input
# @says padding bytes are not 0

BEGIN { want = 1 }
/@padding st\.global\.b32 \[address\+8\], 0;/ { drop(); next }
{ print }
