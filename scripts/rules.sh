#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The rule pairs (tests/rules): runs them, a line a group of checks, and assembles both
# twins of each with ptxas -Werror, which must pass them: what the emulated driver finds
# there, the assembler does not.  Ends with "N passed, N failed".
#
#   scripts/rules.sh PTXAS           all of them
#   scripts/rules.sh --list          rule, group, what it is about, file; of each pair
#
# Environment
#   BUILD      build folder; default build
#   BW_PAIR    a glob on group/name, or group: only those pairs
#   BW_SEED    seed of the schedules; drawn afresh if empty

set -euo pipefail
BUILD=${BUILD:-build}
FOLDER=tests/rules

# Files that BW_PAIR selects.
pairs() {
  local file name
  for file in "$FOLDER"/*/*.ptx; do
    name=${file#"$FOLDER"/}
    name=${name%.ptx}
    # shellcheck disable=SC2254 # a glob
    case $name in (${BW_PAIR:-*}) echo "$file"; continue ;; esac
    # shellcheck disable=SC2254
    case ${name%/*} in (${BW_PAIR:-*}) echo "$file" ;; esac
  done
}

# Rule, group, first sentence of the head, file.
list() {
  pairs | while read -r file; do
    awk -v file="$file" '
      /^\/\/! rule:/ { rule = $3 }
      /^\/\/ / && !/SPDX/ && !done { text = text (text ? " " : "") substr($0, 4) }
      /^\/\/$/ && text { done = 1 }
      END { sub(/\. .*/, ".", text); n = split(file, part, "/")
            printf "%-28s %-9s %s (%s)\n", rule, part[n - 1], text, part[n] }' "$file"
  done
}

# The bad twin of $1, as the suite makes it.
bad_twin() {
  awk '{ if (at = index($0, "//! bad:")) { $0 = substr($0, at + 8); sub(/\/\/!.*/, "") }
         print }' "$1"
}

if [ "${1:-}" = --list ]; then
  list
  exit
fi
ptxas=$1
work=$BUILD/rules
rm -rf "$work"
mkdir -p "$work"

# ---- the emulated driver ---------------------------------------------------------

status=0
BW_PAIR=${BW_PAIR:-} BW_RESULTS=$work/tap BAREWARP_EMU=$PWD/$BUILD/emu/libcuda.so.1 "$BUILD/tests/test_rules" \
  >"$work/log" 2>&1 || status=$?
grep '^not ok' "$work/tap" 2>/dev/null | sed 's/^not ok [0-9]* - [^:]*:[^:]*:pair: /FAIL  /' || true
if [ $status != 0 ] && ! grep -q '^not ok' "$work/tap" 2>/dev/null; then
  tail -n 20 "$work/log"
  echo "0 passed, 1 failed"
  exit 1
fi

# ---- the assembler ---------------------------------------------------------------

refused=0
while read -r file; do
  arch=$(sed -n 's/^\.target \(sm_[0-9a-z]*\).*/\1/p' "$file" | head -n 1)
  bad_twin "$file" >"$work/bad.ptx"
  for twin in "$file" "$work/bad.ptx"; do
    if ! "$ptxas" -Werror -arch="$arch" -o "$work/cubin" "$twin" >"$work/said" 2>&1; then
      echo "FAIL  $file: ptxas refuses the $([ "$twin" = "$file" ] && echo good || echo bad) twin"
      sed 's/^/      /' "$work/said"
      refused=$((refused + 1))
    fi
  done
done < <(pairs)

# ---- counts ----------------------------------------------------------------------

awk -v refused="$refused" -F ':' '
  /^ok /     { ok[$2]++; group[$2] }
  /^not ok / { bad[$2]++; group[$2] }
  END {
    n = split("bounds undef race proxy tcgen05 mbarrier pdl cluster mailbox progress", name, " ")
    for (i = 1; i <= n; i++) {
      printf "%-10s %3d pairs, %d failed\n", name[i], ok[name[i]] + bad[name[i]], bad[name[i]]
      passed += ok[name[i]]; failed += bad[name[i]]; delete group[name[i]]
    }
    for (g in group) { print "no group of checks: " g; failed++ }
    printf "%-10s %3d refused\n", "ptxas", refused
    failed += refused
    printf "%d passed, %d failed\n", passed, failed
    exit failed > 0 || passed == 0
  }' "$work/tap"
