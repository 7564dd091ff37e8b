#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs test programs and counts their test cases.
#
#   scripts/run-suites.sh [--resume FOLDER] PROGRAM...
#
# Each program is a Check suite named test_<suite>; it runs on the emulated driver
# under a time limit, as many at a time as there are processors.  Cases are counted
# from the TAP file that Check writes; a program that dies, exceeds its limit, or
# fails without naming a case counts as one failed case.  A case that printed a line
# "skipped: why" (BWT_SKIP of tests/harness/suite.h) counts as skipped, not as passed.
# The last line printed is "N passed, N failed", before it comes "N skipped" with the
# reasons if there are any; the exit status is 0 only if something passed and nothing failed.
#
# With --resume, a suite that passed is not run again until its program, the
# emulated driver or a bundle changes; FOLDER keeps what is known.
#
# Environment
#   BUILD       build folder, or a variant of it (build/asan); default build
#   BW_K        a glob on suite names; if no suite matches, handed to the programs,
#               which take it as a glob on test cases
#   BW_SEED     seed of every random choice; drawn afresh, and printed, if empty
#   BW_FULL     not empty: the programs run everything instead of a sample
#   BW_JOBS     programs at a time; default: the number of processors
#   BW_TEST_DRIVER  the driver to test on: emu (default), cuda or a path
#   BW_LIMIT    seconds a program may take; default 600, or 3600 with BW_FULL

set -euo pipefail

BUILD=${BUILD:-build}
resume=
if [ "${1:-}" = --resume ]; then
  resume=$2
  shift 2
  mkdir -p "$resume"
fi

export BW_SEED=${BW_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
export BW_TEST_DRIVER=${BW_TEST_DRIVER:-emu}
export BAREWARP_DRIVER=$BW_TEST_DRIVER
export BAREWARP_EMU=$PWD/$BUILD/emu/libcuda.so.1
[ "${BUILD#/}" = "$BUILD" ] || BAREWARP_EMU=$BUILD/emu/libcuda.so.1
unset CK_FORK CK_VERBOSITY CK_RUN_SUITE CK_RUN_CASE CK_TAP_LOG_FILE_NAME
jobs=${BW_JOBS:-$(nproc)}
limit=${BW_LIMIT:-${BW_FULL:+3600}}
limit=${limit:-600}

# ---- which suites ------------------------------------------------------------

suite_of() {
  local name=${1##*/}
  echo "${name#test_}"
}

selected=()
for program in "$@"; do
  # shellcheck disable=SC2254 # BW_K is a glob
  case $(suite_of "$program") in
  ${BW_K:-*}) selected+=("$program") ;;
  esac
done
by_case=
if [ ${#selected[@]} -gt 0 ]; then
  unset BW_K
else
  selected=("$@")
  by_case=yes
  export BW_K
fi

# Those that take longest go first, so that at the end no processor waits for one that began
# late.  A suite that is not named here takes its turn after them.
LONGEST=(wo_a mailbox_protocol mutate schedules mailbox_steps up_proj mailbox_mpi rules emu_engine
  conformance mailbox_rounds wo_a_streams cli)
ordered=()
for suite in "${LONGEST[@]}"; do
  for program in "${selected[@]}"; do
    [ "$(suite_of "$program")" != "$suite" ] || ordered+=("$program")
  done
done
for program in "${selected[@]}"; do
  case " ${LONGEST[*]} " in
  *" $(suite_of "$program") "*) ;;
  *) ordered+=("$program") ;;
  esac
done
selected=("${ordered[@]}")

work=$BUILD/check
mkdir -p "$work"

# ---- one suite ---------------------------------------------------------------

# Everything a suite's outcome depends on, short of the machine.
inputs_of() {
  cat "$1" "$BAREWARP_EMU" "${BUILD%/asan}"/*.bundle 2>/dev/null | sha256sum | cut -d ' ' -f 1
}

# Runs program $1 and writes "passed failed skipped seconds note" to <suite>.result.
run_suite() {
  local program=$1 suite start status=0 passed failed skipped note=-
  suite=$(suite_of "$program")
  local tap=$work/$suite.tap log=$work/$suite.log result=$work/$suite.result known=
  rm -f "$tap" "$log" "$result"

  if [ -n "$resume" ]; then
    known=$(inputs_of "$program")
    if [ "$(cut -d ' ' -f 1 "$resume/$suite" 2>/dev/null)" = "$known" ]; then
      echo "$(cut -d ' ' -f 2 "$resume/$suite") 0 0 0.0 kept" >"$result.part"
      mv "$result.part" "$result"
      return
    fi
  fi

  start=$EPOCHREALTIME
  CK_TAP_LOG_FILE_NAME=$tap timeout -k 10 "$limit" "$program" >"$log" 2>&1 </dev/null || status=$?
  passed=$(grep -c '^ok ' "$tap" 2>/dev/null) || true
  failed=$(grep -c '^not ok ' "$tap" 2>/dev/null) || true
  skipped=$(grep -c '^skipped: ' "$log" 2>/dev/null) || true
  failed=${failed:-0} skipped=${skipped:-0}
  passed=$((${passed:-0} - skipped))
  if [ $status = 124 ] || [ $status = 137 ]; then
    note="stopped-after-${limit}s"
    failed=$((failed + 1))
  elif ! grep -q '^1\.\.' "$tap" 2>/dev/null && ! { [ $status = 0 ] && [ -n "$by_case" ]; }; then
    note="died-with-status-$status"
    failed=$((failed + 1))
  elif [ $status != 0 ] && [ "$failed" = 0 ]; then
    note="exit-status-$status"
    failed=1
  fi
  if [ -n "$resume" ] && [ "$failed" = 0 ] && [ "$passed" != 0 ] && [ "$skipped" = 0 ] && [ -z "$by_case" ]; then
    echo "$known $passed" >"$resume/$suite"
  fi
  awk -v p="$passed" -v f="$failed" -v s="$skipped" -v a="$start" -v b="$EPOCHREALTIME" -v n="$note" \
    'BEGIN { printf "%d %d %d %.1f %s\n", p, f, s, b - a, n }' >"$result.part"
  mv "$result.part" "$result"
}

# Prints the outcome of program $1, and what it said if it failed.
report_suite() {
  local program=$1 suite passed failed skipped seconds note
  suite=$(suite_of "$program")
  read -r passed failed skipped seconds note <"$work/$suite.result"
  total_passed=$((total_passed + passed))
  total_failed=$((total_failed + failed))
  total_skipped=$((total_skipped + skipped))
  [ "$passed" = 0 ] && [ "$failed" = 0 ] && [ "$skipped" = 0 ] && return
  times+=("$seconds $suite")
  [ "$note" = - ] && note=
  local verdict=ok
  [ "$passed" != 0 ] || verdict=SKIP
  [ "$failed" = 0 ] || verdict=FAIL
  if [ "$skipped" != 0 ]; then
    note="$skipped SKIPPED $note"
    reasons+=("$(sed -n 's/^skipped: //p' "$work/$suite.log" | sort -u | sed "s/^/  $suite: /")")
  fi
  printf '%-4s  %-24s %5d passed, %d failed  %8s s  %s\n' \
    "$verdict" "$suite" "$passed" "$failed" "$seconds" "${note//-/ }"
  [ "$failed" = 0 ] && return
  grep '^not ok ' "$work/$suite.tap" 2>/dev/null | head -n 40 | sed 's/^/      /' || true
  tail -n 60 "$work/$suite.log" | sed 's/^/      | /'
  echo "      again:  make check K=$suite SEED=$BW_SEED"
}

# ---- all of them -------------------------------------------------------------

total_passed=0 total_failed=0 total_skipped=0 times=() reasons=()
echo "seed $BW_SEED, ${#selected[@]} suites, $jobs at a time${BW_K:+, cases $BW_K}"

declare -A running=() # process id -> program
finish_one() {
  local pid
  wait -n -p pid || true
  report_suite "${running[$pid]}"
  unset "running[$pid]"
}
# Without this an interrupt would leave programs behind.
trap 'kill "${!running[@]}" 2>/dev/null; exit 130' INT TERM

for program in "${selected[@]}"; do
  [ ${#running[@]} -lt "$jobs" ] || finish_one
  run_suite "$program" &
  running[$!]=$program
done
while [ ${#running[@]} -gt 0 ]; do finish_one; done

if [ ${#times[@]} -gt 1 ]; then
  echo "slowest suites:"
  printf '%s\n' "${times[@]}" | sort -rn | head -n 10 | awk '{ printf "  %8.1f s  %s\n", $1, $2 }'
fi
[ $((total_passed + total_failed)) != 0 ] || echo "nothing ran"
if [ "$total_skipped" != 0 ]; then
  echo "$total_skipped skipped:"
  printf '%s\n' "${reasons[@]}"
fi
echo "$total_passed passed, $total_failed failed"
[ "$total_failed" = 0 ] && [ "$total_passed" != 0 ]
