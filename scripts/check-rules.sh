#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every rule of the emulated driver has a pair in tests/rules, or a line in
# tests/rules/without-pair.tsv that says why not; and each group of checks has at least
# five pairs.
#
# Ids of rules are the string literals of words joined by hyphens, "oob-global", in the
# sources of the emulator.  Literals of that form that are no rules are in the list too.

set -euo pipefail
LIST=tests/rules/without-pair.tsv
status=0

ids=$(grep -rohE '"[a-z0-9]+(-[a-z0-9]+)+"' tests/emulator --include='*.c' | tr -d '"' | sort -u)
pairs=$(sed -n 's/^\/\/! rule: *//p' tests/rules/*/*.ptx | tr '|' '\n' | sort -u)
listed=$(awk -F '\t' '!/^#/ { print $1 }' "$LIST" | sort -u)

say() { echo "rules: $*" >&2; status=1; }

for id in $(comm -23 <(echo "$ids") <(printf '%s\n%s\n' "$pairs" "$listed" | sort -u)); do
  say "$id has no pair in tests/rules and no line in $LIST"
done
for id in $(comm -12 <(echo "$pairs") <(echo "$listed")); do
  say "$id has a pair: take its line off $LIST"
done
for id in $(comm -13 <(echo "$ids") <(echo "$listed")); do
  say "$id of $LIST is not in the sources"
done
awk -F '\t' '!/^#/ && (NF != 2 || $2 == "") { print "rules: " FILENAME ":" FNR ": no reason" > "/dev/stderr"; bad = 1 }
  END { exit bad }' "$LIST" || status=1

for group in bounds undef race proxy tcgen05 mbarrier pdl cluster mailbox; do
  n=$(compgen -G "tests/rules/$group/*.ptx" | wc -l || true)
  [ "$n" -ge 5 ] || say "group $group has $n pairs, must have 5"
done

exit $status
