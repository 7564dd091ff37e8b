# SPDX-License-Identifier: Apache-2.0
#
# -0 is stored as it is: two of them are an empty word, which a reader waits for.
#
# @family up_proj
# @scenario verify
# @says -0; first

BEGIN { want = 1 }
/selp\.b16 bits, 0, bits, minus_zero;/ { drop(); next }
{ print }
