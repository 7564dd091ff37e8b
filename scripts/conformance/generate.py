#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the conformance kernels, one file for each instruction form.

    scripts/conformance/generate.py FOLDER

The tables are in the modules beside this one.  They are written from the PTX ISA, not from
the emulator's own tables.
"""
import glob
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kernel  # noqa: E402

MODULES = ("integer", "floating", "convert", "warp", "memory", "sync", "copy_", "matrix",
           "blackwell", "questions")


def main():
    folder = sys.argv[1]
    for name in MODULES:
        if os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")):
            __import__(name).make()
    os.makedirs(folder, exist_ok=True)
    written = set()
    for k in kernel.Kernel.all:
        path = k.write(folder)
        if path in written:
            sys.exit(f"two kernels are called {k.name}")
        written.add(path)
    for path in set(glob.glob(os.path.join(folder, "*.ptx"))) - written:
        os.remove(path)


main()
