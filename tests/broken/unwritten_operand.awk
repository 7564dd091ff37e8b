# SPDX-License-Identifier: Apache-2.0
#
# The codes of the second iteration never reach shared memory.
#
# @key t5x1f_h2
# @case tokens=5 heads=2
# @fails fault
# @says undef

BEGIN { want = 1 }
/st\.shared\.b32 \[x_to_odd\+/ { drop(); next }
{ print }
