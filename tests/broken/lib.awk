# SPDX-License-Identifier: Apache-2.0
#
# What the planted bugs share.  A bug is a file NAME.awk that edits the expanded PTX of a
# shipped specialization; it is run after this one:
#
#   awk -f tests/broken/lib.awk -f tests/broken/NAME.awk kernel.ptx
#
# Its head comment says what the bug is; lines "# @..." say how it must be caught:
#
#   @key KEY           the specialization that is edited
#   @case TEXT         sizes and kind: "tokens=5 heads=2 kind=nan tight=1"
#   @scenario late     runs after a predecessor that writes x late
#   @fails NAME...     the failures there must be: fault q qs padding band input truth;
#                      a|b: one of the two
#   @spares NAME...    the failures there must not be
#   @says TEXT         what the explanation must contain
#
# A bug sets `want` to the number of edits it must be able to make, and calls made() for
# each: if the kernel no longer has the line, the bug fails instead of passing as caught
# or, worse, as a kernel that is right.

function made() {
  edits++
}

# Leaves the line out; in its place a remark.
function drop() {
  made()
  print "  // left out: " $0
}

# Replaces the first match in the line.
function replace(what, with) {
  if (sub(what, with))
    made()
  print
}

END {
  if (edits != want) {
    printf "%d edits where %d were expected\n", edits, want > "/dev/stderr"
    exit 1
  }
}
