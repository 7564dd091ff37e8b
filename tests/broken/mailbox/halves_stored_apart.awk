# SPDX-License-Identifier: Apache-2.0
#
# Each half of a word is stored by itself: a reader that sees one without the other takes
# the word for data.
#
# @family up_proj
# @scenario peers
# @says different sizes

BEGIN { want = 1 }
/^ *st\.relaxed\.sys\.global\.b32 \[target\], word0;/ {
  made()
  print "    {"
  print "      .reg .b16 low, high;"
  print "      mov.b32 {low, high}, word0;"
  print "      st.relaxed.sys.global.b16 [target], low;"
  print "      st.relaxed.sys.global.b16 [target+2], high;"
  print "    }"
  next
}
{ print }
