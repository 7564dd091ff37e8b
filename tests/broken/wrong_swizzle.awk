# SPDX-License-Identifier: Apache-2.0
#
# The codes of x are stored without the swizzle that the tensor core undoes.
#
# @key t5x1f_h2
# @case tokens=5 heads=2 kind=normal
# @fails q truth
# @spares fault padding band input

BEGIN { want = 1 }
/xor\.b32 chunk, chunk, first_token;/ { drop(); next }
{ print }
