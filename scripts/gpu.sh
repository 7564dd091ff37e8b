#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests and measures on the GPUs of this machine.  Stands at the top of the folder that
# `make gpu-kit` makes, and needs nothing but that folder, libc and the driver; for
# `sanitize` also compute-sanitizer, and for the peers of `bench` python3 with PyTorch.
#
#   gpu.sh check         every kernel against its reference, the suites that make sense on a
#                        GPU, and with two or more GPUs 100,000 steps of the mailbox
#   gpu.sh sanitize      memcheck, racecheck, synccheck and initcheck over `barewarp verify`
#   gpu.sh record        what the kernels give here for fixed operands, to OUT/gpu.record;
#                        `barewarp replay --input gpu.record --output tests/records/NAME` on
#                        the emulated driver makes of it what is kept
#   gpu.sh bench         times of the kernels and of their peers, as JSON to OUT/
#   gpu.sh conformance   the emulator's instruction tests, on the GPU
#
# The last line is "N passed, N failed"; what could not be done here is counted as skipped.
#
# Environment
#   OUT             folder for results (default: out, beside this script)
#   BW_TEST_DRIVER  the driver: cuda (default), or a path
#   BW_SAMPLE, BW_SEED, BW_JOBS, BW_LIMIT   as scripts/run-suites.sh takes them
#   STEPS           of the mailbox (100000)
#   PEERS           options for scripts/gpu/peers.py
#   LIMIT           seconds that one program may take (600)
#   TOOLS           of `sanitize` (memcheck racecheck synccheck initcheck)
#
# NVLink multicast stays off: where GPUs are shared with others, a program that makes
# multicast objects may put them out of service.

set -euo pipefail
cd "$(dirname "$0")"

export BAREWARP_MULTICAST=0 NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
# Ranks that share a GPU must not share a queue of it, and no kernel may be loaded while
# another waits.
export CUDA_DEVICE_MAX_CONNECTIONS=32 CUDA_MODULE_LOADING=EAGER
export BW_TEST_DRIVER=${BW_TEST_DRIVER:-cuda}
export BAREWARP_DRIVER=$BW_TEST_DRIVER
export OUT=${OUT:-$PWD/out}
PEERS=${PEERS:-}
mkdir -p "$OUT"

passed=0 failed=0 skipped=0
start=$SECONDS

say() { printf '== %s (%d s)\n' "$*" $((SECONDS - start)); }
pass() { passed=$((passed + ${1:-1})); }
fail() { failed=$((failed + 1)); echo "FAIL: $*"; }
skip() { skipped=$((skipped + 1)); echo "skipped: $*"; }

# Adds up a program's output, whose last line is "N passed, N failed": counts LOG STATUS
# COMMAND...; shows the end of a failed one, else the last lines.
counts() {
  local log=$1 status=$2 line wrong=1
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1) || true
  if [ -n "$line" ]; then
    pass "${line%% *}"
    wrong=${line#* passed, }
    wrong=${wrong%% *}
    failed=$((failed + wrong))
  fi
  if [ "$status" = 0 ] && [ "$wrong" = 0 ]; then
    tail -n "${TAIL:-1}" "$log"
    return
  fi
  if [ -z "$line" ] || [ "$wrong" = 0 ]; then fail "${*:3} (status $status)"; fi
  tail -n 60 "$log"
}

# Runs a program and adds it up.
counted() {
  local status=0
  timeout -k 10 "${LIMIT:-600}" "$@" >"$OUT/log" 2>&1 || status=$?
  counts "$OUT/log" $status "$@"
}

# The same of several at a time: their time is that of the references on the CPU.  Each
# argument is a command line.
together() {
  local pids=() i=0 status line
  for line in "$@"; do
    # shellcheck disable=SC2086 # words
    timeout -k 10 "${LIMIT:-600}" $line >"$OUT/log.$i" 2>&1 &
    pids+=($!)
    i=$((i + 1))
  done
  i=0
  for line in "$@"; do
    status=0
    wait "${pids[$i]}" || status=$?
    # shellcheck disable=SC2086
    counts "$OUT/log.$i" $status $line
    i=$((i + 1))
  done
}

gpus() { bin/barewarp info | grep -c '^device [0-9]' || true; }

# ---- check ---------------------------------------------------------------------------

check() {
  local count
  count=$(gpus)
  say "every kernel"
  local wo_a="bin/barewarp verify wo_a"
  together "$wo_a --tokens 1-128 --groups 1 --heads-per-group 1,2 --lora-rank 128" \
    "$wo_a --tokens 1-128 --groups 1 --heads-per-group 4 --lora-rank 128" \
    "$wo_a --tokens 1-90 --groups 1 --heads-per-group 8 --lora-rank 128" \
    "$wo_a --tokens 91-128 --groups 1 --heads-per-group 8 --lora-rank 128" \
    "$wo_a --tokens 5,12,24,31,56,120 --groups 11 --lora-rank 384" \
    "$wo_a --tokens 1,8,32 --groups 2" "$wo_a --tokens 96 --groups 2" "$wo_a --tokens 1,8 --groups 16" \
    "bin/barewarp verify up_proj --rows 1-8 --tp 8,16" \
    "bin/barewarp verify lamport_copy --rows 1-8 --tp 1,8,16"

  say "the mailbox, $count GPUs"
  if [ "$count" -lt 2 ]; then
    skip "steps between GPUs: there is one"
  else
    local steps="--steps ${STEPS:-100000}"
    # The lowest bit of the seed decides whether readers wait before they poll.
    for options in "--seed 1" "--seed 2" "--seed 3 --processes" "--seed 4 --processes"; do
      # shellcheck disable=SC2086
      TAIL=99 counted gpu/mailbox_run $steps $options
    done
  fi

  say "suites"
  # One process for all tests of a suite: opening a GPU takes longer than most tests.
  export BW_FORK=no BW_JOBS=${BW_JOBS:-4}
  local line
  BUILD=. scripts/run-suites.sh tests/test_* 2>&1 | tee "$OUT/suites.log" || true
  line=$(sed -n 's/ skipped:$//p' "$OUT/suites.log")
  skipped=$((skipped + ${line:-0}))
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$OUT/suites.log" || echo "0 passed, 1 failed")
  pass "${line%% *}"
  line=${line#* passed, }
  failed=$((failed + ${line%% *}))
  # shellcheck disable=SC2046 # names without spaces
  set -- $(cat left-out)
  echo "left out, for the emulated driver only: $# suites: $*"
}

# ---- sanitize -------------------------------------------------------------------------

sanitize_program() { # TOOL COMMAND...
  timeout -k 10 "${LIMIT:-600}" compute-sanitizer --tool "$1" --print-limit 20 "${@:2}"
}

# One run of a tool over `barewarp verify`: its output to LOG, its exit status to LOG.status.
sanitize_one() {
  local status=0
  # shellcheck disable=SC2086 # words
  sanitize_program "$2" bin/barewarp verify $3 >"$1" 2>&1 || status=$?
  echo $status >"$1.status"
}

# Whether racecheck reports kernels that are right for the reason that wo_a's are:
# tests/gpu/handover.c.
handover_is_misjudged() {
  local mode log
  if [ -z "${misjudged:-}" ]; then
    misjudged=no
    for mode in 0 1 2 3 4; do
      log=$OUT/sanitize.handover.$mode
      sanitize_program racecheck gpu/handover $mode >"$log" 2>&1 || true
      echo "racecheck, handover $mode: $(grep SUMMARY "$log"), $(grep passed "$log")"
    done
    log=$OUT/sanitize.handover.0
    if grep -q '^2000 passed, 0 failed' "$log" && grep -q 'Race reported' "$log"; then misjudged=yes; fi
  fi
  [ "$misjudged" = yes ]
}

# Judges one run of a tool: no error and no hazard, and the command itself passed.
sanitized() {
  local log=$1 status=$2 tool=$3
  if [ "$tool" = racecheck ] && [ "$status" = 0 ] && grep -q 'Race reported' "$log" &&
    ! grep -E '(Race reported|and (Write|Read) access)' "$log" | grep -qv 'access at bw_wo_a_' &&
    handover_is_misjudged; then
    skip "racecheck reports wo_a kernels, as it does handover, which is right: ${*:4}"
    return
  fi
  if [ "$status" = 0 ] && grep -qE '(ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards)' "$log"; then
    echo "$tool: $(grep SUMMARY "$log" | sed 's/^=* //'), $(grep -E '^[0-9]+ passed' "$log"): ${*:4}"
    pass
  else
    fail "$tool ${*:4} (status $status)"
    head -n 40 "$log"
  fi
}

sanitize() {
  if ! command -v compute-sanitizer >/dev/null; then
    fail "there is no compute-sanitizer in PATH"
    return
  fi
  local verify=(
    "wo_a --tokens 1,2,3,4,8,9,16 --groups 1 --lora-rank 128 --heads-per-group 2,8"
    "wo_a --tokens 1,2,4,8,9,16,24,32,96 --groups 1 --lora-rank 128 --heads-per-group 1"
    "wo_a --tokens 17,24,25,32,33,37,96,128 --groups 1 --lora-rank 128 --heads-per-group 2,4"
    "wo_a --tokens 5,40 --groups 2 --lora-rank 256 --heads-per-group 8"
    "wo_a --tokens 5 --groups 11 --lora-rank 384 --heads-per-group 8"
    "wo_a --tokens 32 --groups 6 --lora-rank 384 --heads-per-group 8"
    "up_proj --rows 1-8 --tp 8 --rank 0,7 --hidden 7168"
    "up_proj --rows 1,5,6,8 --tp 16 --rank 3"
    "lamport_copy --rows 1,8 --tp 1,8"
  )
  local tools i=0 tool line
  read -ra tools <<<"${TOOLS:-memcheck racecheck synccheck initcheck}"
  for tool in "${tools[@]}"; do
    for line in "${verify[@]}"; do
      sanitize_one "$OUT/sanitize.$i" "$tool" "$line" &
      i=$((i + 1))
      [ $((i % ${BW_JOBS:-4})) != 0 ] || wait # so many at a time
    done
  done
  wait
  i=0
  for tool in "${tools[@]}"; do
    for line in "${verify[@]}"; do
      sanitized "$OUT/sanitize.$i" "$(cat "$OUT/sanitize.$i.status")" "$tool" "$line"
      i=$((i + 1))
    done
  done
}

# ---- record, bench, conformance -----------------------------------------------------------

record() {
  say "record"
  counted bin/barewarp record --output "$OUT/gpu.record"
}

bench() {
  local count family
  count=$(gpus)
  for family in wo_a up_proj lamport_copy step layers host; do
    say "bench $family"
    if timeout "${LIMIT:-600}" bin/barewarp bench "$family" --json >"$OUT/$family.json"; then pass; else fail "bench $family"; fi
  done
  if [ "$count" -ge 2 ]; then
    say "bench step across $count GPUs"
    if timeout "${LIMIT:-600}" bin/barewarp bench step --mode peers --tp "$count" --hidden $((896 * count)) --json >"$OUT/step_peers.json"; then
      pass
    else
      fail "bench step --mode peers"
    fi
  fi
  if ! python3 -c 'import torch, triton' 2>/dev/null; then
    skip "peers: there is no PyTorch with Triton"
    return
  fi
  say "peers"
  # shellcheck disable=SC2086
  if timeout "${LIMIT:-600}" python3 scripts/gpu/peers.py --output "$OUT/peers.json" $PEERS; then pass; else fail "peers.py"; fi
  if [ "$count" -ge 2 ]; then
    if timeout "${LIMIT:-600}" python3 scripts/gpu/peers_nccl.py --output "$OUT/nccl.json"; then pass; else fail "peers_nccl.py"; fi
  fi
}

conformance() {
  if [ ! -x conformance/conformance ]; then
    fail "this kit has no conformance tests"
    return
  fi
  TAIL=20 counted conformance/conformance --driver "$BW_TEST_DRIVER" --kernels conformance/ptx \
    --cuda conformance/cuda --against conformance/recorded/h200.txt
}

# ---- which ----------------------------------------------------------------------------------

case ${1:-} in
check | sanitize | record | bench | conformance) ;;
*)
  sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
  exit 2
  ;;
esac
bin/barewarp info
"$1"
say "done"
[ $skipped = 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed != 0 ]
