#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The main job on real input: for several token counts, operands go to a file, the
# kernel runs on them, and its outputs, again in a file, are compared with the
# reference.  Runs on a GPU that the bundle has code for, else on the emulated driver.
#
# Environment: BUILD (default: build), BW_SEED (default: 1)

set -euo pipefail

BUILD=${BUILD:-build}
barewarp=$BUILD/bin/barewarp
folder=$BUILD/demo
mkdir -p "$folder"

"$barewarp" info
failed=0 passed=0
for tokens in 1 8 32 96; do
  input=$folder/wo_a_t$tokens.safetensors
  output=$folder/wo_a_t$tokens.out.safetensors
  printf '\n== wo_a, %d tokens\n' "$tokens"
  start=$EPOCHREALTIME
  if "$barewarp" make-input wo_a --output "$input" --tokens "$tokens" --groups 2 \
    --heads-per-group 8 --lora-rank 1024 --seed "${BW_SEED:-1}" &&
    "$barewarp" run wo_a --input "$input" --output "$output" &&
    "$barewarp" compare wo_a --input "$input" --output "$output"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
  awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f s\n", b - a }'
done

printf '\n%d passed, %d failed\n' $passed $failed
[ $failed = 0 ]
