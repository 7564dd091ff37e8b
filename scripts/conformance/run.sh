#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh: in the GPU kit, the conformance kernels on this machine's GPU, against the answers
# of the H200 that were recorded.
set -euo pipefail
cd "$(dirname "$0")"
BAREWARP_MULTICAST=0 exec ./conformance --driver cuda --full --kernels ptx --cuda cuda \
  --cubins cubin --against recorded/h200.txt
