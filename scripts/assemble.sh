#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Assembles one expanded specialization.
#
#   scripts/assemble.sh DEF PTX CUBIN PTXAS FLAG...
#
# Writes CUBIN and, beside it, what ptxas said (FLAG has -v) in a .log file.  When ptxas
# refuses, the specialization is expanded once more with #line directives, so that
# the errors shown point into the template.

set -euo pipefail

def=$1 ptx=$2 cubin=$3 ptxas=$4
shift 4
arch=$(sed -n 's/^arch //p' "$def")
log=${cubin%.cubin}.log

mkdir -p "${cubin%/*}"
trap 'rm -f "$cubin.part" "$log.part" "$cubin.lines.ptx"' EXIT

if "$ptxas" -arch="$arch" "$@" -o "$cubin.part" "$ptx" >"$log.part" 2>&1; then
  mv "$log.part" "$log"
  mv "$cubin.part" "$cubin"
  exit 0
fi

{
  scripts/expand.sh -s "$def" >"$cubin.lines.ptx"
  if "$ptxas" -arch="$arch" "$@" -o "$cubin.part" "$cubin.lines.ptx" 2>&1; then
    # Only the plain expansion fails: show its own errors.
    cat "$log.part"
  fi
  echo "$ptx: ptxas refused this specialization"
} | grep -v '^ptxas info' >&2
exit 1
