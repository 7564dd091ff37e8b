# SPDX-License-Identifier: Apache-2.0
#
# The reader re-arms first and then copies what is in the ring.
#
# @family lamport_copy

BEGIN { want = 2 }
/st\.global\.v4\.b32 \[at\], \{word0/ { made(); copy = $0; next }
{ print }
/st\.relaxed\.sys\.global\.v4\.b32 \[at\], \{0x80000000/ {
  made()
  print "    ld.relaxed.sys.global.v4.b32 {word0, word1, word2, word3}, [at];"
  print "    mad.wide.u32 at, index, 16, out_from;"
  print copy
}
