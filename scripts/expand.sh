#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Expands one specialization of a kernel family from its m4 template.
#
#   scripts/expand.sh DEF OUT       writes the expansion to OUT
#   scripts/expand.sh -s DEF        writes it to standard output with #line
#                                   directives that ptxas accepts
#
# A family is a folder ptx/<family>/ with a table.tsv: blank lines and lines
# that start with # are skipped; the first other line names the columns, every
# further one is a specialization.  Fields are separated by white space.  Four
# columns have a meaning of their own:
#
#   arch      ptxas -arch, for example sm_100f
#   template  file in ptx/<family>/ that is expanded
#   key       name of the specialization, unique within family and arch
#   ship      yes: packed into the bundle; test: built for the tests only
#
# The template sees every column, and the family, as a macro BW_<COLUMN> in
# capitals (BW_FAMILY, BW_ARCH, BW_KEY, BW_TILE ...).  include() searches
# ptx/lib/ and ptx/<family>/.  A warning of m4 is an error.  ptx/lib/finish.awk
# indents what comes out and looks for leftovers of m4 in it.
#
# scripts/kernels.awk turns a row into the file DEF: one "column value" a line.

set -euo pipefail

with_lines=0
if [ "$1" = -s ]; then
  with_lines=1
  shift
fi
def=$1

defines=()
while read -r name value; do
  defines+=("-DBW_${name^^}=$value")
  case $name in
  family) family=$value ;;
  template) template=$value ;;
  esac
done <"$def"

m4=(m4 -E -E -I ptx/lib -I "ptx/$family" "${defines[@]}")
if [ $with_lines = 1 ]; then
  # m4 -s names the file only when it changes; ptxas wants it on every #line.
  "${m4[@]}" -s "ptx/$family/$template" |
    awk '/^#line [0-9]+/ { if (NF > 2) file = $3; print $1, $2, file; next } { print }'
  exit
fi

out=$2
mkdir -p "${out%/*}"
"${m4[@]}" "ptx/$family/$template" >"$out.m4"
awk -v NAME="$out.m4" -f ptx/lib/finish.awk "$out.m4" >"$out.part"
mv "$out.part" "$out"
rm "$out.m4" # kept when finish.awk refuses: its messages give lines of it
