# SPDX-License-Identifier: Apache-2.0
"""Loads, stores and atomics in every space, width and order."""
from kernel import Kernel, each, expand

NARROW = ["b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32"]
DOUBLE = ["b64", "u64", "s64", "f64"]
SCOPES = "{.cta|.cluster|.gpu|.sys}"
L1 = "[.L1::evict_normal|.L1::evict_unchanged|.L1::evict_first|.L1::evict_last|.L1::no_allocate]"
REGS = ".b32 %v<8>; .b64 %w<4>; .b128 %q; .u64 %a, %pol; .u32 %s"


def width(t):
    return 64 if t in DOUBLE else 32


def reg(t, i):
    return f"%w{i}" if t in DOUBLE else f"%v{i}"


def shapes(types=None, wide=True):
    """(vector suffix, type, elements) of every access of up to 16 bytes."""
    for t in types or NARROW + DOUBLE:
        for vec, n in (("", 1), (".v2", 2), (".v4", 4)):
            if n * (64 if t in DOUBLE else int(t[1:])) <= 128:
                yield vec, t, n


def load(k, head, vec, t, n, address, tail=""):
    regs = ", ".join(reg(t, i) for i in range(n))
    k.note(f"{head}{vec}.{t}")
    k(f"{head}{vec}.{t} {'{' + regs + '}' if n > 1 else regs}, [{address}]{tail};")
    for i in range(n):
        k.result("", reg(t, i), width(t))


def load_wide(k, head, address, tail=""):
    k.note(f"{head}.b128")
    k(f"{head}.b128 %q, [{address}]{tail};", "mov.b128 {%w0, %w1}, %q;")
    k.result("", "%w0", 64)
    k.result("", "%w1", 64)


def slot(k, space):
    """%a: 32 bytes of this thread's own, in global memory or in an array of 256 slots."""
    if space == "global":
        k("ld.param.u64 %a, [scratch];", "mul.wide.u32 %t0, %i, 32;", "add.u64 %a, %a, %t0;")
    elif space == "local":
        k("mov.u64 %a, mine;")
    else:
        k("mov.u64 %a, slots;", "mul.wide.u32 %t0, %thread, 32;", "add.u64 %a, %a, %t0;")


SLOTS = ".shared .align 32 .b8 slots[8192];"


def fill(k, space):
    """Known bytes into the slot."""
    for i in range(4):
        k(f"add.u64 %t1, %x{i % 2}, {i * 0x0123456789abcdef & 0x7fffffffffffffff};",
          f"st{'.' + space if space else ''}.b64 [%a+{8 * i}], %t1;")


def memory_kernel(name, family, title, space, **kw):
    k = Kernel(name, family, title, inputs="b64 b64", grid=2,
               regs=REGS, globals_=SLOTS if space.startswith("shared") else "", **kw)
    if space == "local":
        k(".local .align 32 .b8 mine[32];")
    slot(k, "shared" if space.startswith("shared") else space)
    fill(k, "shared" if space.startswith("shared") else space)
    return k


def loads():
    f = "load and store"
    for space in ("global", "local", "shared", "shared::cta", "shared::cluster"):
        k = memory_kernel(f"ld.{space}", f, f"ld.{space} of every type and vector", space)
        for vec, t, n in shapes():
            load(k, f"ld.{space}", vec, t, n, "%a")
        load(k, f"ld.weak.{space}", "", "u32", 1, "%a+4")
        if space != "local":
            load(k, f"ld.volatile.{space}", "", "u32", 1, "%a+8")
        if space == "global":
            load_wide(k, f"ld.{space}", "%a+16")
    k = memory_kernel("ld.generic", f, "ld of a generic address", "shared")
    k("cvta.shared.u64 %a, %a;")
    for vec, t, n in shapes():
        load(k, "ld", vec, t, n, "%a")
    k = Kernel("ld.const", f, "ld.const of every type and vector", inputs="b64", grid=1, regs=REGS,
               globals_=".const .align 32 .b64 table[8] = {0x0123456789abcdef, 0xfedcba9876543210, "
               "0x80ff7f0180ff7f01, 0x00000000ffffffff, 1, 2, 3, 0x7ff0000000000001};")
    k("and.b32 %s, %thread, 1;", "mul.wide.u32 %t0, %s, 32;", "mov.u64 %a, table;",
      "add.u64 %a, %a, %t0;")
    for vec, t, n in shapes():
        load(k, "ld.const", vec, t, n, "%a")
    k = Kernel("ld.param", f, "ld.param: the parts of a parameter make the whole", inputs="b64",
               grid=1, block=32, regs=REGS)
    for space in ("param", "param::entry"):
        k.note(f"ld.{space}.v2.b32, v4.u16, u8")
        k(f"ld.{space}.b64 %w0, [out];", f"ld.{space}.v2.b32 {{%v0, %v1}}, [out];",
          "mov.b64 %w1, {%v0, %v1};", "setp.eq.u64 %dp, %w0, %w1;")
        k.result("", "%dp", 1)
        k(f"ld.{space}.v4.u16 {{%v0, %v1, %v2, %v3}}, [out];", "shl.b32 %v1, %v1, 16;",
          "or.b32 %v0, %v0, %v1;", "shl.b32 %v3, %v3, 16;", "or.b32 %v2, %v2, %v3;",
          "mov.b64 %w1, {%v0, %v2};", "setp.eq.u64 %dp, %w0, %w1;")
        k.result("", "%dp", 1)
        k("mov.b64 %w1, 0;")
        for i in reversed(range(8)):
            k(f"ld.{space}.u8 %w2, [out+{i}];", "shl.b64 %w1, %w1, 8;", "or.b64 %w1, %w1, %w2;")
        k("setp.eq.u64 %dp, %w0, %w1;")
        k.result("", "%dp", 1)
    k = memory_kernel("ld.qualified", f, "ld.global with every cache operator and hint", "global")
    k("createpolicy.fractional.L2::evict_last.b64 %pol, 1.0;")
    for insn in each("ld.global{.ca|.cg|.cs|.lu|.cv}"):
        load(k, insn, "", "b32", 1, "%a")
        load(k, insn, ".v2", "u64", 2, "%a+16")
    k("add.u64 %scratch, %scratch, 0x80000;  // what no thread writes: .nc and ldu see it")
    for insn in each("ld.global.nc" + L1):
        load(k, insn, "", "s32", 1, "%scratch")
    for insn in ("ld.global.ca.nc", "ld.global.cg.nc", "ld.global.cs.nc"):
        load(k, insn, "", "u32", 1, "%scratch")
    for insn in each("ld.global" + L1):
        load(k, insn, ".v4", "b32", 4, "%a")
    for insn in each("ld.global[.L2::64B|.L2::128B|.L2::256B]"):
        load(k, insn, "", "f32", 1, "%a+12")
    load(k, "ld.global.L2::cache_hint", "", "f64", 1, "%a", ", %pol")
    load(k, "ld.global.L1::evict_last.L2::cache_hint.L2::128B", "", "u16", 1, "%a", ", %pol")
    load(k, "ld.volatile.global.L2::128B", "", "u8", 1, "%a")
    load_wide(k, "ld.global.nc", "%scratch")
    for insn in expand("ldu.global") + ["ldu"]:
        for vec, t, n in (("", "u8", 1), ("", "s16", 1), (".v2", "b32", 2), (".v4", "f32", 4),
                          ("", "u64", 1), (".v2", "f64", 2)):
            load(k, insn, vec, t, n, "%scratch")
    load_wide(k, "ldu.global", "%scratch")
    for space in ("global", "shared", "shared::cta", "shared::cluster"):
        k = memory_kernel(f"ld.strong.{space}", f, f"ld.relaxed, ld.acquire of {space}", space)
        for sem in ("relaxed", "acquire"):
            for scope in ("cta", "cluster", "gpu", "sys"):
                for vec, t, n in (("", "u8", 1), ("", "s16", 1), ("", "b32", 1), (".v2", "u32", 2),
                                  ("", "u64", 1), (".v4", "f32", 4), (".v2", "f64", 2)):
                    load(k, f"ld.{sem}.{scope}.{space}", vec, t, n, "%a")
        if space == "global":
            for insn in each("ld.relaxed.gpu.global" + L1):
                load(k, insn, "", "u32", 1, "%a+4")
            load_wide(k, "ld.relaxed.gpu.global", "%a")
            load_wide(k, "ld.acquire.sys.global", "%a+16")
    k = memory_kernel("ld.mmio", f, "ld.mmio.relaxed.sys", "global")
    for t in NARROW + DOUBLE:
        load(k, "ld.mmio.relaxed.sys.global", "", t, 1, "%a")
        load(k, "ld.mmio.relaxed.sys", "", t, 1, "%a+8")


def store(k, head, vec, t, n, space, tail=""):
    """Stores, then reads the whole 16 bytes back."""
    k.note(f"{head}{vec}.{t}")
    for i in range(n):
        k(f"add.u64 %w{i}, %x0, {i * 0x1111};", f"cvt.u32.u64 %v{i}, %w{i};")
    regs = ", ".join(reg(t, i) for i in range(n))
    k(f"{head}{vec}.{t} [%a], {'{' + regs + '}' if n > 1 else regs}{tail};")
    readback(k, space)


def readback(k, space, size=16):
    for i in range(size // 8):
        k(f"ld{'.' + space if space else ''}.b64 %w0, [%a+{8 * i}];")
        k.result("", "%w0", 64)


def stores():
    f = "load and store"
    for space in ("global", "local", "shared", "shared::cta", "shared::cluster"):
        base = space if not space.startswith("shared") else "shared"
        k = memory_kernel(f"st.{space}", f, f"st.{space} of every type and vector", space)
        for vec, t, n in shapes():
            store(k, f"st.{space}", vec, t, n, base)
        store(k, f"st.weak.{space}", "", "u32", 1, base)
        if space != "local":
            store(k, f"st.volatile.{space}", "", "u16", 1, base)
            store(k, f"st.volatile.{space}", "", "f64", 1, base)
    k = memory_kernel("st.generic", f, "st to a generic address", "shared")
    k("cvta.shared.u64 %a, %a;")
    for vec, t, n in shapes():
        store(k, "st", vec, t, n, "")
    k = memory_kernel("st.qualified", f, "st.global with every cache operator and hint", "global")
    k("createpolicy.fractional.L2::evict_first.b64 %pol, 0.5;")
    for insn in each("st.global{.wb|.cg|.cs|.wt}"):
        store(k, insn, "", "b32", 1, "global")
    for insn in each("st.global" + L1):
        store(k, insn, ".v2", "b32", 2, "global")
    store(k, "st.global.L2::cache_hint", "", "f64", 1, "global", ", %pol")
    k.note("st.global.b128")
    k("mov.b128 %q, {%x1, %x0};", "st.global.b128 [%a], %q;")
    readback(k, "global")
    for space in ("global", "shared", "shared::cta", "shared::cluster"):
        base = space if not space.startswith("shared") else "shared"
        k = memory_kernel(f"st.strong.{space}", f, f"st.relaxed, st.release of {space}", space)
        for sem in ("relaxed", "release"):
            for scope in ("cta", "cluster", "gpu", "sys"):
                for vec, t, n in (("", "u8", 1), ("", "s16", 1), ("", "b32", 1), (".v2", "u32", 2),
                                  ("", "u64", 1), (".v4", "f32", 4)):
                    store(k, f"st.{sem}.{scope}.{space}", vec, t, n, base)
        if space == "global":
            k.note("st.relaxed.gpu.global.b128")
            k("mov.b128 %q, {%x1, %x0};", "st.relaxed.gpu.global.b128 [%a], %q;")
            readback(k, "global")
            k.note("st.volatile.global.b128")
            k("mov.b128 %q, {%x0, %x1};", "st.release.sys.global.b128 [%a], %q;")
            readback(k, "global")
    k = memory_kernel("st.mmio", f, "st.mmio.relaxed.sys", "global")
    for t in NARROW + DOUBLE:
        store(k, "st.mmio.relaxed.sys.global", "", t, 1, "global")
        store(k, "st.mmio.relaxed.sys", "", t, 1, "global")
    k = Kernel("st.param", f, "st.param and ld.param of a function's parameters", inputs="b64 b32",
               regs=REGS,
               globals_=".func (.param .align 16 .b8 r[16]) turn(.param .align 16 .b8 a[16])\n{\n"
               "  .reg .b32 %p<4>;\n  ld.param.v4.b32 {%p0, %p1, %p2, %p3}, [a];\n"
               "  st.param.v2.b32 [r], {%p3, %p2};\n  st.param.b32 [r+8], %p1;\n"
               "  st.param.b32 [r+12], %p0;\n  ret;\n}")
    k.note("a struct of 16 bytes, turned around")
    k("{", ".param .align 16 .b8 to[16]; .param .align 16 .b8 from[16];", "st.param.b64 [to], %x0;",
      "st.param.b16 [to+8], 0x1234;", "st.param.u8 [to+10], 0x56;", "st.param.s8 [to+11], 0x78;",
      "st.param.f32 [to+12], %x1;", "call (from), turn, (to);",
      "ld.param.v2.b64 {%w0, %w1}, [from];", "}")
    k.result("", "%w0", 64)
    k.result("", "%w1", 64)


def atoms():
    f = "atomic"
    for space in ("global", "shared", "shared::cta", "shared::cluster", ""):
        dot = "." + space if space else ""
        name = space or "generic"
        base = "global" if name in ("global", "generic") else "shared"
        for t, ops in (("b32", "and or xor exch"), ("b64", "and or xor exch"),
                       ("u32", "add min max inc dec"), ("s32", "add min max"),
                       ("u64", "add min max"), ("s64", "min max")):
            one_thread(f"atom.{name}.{t}", f, dot, base, t, ops.split())
        for t in ("b32", "b64"):
            cas(f"atom.cas.{name}.{t}", f, dot, base, t)
        if name in ("global", "shared"):
            cas(f"atom.cas.{name}.b16", f, dot, base, "b16")
        for t in ("f32", "f64"):
            one_thread(f"atom.{name}.{t}", f, dot, base, t, ["add"])
        for t in ("f16", "f16x2", "bf16", "bf16x2"):
            # ptxas 13.0 adds nothing to the upper half in shared memory: judged by definition.
            wrong = base == "shared" and t.endswith("x2")
            one_thread(f"atom.{name}.{t}", f, dot, base, t, ["add.noftz"],
                       ["definition", "unrecorded ptxas 13.0 loses the upper half"] if wrong else [])
    orders()
    vectors()
    contention()


def one_thread(name, f, dot, base, t, ops, directives=()):
    """Each thread alone on its slot: the old value, and what atom and red leave there."""
    k = Kernel(name, f, f"atom{dot}, red{dot} of {t}: {', '.join(ops)}", inputs=f"{t} {t}", grid=8,
               regs=REGS, globals_=SLOTS if base == "shared" else "", directives=directives)
    w = {"f16": 16, "bf16": 16}.get(t, 64 if t.endswith("64") else 32)
    d = {16: "%d16", 32: "%d32", 64: "%e64"}[w]
    slot(k, base)
    for op in ops:
        k.note(f"atom{dot}.{op}.{t}: the old value, the new one")
        k(f"st.{base}.b{w} [%a], %x0;", f"atom{dot}.{op}.{t} {d}, [%a], %x1;")
        k.result("", d, w)
        k(f"ld.{base}.b{w} {d}, [%a];")
        k.result("", d, w)
        if op == "exch":
            continue
        k.note(f"red{dot}.{op}.{t}: the new value")
        k(f"st.{base}.b{w} [%a], %x0;", f"red{dot}.{op}.{t} [%a], %x1;", f"ld.{base}.b{w} {d}, [%a];")
        k.result("", d, w)


def cas(name, f, dot, base, t):
    k = Kernel(name, f, f"atom{dot}.cas.{t}", inputs=f"{t} {t} {t}", regs=REGS,
               globals_=SLOTS if base == "shared" else "")
    w = int(t[1:])
    d = {16: "%d16", 32: "%d32", 64: "%e64"}[w]
    slot(k, base)
    for text, compare in (("that matches", "%x0"), ("that may not match", "%x2")):
        k.note(f"atom{dot}.cas.{t} {text}: the old value, the new one")
        k(f"st.{base}.b{w} [%a], %x0;", f"atom{dot}.cas.{t} {d}, [%a], {compare}, %x1;")
        k.result("", d, w)
        k(f"ld.{base}.b{w} {d}, [%a];")
        k.result("", d, w)


def orders():
    k = Kernel("atom.order", "atomic", "atom and red with every order and scope, and hints",
               inputs="u32 u32", regs=REGS)
    slot(k, "global")
    k("createpolicy.fractional.L2::evict_last.b64 %pol, 1.0;")
    for insn in each("atom[.relaxed|.acquire|.release|.acq_rel]{.cta|.cluster|.gpu|.sys}.global"):
        for op, t in (("add", "u32"), ("exch", "b32"), ("max", "s32"), ("or", "b32"), ("inc", "u32")):
            k.note(f"{insn}.{op}.{t}")
            k("st.global.b32 [%a], %x0;", f"{insn}.{op}.{t} %d32, [%a], %x1;",
              "ld.global.b32 %e32, [%a];", "xor.b32 %d32, %d32, %e32;")
            k.result("", "%d32", 32)
        k.note(f"{insn}.cas.b32")
        k("st.global.b32 [%a], %x0;", f"{insn}.cas.b32 %d32, [%a], %x0, %x1;",
          "ld.global.b32 %e32, [%a];", "xor.b32 %d32, %d32, %e32;")
        k.result("", "%d32", 32)
    for insn in each("red[.relaxed|.release]{.cta|.cluster|.gpu|.sys}.global"):
        for op, t in (("add", "u32"), ("min", "u32"), ("and", "b32"), ("dec", "u32")):
            k.note(f"{insn}.{op}.{t}")
            k("st.global.b32 [%a], %x0;", f"{insn}.{op}.{t} [%a], %x1;", "ld.global.b32 %d32, [%a];")
            k.result("", "%d32", 32)
    for insn in ("atom.global.add.L2::cache_hint.u32", "atom.global.and.L2::cache_hint.b32",
                 "atom.global.min.L2::cache_hint.s32", "atom.global.dec.L2::cache_hint.u32",
                 "atom.global.exch.L2::cache_hint.b32"):
        k.note(insn)
        k("st.global.b32 [%a], %x0;", f"{insn} %d32, [%a], %x1, %pol;")
        k.result("", "%d32", 32)
    for insn in ("red.global.add.L2::cache_hint.u32", "red.global.xor.L2::cache_hint.b32",
                 "red.global.max.L2::cache_hint.u32", "red.global.inc.L2::cache_hint.u32"):
        k.note(insn)
        k("st.global.b32 [%a], %x0;", f"{insn} [%a], %x1, %pol;", "ld.global.b32 %d32, [%a];")
        k.result("", "%d32", 32)
    k = Kernel("atom.b128", "atomic", "atom.exch.b128, atom.cas.b128", inputs="b64 b64 b64",
               regs=REGS + "; .b128 %q1, %q2")
    slot(k, "global")
    k("createpolicy.fractional.L2::evict_last.b64 %pol, 1.0;")
    for insn, args in (("atom.global.exch.b128", "%q1"), ("atom.relaxed.gpu.global.exch.b128", "%q1"),
                       ("atom.global.cas.b128", "%q, %q1"),
                       ("atom.acquire.cta.global.cas.b128", "%q1, %q"),
                       ("atom.global.exch.L2::cache_hint.b128", "%q1, %pol")):
        k.note(insn)
        k("mov.b128 %q, {%x0, %x1};", "mov.b128 %q1, {%x2, %x0};", "st.global.b128 [%a], %q;",
          f"{insn} %q2, [%a], {args};", "mov.b128 {%w0, %w1}, %q2;")
        k.result("", "%w0", 64)
        k.result("", "%w1", 64)
        readback(k, "global")


def vectors():
    """atom and red of vectors; each element is an atomic of its own."""
    for t, vecs, w, ops in (("f32", (2, 4), 32, ("add",)),
                            ("f16", (2, 4, 8), 16, ("add.noftz", "min.noftz", "max.noftz")),
                            ("bf16", (2, 4, 8), 16, ("add.noftz", "min.noftz", "max.noftz")),
                            ("f16x2", (2, 4), 32, ("add.noftz", "min.noftz", "max.noftz")),
                            ("bf16x2", (2, 4), 32, ("add.noftz", "min.noftz", "max.noftz"))):
        k = Kernel(f"atom.vector.{t}", "atomic", f"atom and red of vectors of {t}",
                   inputs=" ".join([t] * 4), regs=REGS + f"; .b{w} %h<8>")
        slot(k, "global")
        for n in vecs:
            b = ", ".join(f"%x{2 + i % 2}" for i in range(n))
            d = ", ".join(f"%h{i}" for i in range(n))
            for op in ops:
                for head in ("atom", "red"):
                    k.note(f"{head}.global.v{n}.{t}.{op}")
                    for i in range(n):
                        k(f"st.global.b{w} [%a+{i * w // 8}], %x{i // 2 % 2};")
                    if head == "atom":
                        k(f"atom.global.{op}.v{n}.{t} {{{d}}}, [%a], {{{b}}};")
                        for i in range(n):
                            k.result("", f"%h{i}", w)
                    else:
                        k(f"red.global.{op}.v{n}.{t} [%a], {{{b}}};")
                    for i in range(n):
                        k(f"ld.global.b{w} %h{i}, [%a+{i * w // 8}];")
                        k.result("", f"%h{i}", w)


def contention():
    """Many threads on one word: the final values, which no order changes."""
    k = Kernel("atom.contention", "atomic", "atomics of a whole CTA on the same words", grid=4,
               inputs="u32", regs=REGS, globals_=".shared .align 8 .b32 word[16];")
    k("mov.u32 %s, word;", "setp.lt.u32 %dp, %thread, 16;", "mad.lo.u32 %v0, %thread, 4, %s;",
      "mov.b32 %v1, 0;", "@%dp st.shared.b32 [%v0], %v1;", "bar.sync 0;")
    ops = [("add", "u32"), ("min", "s32"), ("max", "s32"), ("max", "u32"), ("or", "b32"),
           ("xor", "b32")]
    for j, (op, t) in enumerate(ops):
        k(f"red.shared.{op}.{t} [%s+{4 * j}], %x0;")
    k("atom.shared.add.u32 %v2, [%s+60], 1;", "bar.sync 0;")
    for j, (op, t) in enumerate(ops + [("add", "u32")]):
        at = 60 if j == len(ops) else 4 * j
        k.note(f"red.shared.{op}.{t} by 256 threads")
        k(f"ld.shared.b32 %d32, [%s+{at}];")
        k.result("", "%d32", 32)


def make():
    loads()
    stores()
    atoms()
