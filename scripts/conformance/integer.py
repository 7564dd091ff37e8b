# SPDX-License-Identifier: Apache-2.0
"""Integer arithmetic, logic and shifts."""
from kernel import Kernel, expand, scalar

F = "integer"
SIX = ["u16", "s16", "u32", "s32", "u64", "s64"]


def carries(t):
    """Carry chains: sum and carry out, with and without a carry in."""
    k = Kernel(f"carry.{t}", F, f"add.cc, addc, sub.cc, subc, mad.cc, madc of .{t}",
               inputs=f"{t} {t} {t}")
    d, e = ("%d32", "%e32") if t.endswith("32") else ("%e64", "%t0")
    w = int(t[1:])

    def chain(text, *code):
        k.note(text)
        k(*code)
        k.result(text, d, w)
        k.result(text, e, w)

    z = f"addc.{t} {e}, 0, 0;"
    for op in ("add", "sub"):
        chain(f"{op}.cc, {op}c", f"{op}.cc.{t} {d}, %x0, %x1;", f"{op}c.{t} {e}, %x2, 0;")
        chain(f"{op}.cc, {op}c.cc, carry out", f"{op}.cc.{t} {d}, %x0, %x1;",
              f"{op}c.cc.{t} {d}, %x1, %x2;", f"{op}c.{t} {e}, 0, 0;")
    for half in ("lo", "hi"):
        chain(f"mad.{half}.cc", f"mad.{half}.cc.{t} {d}, %x0, %x1, %x2;", z)
        chain(f"madc.{half}", f"add.cc.{t} {d}, %x0, %x1;", f"madc.{half}.{t} {d}, %x0, %x1, %x2;",
              f"mov.b{w} {e}, 0;")
        chain(f"madc.{half}.cc", f"add.cc.{t} {d}, %x0, %x2;",
              f"madc.{half}.cc.{t} {d}, %x0, %x1, %x2;", z)


def make():
    for t in SIX:
        for op in ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"):
            scalar(f"{op}.{t}", f"{op}.{t}", t, f"{t} {t}", F)
        scalar(f"mad.lo.{t}", f"mad.lo.{t}", t, f"{t} {t} {t}", F)
        scalar(f"mad.hi.{t}", f"mad.hi.{t}", t, f"{t} {t} {t}", F)
        scalar(f"sad.{t}", f"sad.{t}", t, f"{t} {t} {t}", F)
    scalar("add.sat.s32", "{add|sub}.sat.s32", "s32", "s32 s32", F)
    scalar("add.x2", "add{.u16x2|.s16x2}", "u16x2", "u16x2 u16x2", F)
    for t, wide in (("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64")):
        scalar(f"mul.wide.{t}", f"mul.wide.{t}", wide, f"{t} {t}", F)
        scalar(f"mad.wide.{t}", f"mad.wide.{t}", wide, f"{t} {t} {wide}", F)
    scalar("mad.hi.sat.s32", "mad.hi.sat.s32", "s32", "s32 s32 s32", F)
    scalar("mul24", "mul24{.lo|.hi}{.u32|.s32}", "u32", "u32 u32", F)
    scalar("mad24", "mad24{.lo|.hi}{.u32|.s32}", "u32", "u32 u32 u32", F)
    scalar("mad24.hi.sat.s32", "mad24.hi.sat.s32", "s32", "s32 s32 s32", F)
    for t in ("s16", "s32", "s64"):
        scalar(f"abs.{t}", f"{{abs|neg}}.{t}", t, t, F)
    scalar("min.relu.s32", "{min|max}.relu.s32", "s32", "s32 s32", F)
    scalar("min.x2", "{min|max}{.u16x2|.s16x2}", "u16x2", "u16x2 u16x2", F)
    scalar("min.relu.s16x2", "{min|max}.relu.s16x2", "u16x2", "s16x2 s16x2", F)
    scalar("min.s16x2.relu", "{min|max}.s16x2.relu", "u16x2", "s16x2 s16x2", F)
    scalar("dp4a", "dp4a{.u32|.s32}{.u32|.s32}", "u32", "u32 u32 u32", F)
    scalar("dp2a", "dp2a{.lo|.hi}{.u32|.s32}{.u32|.s32}", "u32", "u32 u32 u32", F)
    for t in ("u32", "s32", "u64", "s64"):
        carries(t)
    logic()


def logic():
    f = "logic and shift"
    for t in ("b16", "b32", "b64"):
        scalar(f"and.{t}", f"{{and|or|xor}}.{t}", t, f"{t} {t}", f)
        scalar(f"not.{t}", f"{{not|cnot}}.{t}", t, t, f)
        u, s = "u" + t[1:], "s" + t[1:]
        scalar(f"shl.{t}", f"shl.{t}", t, f"{t} shift", f)
        scalar(f"shr.{t}", f"shr{{.{t}|.{u}|.{s}}}", t, f"{t} shift", f)
    scalar("and.pred", "{and|or|xor}.pred", "p", "p p", f)
    scalar("not.pred", "not.pred", "p", "p", f)
    k = Kernel("lop3.b32", f, inputs="b32 b32 b32")
    for lut in (0x00, 0x01, 0x1e, 0x2d, 0x3c, 0x6a, 0x80, 0x96, 0xaa, 0xc0, 0xca, 0xe8, 0xf0, 0xfe,
                0xff):
        k.note(f"lop3.b32 {lut:#x}")
        k(f"lop3.b32 %d32, %x0, %x1, %x2, {lut};")
        k.result("", "%d32", 32)
    k = Kernel("lop3.bool.b32", f, inputs="b32 b32 b32 p")
    for b in ("or", "and"):
        for lut in (0x80, 0x96, 0x01):
            k.note(f"lop3.{b}.b32 d|p {lut:#x}")
            k(f"lop3.{b}.b32 %d32|%dp, %x0, %x1, %x2, {lut}, %x3;")
            k.result("", "%d32", 32)
            k.result("", "%dp", 1)
        k.note(f"lop3.{b}.b32 _|p")
        k(f"lop3.{b}.b32 _|%dp, %x0, %x1, %x2, 0x6a, !%x3;")
        k.result("", "%dp", 1)
    scalar("shf.b32", "shf{.l|.r}{.clamp|.wrap}.b32", "b32", "b32 b32 shift", f)
    scalar("prmt.b32", "prmt.b32[.f4e|.b4e|.rc8|.ecl|.ecr|.rc16]", "b32", "b32 b32 b32", f)
    for t in ("u32", "s32", "u64", "s64"):
        scalar(f"bfe.{t}", f"bfe.{t}", t, f"{t} shift shift", f)
        scalar(f"bfind.{t}", f"bfind[.shiftamt].{t}", "u32", t, f)
    for t in ("b32", "b64"):
        scalar(f"bfi.{t}", f"bfi.{t}", t, f"{t} {t} shift shift", f)
        scalar(f"popc.{t}", f"{{popc|clz}}.{t}", "u32", t, f)
        scalar(f"brev.{t}", f"brev.{t}", t, t, f)
    scalar("bmsk.b32", "bmsk{.clamp|.wrap}.b32", "b32", "shift shift", f)
    scalar("szext", "szext{.clamp|.wrap}{.u32|.s32}", "u32", "u32 shift", f)
    scalar("fns.b32", "fns.b32", "b32", "b32 lane small", f)
