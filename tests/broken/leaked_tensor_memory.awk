# SPDX-License-Identifier: Apache-2.0
#
# Tensor memory is not given back.
#
# @key t5x1f_h2
# @case tokens=5 heads=2
# @fails fault
# @says tmem-leak

BEGIN { want = 1 }
/tcgen05\.dealloc/ { drop(); next }
{ print }
