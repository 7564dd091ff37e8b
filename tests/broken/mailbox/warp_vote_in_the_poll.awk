# SPDX-License-Identifier: Apache-2.0
#
# A vote of the whole warp in each round of a poll: lanes that have their words have left for
# the end of the block, or were never in it, and wait there for the lanes that vote.
#
# @family lamport_copy
# @says vote.sync

BEGIN { want = 2 }
/^ *@whole bra/ {
  made()
  print "    {"
  print "      .reg .pred someone;"
  print "      vote.sync.any.pred someone, whole, 0xffffffff;"
  print "    }"
}
{ print }
