# SPDX-License-Identifier: Apache-2.0
#
# The first step adds to what the accumulator held before.
#
# @key t5x1f_h2
# @case tokens=5 heads=2
# @fails fault
# @says undef

BEGIN { want = 1 }
/tcgen05\.mma.*, 0;/ { replace(", 0;", ", 1;"); next }
{ print }
