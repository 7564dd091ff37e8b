# SPDX-License-Identifier: Apache-2.0
#
# A word is stored as a packed pair, which is two accesses of half a word in no order: a
# reader that sees one without the other takes the word for data.
#
# @family up_proj
# @says different sizes

BEGIN { want = 1 }
/multimem\.st\.relaxed\.sys\.global\.b32/ {
  replace("global\\.b32", "global.bf16x2")
  next
}
{ print }
