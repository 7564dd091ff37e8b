# SPDX-License-Identifier: Apache-2.0
"""One conformance kernel: what every kernel file has in common.

A kernel is an entry `conformance(in, out, scratch, maps...)`.  Thread i reads the words
in[a * n + i] for each operand a, n being the number of threads, and writes 64-bit result v
to out[v * n + i].  Lines that start with //@ tell the runner (tests/conformance/run.c) how
to launch it and what to feed it; tests/conformance/README.md describes them.
"""
import itertools
import os

# Register width of an operand, by the name of its pool of values.
WIDTH = {
    "p": 1, "u8": 32, "s8": 32, "u16": 16, "s16": 16, "b16": 16, "f16": 16, "bf16": 16,
    "e4m3x2": 16, "e5m2x2": 16, "x8": 16,
    "u32": 32, "s32": 32, "b32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "u16x2": 32,
    "s16x2": 32, "shift": 32, "small": 32, "lane": 32, "u8x4": 32, "tf32": 32,
    "u64": 64, "s64": 64, "b64": 64, "f64": 64, "f32x2": 64,
}

HEAD = """// SPDX-License-Identifier: Apache-2.0
// {title}
// Made by scripts/conformance/generate.py: change it there.
"""

ENTRY = """.version 9.0
.target {target}
.address_size 64
{globals}
.visible .entry conformance(.param .u64 in, .param .u64 out, .param .u64 scratch{params}){bounds} {{
"""

PROLOGUE = """  .reg .b64 %in, %out, %scratch, %step, %d64, %e64, %t<8>;
  .reg .b32 %i, %thread, %block, %count, %d32, %e32;
  .reg .b16 %d16, %e16;
  .reg .pred %dp, %ep;
  // Thread %i of %count; %step: bytes from one operand, and one result, to the next.
  mov.u32 %thread, %tid.x;
  mov.u32 %block, %ctaid.x;
  mov.u32 %count, %ntid.x;
  mad.lo.u32 %i, %block, %count, %thread;
  mov.u32 %d32, %nctaid.x;
  mul.lo.u32 %count, %count, %d32;
  mul.wide.u32 %step, %count, 8;
  mul.wide.u32 %d64, %i, 8;
  ld.param.u64 %in, [in];
  add.u64 %in, %in, %d64;
  ld.param.u64 %out, [out];
  add.u64 %out, %out, %d64;
  ld.param.u64 %scratch, [scratch];
"""


def expand(pattern):
    """Every spelling of a pattern: [.a|.b] none or one of, {.a|.b} one of."""
    parts, text = [], ""
    at = 0
    while at < len(pattern):
        c = pattern[at]
        if c in "[{":
            end = pattern.index("]" if c == "[" else "}", at)
            if text:
                parts.append([text])
                text = ""
            options = pattern[at + 1:end].split("|")
            parts.append(([""] if c == "[" else []) + options)
            at = end + 1
        else:
            text += c
            at += 1
    if text:
        parts.append([text])
    return ["".join(p) for p in itertools.product(*parts)]


def each(pattern):
    """Spellings in which every alternative stands at least once: one slot varied at a time."""
    parts = []
    rest = pattern
    while rest:
        cut = min((rest.find(c) for c in "[{" if c in rest), default=len(rest))
        if cut:
            parts.append([rest[:cut]])
            rest = rest[cut:]
            continue
        end = rest.index("]" if rest[0] == "[" else "}")
        parts.append(([""] if rest[0] == "[" else []) + rest[1:end].split("|"))
        rest = rest[end + 1:]
    base = [p[0] for p in parts]
    found = ["".join(base)]
    for k, p in enumerate(parts):
        for option in p[1:]:
            found.append("".join(base[:k] + [option] + base[k + 1:]))
    return found


class Kernel:
    """A kernel being written; all[] holds every one that was made."""
    all = []

    def __init__(self, name, family, title=None, target="sm_90a", inputs="", grid=8, block=256,
                 regs="", globals_="", maps=(), directives=(), bounds="", cluster=1, shared=0):
        self.name, self.family, self.target = name, family, target
        self.title = title or name
        self.inputs = inputs.split()
        self.grid, self.block, self.cluster, self.shared = grid, block, cluster, shared
        self.regs, self.globals, self.maps, self.bounds = regs, globals_, list(maps), bounds
        self.directives = list(directives)
        self.lines = []
        self.results = 0
        self.x = []
        Kernel.all.append(self)
        if self.inputs:
            self.load()

    def __call__(self, *lines):
        """Adds lines of PTX."""
        for line in lines:
            for one in line.strip("\n").split("\n"):
                one = one.strip()
                if one.endswith(":") or one in "{}":
                    self.lines.append(one)
                elif one:
                    self.lines.append("  " + one)
        return self

    def load(self):
        """Operand a into %x<a>, of the operand's width."""
        for a, kind in enumerate(self.inputs):
            w = WIDTH[kind.split(":")[-1]] if ":" not in kind else 32
            reg = f"%x{a}"
            self.x.append(reg)
            self(f".reg .{'pred' if w == 1 else f'b{w}'} {reg};")
            if w == 64:
                self(f"ld.global.u64 {reg}, [%in];")
            else:
                self("ld.global.u64 %d64, [%in];")
                if w == 1:
                    self("and.b64 %d64, %d64, 1;", f"setp.ne.u64 {reg}, %d64, 0;")
                else:
                    self(f"cvt.u{w}.u64 {reg}, %d64;")
            if a + 1 < len(self.inputs):
                self("add.u64 %in, %in, %step;")

    def result(self, text, reg, width):
        """Stores a register of 1, 16, 32 or 64 bits as the next result."""
        if width == 1:
            self(f"selp.u64 %d64, 1, 0, {reg};")
            reg = "%d64"
        elif width != 64:
            self(f"cvt.u64.u{width} %d64, {reg};")
            reg = "%d64"
        self(f"st.global.u64 [%out], {reg};", "add.u64 %out, %out, %step;")
        self.results += 1

    def note(self, text):
        self(f"// {self.results}: {text}")

    def op(self, insn, ret, args=None, extra=""):
        """One instruction on the operands, its result stored."""
        w = WIDTH[ret]
        d = {1: "%dp", 16: "%d16", 32: "%d32", 64: "%e64"}[w]
        self.note(insn)
        args = self.x if args is None else args
        self(f"{insn} {', '.join([d] + list(args))}{extra};")
        self.result(insn, d, w)

    def text(self):
        out = HEAD.format(title=self.title)
        out += f"//@ family {self.family}\n"
        if self.inputs:
            out += f"//@ inputs {' '.join(self.inputs)}\n"
        out += f"//@ launch {self.grid} {self.block} {self.cluster} {self.shared}\n"
        out += f"//@ results {self.results}\n"
        for d in self.directives:
            out += f"//@ {d}\n"
        for m in self.maps:
            out += f"//@ tensor {m}\n"
        params = "".join(f", .param .align 64 .b8 map{i}[128]" for i in range(len(self.maps)))
        head = ENTRY.format(target=self.target, globals=self.globals, params=params,
                            bounds=" " + self.bounds if self.bounds else "")
        if not self.globals:
            head = head.replace("\n\n.visible", "\n\n.visible").replace("64\n\n", "64\n\n")
        out += head + PROLOGUE
        if self.regs:
            out += "".join(f"  .reg {r};\n" for r in self.regs.split(";") if r.strip())
        return out + "\n".join(self.lines) + "\n  ret;\n}\n"

    def write(self, folder):
        path = os.path.join(folder, self.name.replace("::", "_") + ".ptx")
        with open(path, "w", encoding="ascii") as f:
            f.write(self.text())
        return path


def scalar(name, pattern, ret, args, family, keep=lambda s: True, target="sm_90a", extra="", **kw):
    """A kernel of all spellings of one pattern on the same operands."""
    k = Kernel(name, family, pattern, target, args, **kw)
    for insn in expand(pattern):
        if keep(insn):
            k.op(insn, ret, extra=extra)
    return k
