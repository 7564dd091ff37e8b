#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the resources of every specialization as tab-separated values.

    resources.py BUILD < list of family/arch/key

Registers, static shared memory and barriers come from the report of ptxas -v
(BUILD/cubin/<family>/<arch>/<key>.log), threads, cluster and dynamic shared memory
from the "// @barewarp NAME VALUE" lines that open the expanded PTX, the size of the
machine code from the cubin's .text section (NVIDIA pads code to 128 bytes; the
padding counts, since it is fetched).
"""

import re
import struct
import sys

COLUMNS = ("family arch key registers static_smem dynamic_smem barriers threads cluster "
           "code_bytes").split()


def facts(ptx):
    """The facts in the head comment of an expanded specialization."""
    found = {}
    with open(ptx, encoding="ascii") as lines:
        for line in lines:
            if not line.startswith("//") and line.strip():
                break
            match = re.match(r"// @barewarp (\S+) (\S+)\s*$", line)
            if match:
                found[match[1]] = match[2]
    return found


def used(log):
    """Registers, barriers and static shared memory, as ptxas -v reports them."""
    with open(log, encoding="ascii", errors="replace") as file:
        text = file.read()
    report = re.search(r"Used (\d+) registers(.*)", text)
    if not report:
        raise ValueError(f"{log}: no report of registers")
    spills = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+)", text)
    if spills and any(int(n) for n in spills.groups()):
        raise ValueError(f"{log}: uses local memory: {spills[0]} bytes spill loads")

    def number(pattern):
        match = re.search(pattern, report[2])
        return int(match[1]) if match else 0

    return int(report[1]), number(r"used (\d+) barriers"), number(r"(\d+) bytes smem")


def code_bytes(cubin):
    """Total size of the executable sections of a 64-bit little-endian ELF file."""
    with open(cubin, "rb") as file:
        elf = file.read()
    if elf[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{cubin}: not a 64-bit little-endian ELF file")
    (offset,) = struct.unpack_from("<Q", elf, 0x28)
    size, count = struct.unpack_from("<HH", elf, 0x3A)
    total = 0
    for section in range(count):
        # Elf64_Shdr: name, type (1 = PROGBITS), flags (4 = executable), addr, offset, size
        kind, flags, _, _, length = struct.unpack_from("<IQQQQ", elf, offset + section * size + 4)
        if kind == 1 and flags & 4:
            total += length
    return total


def main():
    build = sys.argv[1]
    print("\t".join(COLUMNS))
    for stem in sys.stdin.read().split():
        family, arch, key = stem.split("/")
        ptx = f"{build}/ptx/{stem}.ptx"
        head = facts(ptx)
        for name, value in (("family", family), ("arch", arch), ("key", key)):
            if head.get(name) != value:
                raise ValueError(f"{ptx}: head says {name} {head.get(name)}, the table {value}")
        missing = [n for n in ("threads", "cluster", "shared_dynamic") if n not in head]
        if missing:
            raise ValueError(f"{ptx}: head has no line '// @barewarp {missing[0]} VALUE'")
        registers, barriers, static = used(f"{build}/cubin/{stem}.log")
        print(family, arch, key, registers, static, head["shared_dynamic"], barriers,
              head["threads"], head["cluster"], code_bytes(f"{build}/cubin/{stem}.cubin"),
              sep="\t")


try:
    main()
except (OSError, ValueError) as error:
    sys.exit(f"resources.py: {error}")
