# SPDX-License-Identifier: Apache-2.0
#
# Reads every ptx/<family>/table.tsv and writes the part of the Makefile that
# lists the specializations (to standard output), and one file of constants per
# specialization, BUILD/kernels/<family>/<arch>/<key>.def, which is rewritten only
# if its content changed: a changed table row rebuilds that row alone.
#
#   awk -v BUILD=build -f scripts/kernels.awk ptx/*/table.tsv
#
# The table's format is described in scripts/expand.sh.

function fail(text) {
  printf "%s:%d: %s\n", FILENAME, FNR, text > "/dev/stderr"
  failed = 1
  exit 1
}

# The whole text of a file; "" if there is none.
function contents(file,   line, text) {
  while ((getline line < file) > 0)
    text = text line "\n"
  close(file)
  return text
}

function make_folder(folder) {
  if (!(folder in made) && system("mkdir -p '" folder "'") != 0)
    fail("cannot make folder " folder)
  made[folder] = 1
}

BEGIN {
  print "# Written by scripts/kernels.awk; do not edit."
}

/^[ \t]*(#|$)/ { next }

# The first line of each table that is no comment names its columns.
FILENAME != table {
  table = FILENAME
  n = split(FILENAME, parts, "/")
  family = parts[n - 1]
  split("", column)
  columns = NF
  for (i = 1; i <= NF; i++) {
    if ($i !~ /^[a-z][a-z0-9_]*$/)
      fail("column name '" $i "' is not lower case letters, digits and _")
    name[i] = $i
    column[$i] = i
  }
  for (i = split("arch template key ship", required, " "); i > 0; i--)
    if (!(required[i] in column))
      fail("no column named '" required[i] "'")
  next
}

{
  if (NF != columns)
    fail(NF " fields where the header names " columns)
  arch = $column["arch"]
  key = $column["key"]
  ship = $column["ship"]
  stem = family "/" arch "/" key
  if (ship != "yes" && ship != "test")
    fail("ship is '" ship "'; allowed are yes and test")
  if (key !~ /^[A-Za-z0-9_]+$/)
    fail("key '" key "' is not letters, digits and _")
  if (stem in seen)
    fail("key " key " for " arch " is already on line " seen[stem])
  seen[stem] = FNR

  text = "family " family "\n"
  for (i = 1; i <= NF; i++)
    text = text name[i] " " $i "\n"
  file = BUILD "/kernels/" stem ".def"
  if (contents(file) != text) {
    make_folder(BUILD "/kernels/" family "/" arch)
    printf "%s", text > file
    close(file)
  }

  list[ship] = list[ship] " \\\n  " stem
  # Files of the family that are no templates are what its templates include.
  rules = rules BUILD "/ptx/" stem ".ptx: ptx/" family "/" $column["template"] \
    " $(filter-out %.ptx.m4,$(wildcard ptx/" family "/*.m4))\n"
}

END {
  if (failed)
    exit 1
  print "KERNELS_SHIP :=" list["yes"]
  print "KERNELS_TEST :=" list["test"]
  printf "%s", rules
}
