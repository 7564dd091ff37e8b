#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The main job on real input: for several token counts, operands go to a file, the
# kernel runs on them, and its outputs, again in a file, are compared with the
# reference.  Runs on a GPU that the bundle has code for, else on the emulated driver.
# Then a step of up_proj and lamport_copy on eight ranks: the emulated driver's devices,
# or as many GPUs if there are.
#
# Environment: BUILD (default: build), BW_SEED (default: 1)

set -euo pipefail

BUILD=${BUILD:-build}
barewarp=$BUILD/bin/barewarp
folder=$BUILD/demo
mkdir -p "$folder"

"$barewarp" info
failed=0 passed=0

# Makes an input with options $3.., runs the family $1 on it, compares; $2 names the files.
demo() {
  local family=$1 input=$folder/$2.safetensors output=$folder/$2.out.safetensors start=$EPOCHREALTIME
  shift 2
  if "$barewarp" make-input "$family" --output "$input" --seed "${BW_SEED:-1}" "$@" &&
    "$barewarp" run "$family" --input "$input" --output "$output" &&
    "$barewarp" compare "$family" --input "$input" --output "$output"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
  awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f s\n", b - a }'
}

for tokens in 1 8 32 96; do
  printf '\n== wo_a, %d tokens\n' "$tokens"
  demo wo_a "wo_a_t$tokens" --tokens "$tokens" --groups 2 --heads-per-group 8 --lora-rank 1024
done
printf '\n== up_proj and lamport_copy, a step of 8 ranks, 4 rows\n'
demo up_proj up_proj_m4 --rows 4 --latent 3584 --hidden 7168

printf '\n%d passed, %d failed\n' $passed $failed
[ $failed = 0 ]
