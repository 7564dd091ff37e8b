#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What can be said of the kernels without running them, from their machine code.

    static.py BUILD NVDISASM KEY...        KEY is <family>/<arch>/<key>

For each specialization: registers, shared memory and what bounds the CTAs an SM can
hold; instructions in all, in loops, and on the shortest and the longest way from entry
to exit; and how many of each kind.  Specializations of one key stand side by side, so
that an architecture that needs more of a kind for the same work shows.

A way through the code takes each loop body once and leaves out the bodies of the
hardware's assertions, which follow the kernel's own code.

Limits per SM: the occupancy tables of the CUDA C++ Programming Guide for compute
capability 9.0 and 10.0 (the same figures for both).
"""

import re
import subprocess
import sys

SM_QUARTERS = 4  # an SM has four, and a warp stays in one
QUARTER_REGISTERS = 16384
SM_THREADS = 2048
SM_WARPS = 64
SM_CTAS = 32
SM_SHARED = 228 * 1024
CTA_SHARED_RESERVED = 1024
POLL = 12  # a loop of at most so many instructions only waits
UNREACHED = 10**9
REGISTER_UNIT = 256  # registers are allotted to a warp in units of these

# The first class whose pattern matches the whole opcode (without its modifiers).
CLASSES = (
    ("tensor", r"UTC\w*MMA|HGMMA|QGMMA|IGMMA|HMMA|IMMA"),
    ("tensor data", r"UTCCP|UTCBAR|LDTM|STTM|LDSM|STSM|WARPGROUP|UTCATOMSWS|MOVM"),
    ("bulk copy", r"UTMA\w*|UBLK\w*|STAS|LDGSTS|LDGDEPBAR"),
    ("barrier", r"SYNCS|BAR|WARPSYNC|UCGABAR\w*|B2R|R2B|DEPBAR|NANOSLEEP|YIELD|ENDCOLLECTIVE"),
    ("fence", r"FENCE|MEMBAR|ERRBAR|CGAERRBAR|CCTL|CCTLL"),
    ("grid", r"ACQBULK|PREEXIT"),
    ("global", r"LDG|STG|LD|ST|RED|REDG|ATOM|ATOMG|LDC|LDCU|ULDC"),
    ("shared", r"LDS|STS|ATOMS|LDSX"),
    ("float", r"F(ADD|MUL|FMA|MNMX3?|SETP?|SEL|CHK|SWZADD|ADD2|MUL2|FMA2)|MUFU|D(ADD|MUL|FMA|SETP)"),
    ("half, bf16", r"FHFMA|FHADD|H(ADD2|MUL2|FMA2|MNMX2|SETP?2)|HADD2_32"),
    ("convert", r"F2FP?|F2I|I2FP?|F2F|I2F|FRND|I2I"),
    ("shuffle", r"SHFL|REDUX|CREDUX|VOTE|VOTEU|ELECT|MATCH|UFLO|FLO"),
    ("move", r"U?MOV|R2UR|UR2R|S2U?R|CS2R|U?SEL|U?PRMT|P2R|R2P|UP2UR|UPRMT"),
    ("branch", r"BRA|BRX|JMP|CALL|RET|EXIT|BSSY|BSYNC|BREAK|BPT|U?VIRTCOUNT|WARPGROUPSET"),
    ("integer", r"U?(IADD3?|LOP3?|SHF|LEA|IMAD|ISETP|VIADD\w*|PLOP3|BMSK|SGXT|IABS|POPC|BREV|IMNMX\w*|"
                r"VIMNMX\w*|VIADDMNMX)|IMNMX|LOP|PSETP|BITEXTRACT"),
    ("padding", r"NOP"),
)
LINE = re.compile(r"^\s+/\*([0-9a-f]+)\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][A-Z0-9_]*)((?:\.\w+)*)\s*(.*?);")
TARGET = re.compile(r"`\((\S+?)\)")


class Code:
    """The instructions of one kernel, as basic blocks."""

    def __init__(self, text):
        self.at = []  # (predicate, opcode, operands)
        labels = {}
        for line in text.splitlines():
            label = re.match(r"^(\.L_\S+|\$\S+):", line)
            if label:
                labels[label[1]] = len(self.at)
            found = LINE.match(line)
            if found:
                self.at.append((found[2], found[3], found[5]))
        # Code after the kernel's own: the bodies of the hardware's assertions.
        own = [at for name, at in labels.items() if name.startswith("$__internal")]
        self.size = min(own, default=len(self.at))
        self.labels = labels

    def next(self, i):
        """Where the instruction at i may go on."""
        predicate, opcode, operands = self.at[i]
        if opcode in ("EXIT", "BPT", "RET"):
            return [i + 1] if predicate else []
        if opcode == "BRA":
            target = TARGET.search(operands)
            to = [self.labels[target[1]]] if target and target[1] in self.labels else []
            # BRA.U UP0 carries its predicate as an operand
            conditional = predicate or operands.startswith(("UP", "!UP", "P", "!P"))
            return to + ([i + 1] if conditional else [])
        return [i + 1]

    def walk(self):
        """Depth first from the entry: instructions in order of completion, and the
        edges that close a loop."""
        order, back = [], []
        state = {0: "open"}
        stack = [(0, iter(self.next(0)))]
        while stack:
            node, rest = stack[-1]
            for to in rest:
                if to >= self.size:
                    continue
                if state.get(to) == "open":
                    back.append((node, to))
                elif to not in state:
                    state[to] = "open"
                    stack.append((to, iter(self.next(to))))
                    break
            else:
                state[node] = "done"
                order.append(node)
                stack.pop()
        return order, back

    def in_loops(self):
        """Instructions of loops that do more than poll: for every closing edge, what
        reaches its tail without passing its head; a loop of a few instructions that
        waits for a barrier or a word is no work."""
        order, back = self.walk()
        before = {}
        for node in order:
            for to in self.next(node):
                before.setdefault(to, []).append(node)
        inside = set()
        for tail, head in back:
            body, todo = {head, tail}, [tail]
            while todo:
                node = todo.pop()
                if node != head:
                    for b in before.get(node, []):
                        if b not in body:
                            body.add(b)
                            todo.append(b)
            if len(body) > POLL:
                inside |= body
        return len([i for i in inside if self.at[i][1] != "NOP"])

    def ways(self):
        """Instructions on the shortest and the longest way, each loop body taken once."""
        order, back = self.walk()
        back = set(back)
        short, long = {}, {}
        for node in order:  # successors first
            after = [t for t in self.next(node) if t in short and (node, t) not in back]
            stop = [0] if self.at[node][1] in ("EXIT", "RET") else []
            cost = 0 if self.at[node][1] == "NOP" else 1
            short[node] = cost + min([short[t] for t in after] + stop, default=UNREACHED)
            long[node] = cost + max([long[t] for t in after] + stop, default=-UNREACHED)
        return short[0], long[0]

    def kinds(self):
        """How many instructions of each class; what no class knows is named."""
        count, unknown = {}, {}
        for _, opcode, _ in self.at[: self.size]:
            for name, pattern in CLASSES:
                if re.fullmatch(pattern, opcode):
                    count[name] = count.get(name, 0) + 1
                    break
            else:
                unknown[opcode] = unknown.get(opcode, 0) + 1
        return count, unknown


def ceil_to(value, unit):
    return (value + unit - 1) // unit * unit


def occupancy(row):
    """CTAs an SM can hold by each resource; the smallest bounds it."""
    threads = int(row["threads"])
    warps = (threads + 31) // 32
    per_warp = ceil_to(int(row["registers"]) * 32, REGISTER_UNIT)
    shared = int(row["static_smem"]) + int(row["dynamic_smem"]) + CTA_SHARED_RESERVED
    bound = {
        "registers": SM_QUARTERS * (QUARTER_REGISTERS // per_warp) // warps,
        "shared": SM_SHARED // shared,
        "threads": min(SM_THREADS // threads, SM_WARPS // warps),
        "CTA slots": SM_CTAS,
    }
    least = min(bound.values())
    return least, ", ".join(name for name, n in bound.items() if n == least)


def main():
    if len(sys.argv) < 4:
        sys.exit("usage: static.py BUILD NVDISASM FAMILY/ARCH/KEY...")
    build, nvdisasm = sys.argv[1:3]
    with open(f"{build}/resources.tsv", encoding="ascii") as file:
        head = file.readline().split()
        rows = {}
        for line in file:
            row = dict(zip(head, line.split()))
            rows[f"{row['family']}/{row['arch']}/{row['key']}"] = row
    beside = {}
    for stem in sys.argv[3:]:
        if stem not in rows:
            sys.exit(f"static.py: {stem}: no such specialization in {build}/resources.tsv")
        family, arch, key = stem.split("/")
        beside.setdefault((family, key), []).append(arch)
    for (family, key), archs in sorted(beside.items()):
        print(f"{family} {key}")
        columns, unknown = {}, {}
        for arch in sorted(archs):
            stem = f"{family}/{arch}/{key}"
            text = subprocess.run([nvdisasm, "-c", f"{build}/cubin/{stem}.cubin"], check=True,
                                  capture_output=True, text=True).stdout
            code, row = Code(text), rows[stem]
            if not code.size:
                sys.exit(f"static.py: {stem}: nvdisasm printed no instruction")
            ctas, why = occupancy(row)
            shortest, longest = code.ways()
            kinds, other = code.kinds()
            unknown.update(other)
            columns[arch] = {
                "registers": row["registers"],
                "shared memory, bytes": int(row["static_smem"]) + int(row["dynamic_smem"]),
                "threads x cluster": f"{row['threads']} x {row['cluster']}",
                "CTAs an SM": ctas,
                "bound by": why,
                "instructions": code.size - kinds.get("padding", 0),
                "  in loops": code.in_loops(),
                "  shortest way": shortest,
                "  longest way": longest,
                **{f"  {name}": kinds.get(name, 0) for name, _ in CLASSES},
            }
        names = list(next(iter(columns.values())))
        print("  " + " " * 22 + "".join(f"{arch:>16}" for arch in columns))
        for name in names:
            values = [str(c[name]) for c in columns.values()]
            if any(v != "0" for v in values):
                print(f"  {name:<22}" + "".join(f"{v:>16}" for v in values))
        if unknown:
            print("  of no class: " + ", ".join(f"{k} {v}" for k, v in sorted(unknown.items())))
        print()


if __name__ == "__main__":
    main()
