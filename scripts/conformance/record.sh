#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# record.sh CONFORMANCE OPTIONS...: runs the conformance kernels on this machine's GPU and
# writes tests/conformance/recorded/h200.txt and .bits, headed by card, driver, assembler,
# date and command.  Refuses a GPU that is no Hopper.
set -euo pipefail
head=$(mktemp)
trap 'rm -f "$head"' EXIT
card=$(nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader | head -n 1)
case $card in *" 9.0") ;; *) echo "record-conformance: $card: the record is a Hopper's" >&2; exit 1 ;; esac
ptxas=${CUDA_HOME:+$CUDA_HOME/bin/}ptxas
{
  echo "${card% *}"
  echo "kernels assembled by $("$ptxas" --version | sed -n 's/.*release.*, V/ptxas /p') for sm_90a"
  date -u +%Y-%m-%d
  echo "command: conformance --driver cuda --kernels ptx --cuda cuda --cubins cubin --full"
} >"$head"
BAREWARP_MULTICAST=0 "$@" --driver cuda --full --record tests/conformance/recorded/h200.txt --head "$head"
