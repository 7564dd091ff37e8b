#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The references (tests/ref) and the emulated driver (tests/emulator) judge each
# other, so they must share nothing.  Fails if
#   - a file of the emulator includes a file of the project from outside its folder,
#   - a file of the references includes one of the emulator or of the loader,
#   - both define a function or object of the same name (one was copied).
# Reads the compiler's dependency files and the archives under $BUILD.

set -euo pipefail
BUILD=${BUILD:-build}
status=0

# Prints "object: header" for each project file that objects below $1 include.
# System headers have absolute names.
includes() {
  local file
  find "$BUILD/obj/$1" -name '*.d' | while read -r file; do
    # The first rule only; those that follow are the empty ones of -MP.
    sed -e '/^$/,$d' -e 's/^[^:]*://' -e 's/\\$//' "$file" | tr -s ' ' '\n' |
      sed -n '/^[^/]/p' | while read -r header; do
      header=$(realpath -m --relative-to=. "$header")
      echo "${file#"$BUILD/obj/"}: $header"
    done
  done
}

complain() {
  local found
  found=$(cat)
  [ -z "$found" ] || { printf '%s\n%s\n' "$1" "$found" >&2; status=1; }
}

# Names of the functions and objects that an archive defines.
defined() { nm --defined-only -g "$@" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u; }

complain "the emulated driver includes from outside tests/emulator:" < <(
  includes tests/emulator | grep -v ': tests/emulator/')
complain "the references include the emulator or the loader:" < <(
  includes tests/ref | grep -E ': (tests/emulator|loader)/')
complain "the references and the emulated driver both define:" < <(
  mapfile -t objects < <(find "$BUILD/obj/tests/ref" -name '*.o')
  comm -12 <(defined "$BUILD/emu/libemulator.a") <(defined "${objects[@]}"))
exit $status
