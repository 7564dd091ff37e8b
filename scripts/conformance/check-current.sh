#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check-current.sh FORM_TABLE FOLDER: fails if a committed conformance kernel or table is not
# what its source makes.  Works in FOLDER.  (What nvcc makes is not made anew here.)
set -euo pipefail
rm -rf "$2"
mkdir -p "$2"
scripts/conformance/generate.py "$2/ptx"
diff -rq "$2/ptx" tests/conformance/ptx || {
  echo "lint: tests/conformance/ptx is not what scripts/conformance makes: make regen-ptx" >&2
  exit 1
}
cp tests/emulator/README.md "$2/README.md"
scripts/conformance/tables.sh "$1" "$2/README.md" "$2/FORMS.md"
if ! cmp "$2/README.md" tests/emulator/README.md || ! cmp "$2/FORMS.md" tests/conformance/FORMS.md; then
  echo "lint: the tables of forms are not current: make conformance-tables" >&2
  exit 1
fi
for cu in tests/conformance/cuda/*.cu; do
  name=$(basename "$cu" .cu)
  only=$(sed -n 's|^//@ only ||p' "$cu")
  for target in sm_90a sm_100a; do
    [ "${only:-$target}" = $target ] || continue
    [ -e "tests/conformance/cuda/$target/$name.ptx" ] || { echo "lint: no PTX of $cu for $target: make regen-ptx" >&2; exit 1; }
  done
done
rm -rf "$2"
