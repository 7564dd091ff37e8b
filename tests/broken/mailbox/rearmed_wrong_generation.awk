# SPDX-License-Identifier: Apache-2.0
#
# The reader re-arms the words of the other generation.
#
# @family lamport_copy

BEGIN { want = 1 }
/st\.relaxed\.sys\.global\.v4\.b32 \[at\], \{0x80000000/ {
  made()
  print "    {"
  print "      .reg .b32 size, other;"
  print "      ld.param.u64 at, [ring];"
  print "      cvta.to.global.u64 at, at;"
  print "      ld.param.u32 size, [generation_bytes];"
  print "      add.u32 other, step, 1;"
  print "      and.b32 other, other, 1;"
  print "      mad.wide.u32 at, other, size, at;"
  print "      mad.wide.u32 at, index, 16, at;"
  print "    }"
}
{ print }
