#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# assemble.sh KERNEL.ptx KERNEL.cubin: assembles a conformance kernel for the target that it
# names, with ptxas of $CUDA_HOME, of the build's toolchain, or on PATH.
set -euo pipefail
target=$(sed -n 's/^\.target *\(sm_[0-9a-z]*\).*/\1/p' "$1" | head -n 1)
debug=$(sed -n 's/^\.target .*, *debug.*/-g/p' "$1" | head -n 1)
ptxas=${CUDA_HOME:+$CUDA_HOME/bin/ptxas}
ptxas=${ptxas:-$(sed -n 's/^PTXAS *:*= *//p' "${BUILD:-build}/config.mk" 2>/dev/null || true)}
mkdir -p "$(dirname "$2")"
# shellcheck disable=SC2086 # debug is a flag or nothing
"${ptxas:-ptxas}" -arch "$target" $debug "$1" -o "$2" 2>"$2.log" || { cat "$2.log" >&2; exit 1; }
rm -f "$2.log"
