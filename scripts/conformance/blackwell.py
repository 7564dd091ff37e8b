# SPDX-License-Identifier: Apache-2.0
"""Forms of sm_100 alone, judged by definitions in C (tests/conformance/define_*.c)."""
from kernel import Kernel, expand, scalar

T = "sm_100f"
DEF = {"target": T, "directives": ["definition"]}
R, RO = "{.rn|.rz|.rm|.rp}", "[.rn|.rz|.rm|.rp]"


def make():
    arithmetic()
    conversions()
    warp()
    memory()


def arithmetic():
    f = "float"
    for t in ("f16", "bf16"):
        for op in ("add", "sub"):
            scalar(f"{op}.f32.{t}", f"{op}{RO}[.sat].f32.{t}", "f32", f"{t} f32", f, **DEF)
        scalar(f"fma.f32.{t}", f"fma{R}[.sat].f32.{t}", "f32", f"{t} {t} f32", f, **DEF)
    for op in ("add", "sub", "mul"):
        scalar(f"{op}.f32x2", f"{op}{RO}[.ftz].f32x2", "f32x2", "f32x2 f32x2", f, **DEF)
    scalar("fma.f32x2", f"fma{R}[.ftz].f32x2", "f32x2", "f32x2 f32x2 f32x2", f, **DEF)
    for op in ("min", "max"):
        scalar(f"{op}3.f32", f"{op}[.ftz][.NaN][.abs].f32", "f32", "f32 f32 f32", f, **DEF)


def conversions():
    f = "convert pairs"
    scalar("cvt.tf32.satfinite", "cvt{.rn|.rz}[.relu].satfinite.tf32.f32", "b32", "f32", "convert", **DEF)
    for t in ("e2m3x2", "e3m2x2"):
        scalar(f"cvt.{t}.f32", f"cvt.rn.satfinite[.relu].{t}.f32", "b16", "f32 f32", f, **DEF)
        scalar(f"cvt.f16x2.{t}", f"cvt.rn[.relu].f16x2.{t}", "f16x2", "e4m3x2", f, **DEF)
    # e2m1x2 takes 8-bit registers.
    k = Kernel("cvt.e2m1x2.f32", f, "cvt.rn.satfinite[.relu].e2m1x2.f32", inputs="f32 f32",
               regs=".b8 %q", **DEF)
    for insn in expand("cvt.rn.satfinite[.relu].e2m1x2.f32"):
        k.note(insn)
        k(f"{insn} %q, %x0, %x1;", "cvt.u32.u8 %d32, %q;")
        k.result("", "%d32", 32)
    k = Kernel("cvt.f16x2.e2m1x2", f, "cvt.rn[.relu].f16x2.e2m1x2", inputs="e4m3x2", regs=".b8 %q",
               **DEF)
    k("cvt.u8.u16 %q, %x0;")
    for insn in expand("cvt.rn[.relu].f16x2.e2m1x2"):
        k.note(insn)
        k(f"{insn} %d32, %q;")
        k.result("", "%d32", 32)
    scalar("cvt.ue8m0x2.f32", "cvt{.rz|.rp}[.satfinite].ue8m0x2.f32", "b16", "f32 f32", f, **DEF)
    scalar("cvt.ue8m0x2.bf16x2", "cvt{.rz|.rp}[.satfinite].ue8m0x2.bf16x2", "b16", "bf16x2", f, **DEF)
    scalar("cvt.bf16x2.ue8m0x2", "cvt.rn.bf16x2.ue8m0x2", "b32", "e4m3x2", f, grid=256, **DEF)


def warp():
    k = Kernel("redux.sync.f32", "warp", "redux.sync{.min|.max}[.abs][.NaN].f32", inputs="f32", grid=4,
               **DEF)
    for insn in expand("redux.sync{.min|.max}[.abs][.NaN].f32"):
        k.op(insn, "f32", ["%x0", "0xffffffff"])


def memory():
    f = "load and store"
    evict = ("", ".L2::evict_first", ".L2::evict_last", ".L2::evict_normal")
    k = Kernel("ld.st.256", f, "256-bit loads and stores in global memory", inputs="b64 b64 b64 b64",
               grid=4, regs=".b32 %v<8>; .b64 %w<4>; .u64 %a", **DEF)
    k("mul.wide.u32 %t0, %i, 32;", "add.u64 %a, %scratch, %t0;")
    v32, v64 = "{" + ", ".join(f"%v{i}" for i in range(8)) + "}", "{%w0, %w1, %w2, %w3}"

    def both(head, store, types, e=""):
        for t in types:
            vec, regs = (".v4", v64) if t.endswith("64") else (".v8", v32)
            k.note(f"{store}{e}{vec}.{t}, {head}{e}{vec}.{t}")
            k("mov.b64 {%v0, %v1}, %x3;", "mov.b64 {%v2, %v3}, %x2;", "mov.b64 {%v4, %v5}, %x1;",
              "mov.b64 {%v6, %v7}, %x0;", "mov.b64 %w0, %x3;", "mov.b64 %w1, %x2;", "mov.b64 %w2, %x1;",
              "mov.b64 %w3, %x0;", f"{store}{e}{vec}.{t} [%a], {regs};",
              f"{head}{e}{vec}.{t} {regs}, [%a];")
            if t.endswith("32"):
                for i in range(4):
                    k(f"mov.b64 %w{i}, {{%v{2 * i}, %v{2 * i + 1}}};")
            k("shl.b64 %w1, %w1, 1;", "xor.b64 %w0, %w0, %w1;", "mad.lo.u64 %w0, %w2, 5, %w0;",
              "mad.lo.u64 %w0, %w3, 7, %w0;")
            k.result("", "%w0", 64)

    every = ("b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64")
    both("ld.global", "st.global", every)
    for e in evict[1:]:
        both("ld.global", "st.global", ("b32", "b64"), e)
    both("ld.volatile.global", "st.volatile.global", every)
    for scope in ("cta", "cluster", "gpu", "sys"):
        both(f"ld.relaxed.{scope}.global", f"st.relaxed.{scope}.global", ("b32", "u64"))
        both(f"ld.acquire.{scope}.global", f"st.release.{scope}.global", ("f32", "f64"))
    both("ld", "st", ("u32", "s64"))
    k = Kernel("st.bulk", "asynchronous store", "st.bulk.weak.shared::cta: zeros", inputs="b64",
               grid=1, regs=".u32 %s; .pred %p", globals_=".shared .align 16 .b8 area[2048];", **DEF)
    k("mov.u32 %s, area;", "mad.lo.u32 %s, %thread, 8, %s;", "st.shared.b64 [%s], %x0;", "bar.sync 0;",
      "setp.eq.u32 %p, %thread, 3;", "@%p st.bulk.weak.shared::cta [%s], 512, 0;", "bar.sync 0;",
      "ld.shared.b64 %e64, [%s];")
    k.note("words 3 to 66 are zero")
    k.result("", "%e64", 64)
    k = Kernel("st.async.global", "asynchronous store", "st.async.release to global memory",
               inputs="b64 b64", grid=1, regs=".u64 %a", target=T,
               directives=["definition"])
    # A word for each.  Nothing but its value says that the store has come: each thread polls.
    polls = 0
    k("mul.wide.u32 %t0, %i, 64;", "add.u64 %a, %scratch, %t0;")
    for t in ("b32", "u64", "f32"):
        for scope in ("gpu", "sys"):
            k.note(f"st.async.release.{scope}.global.{t}, polled for")
            w = t[1:]
            polls += 1
            k("st.global.b64 [%a], %x1;", "fence.acq_rel.sys;",
              f"{'cvt.u32.u64 %d32, %x0;' if w == '32' else ''}",
              f"st.async.release.{scope}.global.{t} [%a], {'%d32' if w == '32' else '%x0'};")
            # What is read is one of the two values, and in the end the new one.
            k(f"AGAIN{polls}:", f"ld.relaxed.sys.global.b{w} %{'e32' if w == '32' else 'e64'}, [%a];")
            if w == "32":
                k("cvt.u64.u32 %e64, %e32;", "cvt.u64.u32 %t1, %d32;", "and.b64 %t2, %x1, 0xffffffff;")
            else:
                k("mov.b64 %t1, %x0;", "mov.b64 %t2, %x1;")
            k("setp.eq.u64 %ep, %e64, %t2;", "setp.ne.and.u64 %ep, %e64, %t1, %ep;",
              f"@%ep bra AGAIN{polls};", "setp.eq.u64 %dp, %e64, %t1;")
            k.result("", "%dp", 1)
            k("add.u64 %a, %a, 8;")
