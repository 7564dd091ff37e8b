# SPDX-License-Identifier: Apache-2.0
#
# The last step of an expansion: checks what m4 made and sets it for reading.
#
#   m4 ... | awk -v NAME=what -f ptx/lib/finish.awk
#
# Refused, with NAME:LINE of the expansion and exit status 1, is whatever m4 may have
# left behind without a word:
#   - characters outside ASCII, quotes <| |>, parameters $1 $# $@
#   - a constant that was not expanded: an upper-case word in the code
#   - a macro that was not expanded: name( where PTX has no parenthesis
#   - two statements on a line, or a word that ends no statement (a misspelt macro)
#   - brackets that do not close, within a line or, for { } and ( ), in the file
# Set for reading: two blanks of indentation a level, labels one level out, comments that
# follow code in one column, never two empty lines together.  And an address [smem+N] gets
# the name that the map of shared memory in the head comment (shared_field) has for N.

function refuse(text) {
  printf "%s:%d: error: %s: %s\n", NAME, NR, text, $0 > "/dev/stderr"
  failed = 1
  exit 1
}

# How often the one character c occurs in s.
function count(s, c) {
  return gsub("[" c "]", "", s)
}

function spaces(n) {
  return sprintf("%" n "s", "")
}

# A line of the map: offset, bytes, name, text.
/^\/\/ +[0-9]+ +[0-9]+  S_[A-Z_]+ / {
  fields++
  first[fields] = $2
  past[fields] = $2 + $3
  field[fields] = $4
}

# "S_LOADED+8" for code with [smem+102408], "" if there is no such address.
function place(code,   i, at) {
  if (!match(code, /\[smem\+[0-9]+\]/))
    return ""
  at = substr(code, RSTART + 6, RLENGTH - 7) + 0
  for (i = 1; i <= fields; i++)
    if (at >= first[i] && at < past[i])
      return field[i] (at > first[i] ? "+" at - first[i] : "")
  refuse("address outside the map of shared memory")
}

{
  if ($0 ~ /[^ -~]/)
    refuse("character outside printable ASCII")
  if ($0 ~ /<\||\|>/)
    refuse("m4 quote left over")
  if ($0 ~ /\$[0-9#@*]/)
    refuse("macro parameter left over")

  comment = ""
  code = $0
  if ((at = index(code, "//")) > 0) {
    comment = substr(code, at)
    code = substr(code, 1, at - 1)
    sub(/[ \t]+$/, "", comment)
  }
  gsub(/^[ \t]+|[ \t]+$/, "", code)

  if (code == "") {
    if (comment == "") {
      empty = 1
      next
    }
    line = spaces(2 * depth) comment
  } else {
    # Words, without modifiers (.name, ::name), numbers and special registers.
    bare = " " code " "
    gsub(/[.%:][A-Za-z_][A-Za-z0-9_]*/, " ", bare)
    gsub(/[^A-Za-z0-9_$](0[xfd][0-9A-Fa-f]+|WARP_SZ)/, " ", bare)
    if (match(bare, /[^A-Za-z0-9_$][A-Z][A-Z0-9_]*[^A-Za-z0-9_$]/))
      refuse("constant not expanded")
    if (bare ~ /[A-Za-z0-9_]\(/ && code !~ /^(\.visible )?\.(entry|func)/)
      refuse("macro not expanded")
    if (count(code, ";") > 1 || code ~ /;./)
      refuse("more than one statement")
    if (code !~ /^\./ && code !~ /[;{}():,]$/)
      refuse("not a statement")
    if (count(code, "[") != count(code, "]"))
      refuse("brackets do not match")

    change = count(code, "{") + count(code, "(") - count(code, "}") - count(code, ")")
    here = change < 0 ? depth + change : depth
    if (here < 0)
      refuse("nothing to close")
    depth += change
    if (code ~ /^[a-z_$][A-Za-z0-9_$]*:$/ && here > 0)
      here--
    line = spaces(2 * here) code
    if ((name = place(code)) != "")
      comment = "// " name (comment == "" ? "" : ": " substr(comment, 4))
    if (comment != "")
      line = line (length(line) < 54 ? spaces(56 - length(line)) : "  ") comment
  }
  if (empty && printed)
    print ""
  empty = 0
  printed = 1
  print line
}

END {
  if (failed)
    exit 1
  if (depth != 0)
    refuse("end of file inside { } or ( )")
}
