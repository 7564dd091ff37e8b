#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Finds or fetches what the build needs, and writes what it found to
# $BUILD/config.mk, which the Makefile includes.
#
#   scripts/setup.sh          what every build needs
#   scripts/setup.sh lint     also the pinned clang-format and clang-tidy
#   scripts/setup.sh python-client   cuda-python's driver bindings, for the suite client; never fails
#
# Debian packages that are missing are installed with apt-get (as root; anyone
# else gets the command to run); without the optional ones, of Open MPI, the suites that
# need them are skipped, and counted so.  ptxas and cuda.h come from $CUDA_HOME, from
# PATH or from the toolkit's standard folder; if no ptxas of at least
# PTXAS_MINIMUM is there, the two wheels pinned below go to $BUILD/toolchain.
# The lint tools go to $BUILD/lint-tools, cuda-python to $BUILD/python-client, a disassembler that no toolkit has to
# $BUILD/nvdisasm.  A second run that finds everything in
# place starts a few short processes, fetches nothing, and leaves config.mk alone.
#
# Environment: BUILD (default: build), CUDA_HOME, PIP_* as pip reads it.

set -euo pipefail

BUILD=${BUILD:-build}
PTXAS_MINIMUM=13.0
PTXAS_WHEELS=(nvidia-cuda-nvcc==13.0.88 nvidia-cuda-runtime==13.0.96)
LINT_WHEELS=(clang-format==18.1.8 clang-tidy==18.1.8)
PYTHON_CLIENT_WHEELS=(cuda-bindings==13.0.3 cuda-pathfinder==1.9.1)
DISASSEMBLER_WHEELS=(nvidia-cuda-nvdisasm==13.2.78)

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

# ---- Debian packages ---------------------------------------------------------

# Prints the packages whose command, library or Python module is missing.
missing_packages() {
  local pair
  for pair in m4:m4 pkg-config:pkg-config python3:python3 zstd:zstd spin:spin; do
    command -v "${pair%%:*}" >/dev/null || echo "${pair#*:}"
  done
  for pair in check:check libzstd:libzstd-dev jansson:libjansson-dev libxxhash:libxxhash-dev; do
    if ! command -v pkg-config >/dev/null || ! pkg-config --exists "${pair%%:*}"; then
      echo "${pair#*:}"
    fi
  done
  [ -e /usr/include/stdio.h ] || echo libc6-dev
  if [ "$1" = with-pip ] && ! python3 -m pip --version >/dev/null 2>&1; then
    echo python3-pip
  fi
}

# $1: no-pip, or with-pip when wheels will have to be fetched.
install_packages() {
  local packages
  mapfile -t packages < <(missing_packages "$1")
  [ ${#packages[@]} -gt 0 ] || return 0
  local install="apt-get install -y --no-install-recommends ${packages[*]}"
  command -v apt-get >/dev/null ||
    die "this is not a Debian system; please install the equivalent of: ${packages[*]}"
  if [ "$(id -u)" -ne 0 ]; then
    die "missing: ${packages[*]}; run:  sudo sh -c 'apt-get update && $install'"
  fi
  say "installing ${packages[*]}"
  apt-get update -q >&2
  DEBIAN_FRONTEND=noninteractive $install -q >&2
  mapfile -t packages < <(missing_packages "$1")
  [ ${#packages[@]} -eq 0 ] || die "still missing after apt-get: ${packages[*]}"
}

# The same of what the build and all but a few suites do without.
missing_optional() {
  command -v mpirun >/dev/null || echo openmpi-bin
  command -v mpicc >/dev/null || echo libopenmpi-dev
}

# Never fails: tells what will be skipped.  It is only tried when config.mk is remade.
install_optional() {
  local packages
  mapfile -t packages < <(missing_optional)
  [ ${#packages[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    say "installing ${packages[*]}"
    if apt-get update -q >&2; then
      DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}" -q >&2 || true
    fi
    mapfile -t packages < <(missing_optional)
  fi
  [ ${#packages[@]} -eq 0 ] ||
    say "NO MPI (${packages[*]}): the suite mailbox_mpi will be skipped; run:  sudo apt-get install ${packages[*]}"
}

# ---- ptxas and cuda.h --------------------------------------------------------

# Prints the version of the ptxas at $1, for example 13.0.88.
ptxas_version() { "$1" --version 2>/dev/null | sed -n 's/^.*, V\([0-9.]*\).*$/\1/p'; }

# Whether dotted version $1 is at least $2.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

# Sets PTXAS, PTXAS_VERSION and CUDA_INCLUDE from the toolkit whose root is $1.
use_toolkit() {
  local version
  [ -x "$1/bin/ptxas" ] && [ -f "$1/include/cuda.h" ] || return 1
  version=$(ptxas_version "$1/bin/ptxas")
  [ -n "$version" ] && at_least "$version" "$PTXAS_MINIMUM" || return 1
  PTXAS=$1/bin/ptxas PTXAS_VERSION=$version CUDA_INCLUDE=$1/include
}

find_toolkit() {
  local root on_path
  on_path=$(command -v ptxas || true)
  for root in "${CUDA_HOME:-}" "${on_path:+$(dirname "$(dirname "$(readlink -f "$on_path")")")}" \
    /usr/local/cuda /usr/local/cuda-* "$(realpath -m "$BUILD")/toolchain/nvidia/cu13"; do
    [ -n "$root" ] && use_toolkit "$root" && return 0
  done
  return 1
}

# Installs wheels into folder $1, whole or not at all, one by one: the error names the one that
# failed.  (Each by way of a folder of its own: pip does not add to one that is there.)
# $2: what else helps than a package index that pip can reach, or empty.
fetch_wheels() {
  local folder=$1 instead=$2 wheel status
  shift 2
  rm -rf "$folder" "$folder.part" "$folder.wheel"
  mkdir -p "$folder.part"
  say "fetching $* into $folder"
  for wheel in "$@"; do
    status=0
    python3 -m pip install -q --disable-pip-version-check --no-deps --no-compile \
      --root-user-action=ignore --target "$folder.wheel" "$wheel" >&2 || status=$?
    if [ $status -ne 0 ]; then
      rm -rf "$folder.part" "$folder.wheel"
      say "could not fetch the wheel $wheel: pip exited with status $status (what it said is above)"
      die "give pip a package index that it can reach (a network, or PIP_INDEX_URL, or PIP_FIND_LINKS)${instead:+; or $instead}"
    fi
    cp -rl "$folder.wheel/." "$folder.part"
    rm -rf "$folder.wheel"
  done
  mv "$folder.part" "$folder"
}

# ---- config.mk ---------------------------------------------------------------

# The facts that config.mk was derived from, cheap to collect: while they are
# unchanged, so is config.mk.
fingerprint() {
  cksum <"$0"
  echo "CUDA_HOME=${CUDA_HOME:-} PATH=$PATH"
  command -v m4 pkg-config python3 zstd mpicc mpirun || true
  pkg-config --modversion check libzstd jansson libxxhash 2>&1 || true
  stat -L -c '%n %s %Y' "${PTXAS:-none}" "${CUDA_INCLUDE:-none}/cuda.h" 2>/dev/null || true
}

write_config() {
  local config=$BUILD/config.mk
  {
    echo "# Written by scripts/setup.sh; do not edit."
    echo "PTXAS := $PTXAS"
    echo "PTXAS_VERSION := $PTXAS_VERSION"
    echo "CUDA_INCLUDE := $CUDA_INCLUDE"
    echo "CHECK_CFLAGS := $(pkg-config --cflags check)"
    echo "CHECK_LIBS := $(pkg-config --libs check) -pthread"
    echo "ZSTD_LIBS := $(pkg-config --libs libzstd)"
    echo "JANSSON_CFLAGS := $(pkg-config --cflags jansson)"
    echo "JANSSON_LIBS := $(pkg-config --libs jansson)"
    # Empty: no MPI.
    echo "MPICC := $(command -v mpicc || true)"
    echo "MPIRUN := $(command -v mpirun || true)"
  } >"$config.part"
  if cmp -s "$config.part" "$config"; then
    rm -f "$config.part"
  else
    mv "$config.part" "$config"
  fi
  fingerprint >"$BUILD/config.key"
}

set_up_build() {
  if [ -f "$BUILD/config.mk" ] && [ -f "$BUILD/config.key" ]; then
    PTXAS=$(sed -n 's/^PTXAS := //p' "$BUILD/config.mk")
    CUDA_INCLUDE=$(sed -n 's/^CUDA_INCLUDE := //p' "$BUILD/config.mk")
    if [ -x "$PTXAS" ] && [ -f "$CUDA_INCLUDE/cuda.h" ] &&
      [ "$(fingerprint)" = "$(cat "$BUILD/config.key")" ]; then
      return 0
    fi
  fi
  if find_toolkit; then
    install_packages no-pip
  else
    install_packages with-pip
    fetch_wheels "$BUILD/toolchain" "set CUDA_HOME to a CUDA toolkit >= $PTXAS_MINIMUM" "${PTXAS_WHEELS[@]}"
    find_toolkit || die "the wheels ${PTXAS_WHEELS[*]} hold no usable ptxas and cuda.h for this machine"
  fi
  install_optional
  write_config
  say "ptxas $PTXAS_VERSION ($PTXAS)"
}

set_up_lint() {
  local stamp=$BUILD/lint-tools/pinned
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "${LINT_WHEELS[*]}" ]; then
    return 0
  fi
  install_packages with-pip
  fetch_wheels "$BUILD/lint-tools" "" "${LINT_WHEELS[@]}"
  echo "${LINT_WHEELS[*]}" >"$stamp"
}

# Without these wheels the suite client skips what needs them, so whatever is missing (pip, a
# network, a wheel for this Python) is told, not an error.
set_up_python_client() {
  local folder=$BUILD/python-client wanted
  wanted="${PYTHON_CLIENT_WHEELS[*]} for $(python3 -c 'import sys; print(sys.implementation.cache_tag)')"
  if [ -f "$folder/pinned" ] && [ "$(cat "$folder/pinned")" = "$wanted" ]; then
    return 0
  fi
  if (
    export PIP_RETRIES=${PIP_RETRIES:-1} PIP_DEFAULT_TIMEOUT=${PIP_DEFAULT_TIMEOUT:-10}
    fetch_wheels "$folder" "" "${PYTHON_CLIENT_WHEELS[@]}"
  ) && PYTHONPATH=$folder python3 -c 'import cuda.bindings.driver' >&2; then
    echo "$wanted" >"$folder/pinned"
  else
    rm -rf "$folder" "$folder.part"
    say "NO cuda-python: the suite client will skip what needs it"
  fi
}

# nvdisasm: of the toolkit that has ptxas, from PATH, or fetched.  Prints where it is.
set_up_disassembler() {
  local folder=$BUILD/nvdisasm found
  found=$folder/nvidia/cu13/bin/nvdisasm
  if [ -x "${PTXAS%/*}/nvdisasm" ]; then
    found=${PTXAS%/*}/nvdisasm
  elif command -v nvdisasm >/dev/null; then
    found=$(command -v nvdisasm)
  elif [ ! -x "$found" ]; then
    install_packages with-pip
    fetch_wheels "$folder" "put nvdisasm into PATH" "${DISASSEMBLER_WHEELS[@]}"
    chmod +x "$found"
  fi
  echo "$found"
}

mkdir -p "$BUILD/flags"
exec 9>"$BUILD/.setup.lock"
flock 9 # two makes at once: the second finds everything done
case ${1:-build} in
build) set_up_build ;;
lint) set_up_build && set_up_lint ;;
python-client) set_up_build && set_up_python_client ;;
disassembler) set_up_build && set_up_disassembler ;;
*) die "usage: scripts/setup.sh [lint | python-client | disassembler]" ;;
esac
