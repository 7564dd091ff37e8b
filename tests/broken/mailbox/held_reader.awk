# SPDX-License-Identifier: Apache-2.0
#
# No bug: a reader that is held between its last poll and each re-arm, so that the other
# ranks get as far ahead as the protocol lets them.  Rank 0 has it while the others are
# broken, or right.
#
# @family lamport_copy

BEGIN { want = 1 }
/st\.relaxed\.sys\.global\.v4\.b32 \[at\], \{0x80000000/ {
  made()
  print "    {"
  print "      .reg .b32 rounds;"
  print "      .reg .pred held;"
  print "      mov.u32 rounds, 300;"
  print "    hold:"
  print "      sub.u32 rounds, rounds, 1;"
  print "      setp.ne.u32 held, rounds, 0;"
  print "      @held bra hold;"
  print "    }"
}
{ print }
