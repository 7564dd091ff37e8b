#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles the CUDA C++ conformance kernels to the PTX that is committed beside them.
#
#   scripts/conformance/regen-ptx.sh [name...]
#
# Needs nvcc 13 (on PATH or in $CUDA_HOME/bin).  Each NAME.cu becomes sm_90a/NAME.ptx and
# sm_100a/NAME.ptx; a line `//@ only TARGET` in it leaves the other one out, `//@ nvcc FLAGS`
# adds flags.

set -euo pipefail
cd "$(dirname "$0")/../../tests/conformance/cuda"
NVCC=${CUDA_HOME:+$CUDA_HOME/bin/}nvcc
command -v "$NVCC" >/dev/null || { echo "regen-ptx: no nvcc; set CUDA_HOME" >&2; exit 1; }
"$NVCC" --version | grep -q 'release 13\.' || { echo "regen-ptx: nvcc 13 is needed" >&2; exit 1; }

mkdir -p sm_90a sm_100a
[ $# -gt 0 ] || { rm -f sm_90a/*.ptx sm_100a/*.ptx; set -- *.cu; }
for file in "$@"; do
  name=${file%.cu}
  only=$(sed -n 's|^//@ only ||p' "$name.cu")
  read -ra flags <<<"$(sed -n 's|^//@ nvcc ||p' "$name.cu")"
  for target in sm_90a sm_100a; do
    [ "${only:-$target}" = $target ] || continue
    # Without the lines that name the machine and the build: the same text everywhere.
    "$NVCC" -std=c++17 -ptx -arch=$target ${flags[@]+"${flags[@]}"} -diag-suppress 20054 \
      -o $target/"$name.ptx" "$name.cu"
    # Debug lines name files of the repository, not of the machine.
    sed -i "s|\"$(cd ../../.. && pwd)/|\"|" $target/"$name.ptx"
  done
done
