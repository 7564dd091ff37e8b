# SPDX-License-Identifier: Apache-2.0
#
# -0 is stored as it is: two of them are an empty word, which a reader waits for.
#
# @family up_proj
# @scenario verify
# @says -0; first

BEGIN { want = 2 } # the columns of a word
/add\.rn\.f32 (low, low|high, high), 0f00000000;/ { drop(); next }
{ print }
