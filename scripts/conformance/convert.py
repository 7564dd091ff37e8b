# SPDX-License-Identifier: Apache-2.0
"""Comparison, selection, conversion, moves of bits."""
from kernel import Kernel, expand, scalar

CMP = {
    "b": "{.eq|.ne}",
    "s": "{.eq|.ne|.lt|.le|.gt|.ge}",
    "u": "{.eq|.ne|.lt|.le|.gt|.ge|.lo|.ls|.hi|.hs}",
    "f": "{.eq|.ne|.lt|.le|.gt|.ge|.equ|.neu|.ltu|.leu|.gtu|.geu|.num|.nan}",
}
KIND = {"bf16": "f", "bf16x2": "f"}


def kind(t):
    return KIND.get(t, t[0])


def setp(t):
    """One result per comparison, and with each way to combine it with a predicate."""
    k = Kernel(f"setp.{t}", "compare and select", f"setp{CMP[kind(t)]}[.and|.or|.xor].{t}",
               inputs=f"{t} {t} p")
    two = t.endswith("x2")
    ftz = "[.ftz]" if t in ("f32", "f16", "f16x2") else ""
    dst = "%dp|%ep" if two else "%dp"
    for insn in expand(f"setp{CMP[kind(t)]}{ftz}.{t}"):
        k.note(insn)
        k(f"{insn} {dst}, %x0, %x1;")
        store(k, two)
    for b in ("and", "or", "xor"):
        for c in ("eq", "ne") if kind(t) == "b" else ("lt", "ne"):
            for n in ("", "!"):
                if t in ("f16", "bf16"):  # one predicate only
                    k.note(f"setp.{c}.{b}.{t} p, a, b, {n}c")
                    k(f"setp.{c}.{b}.{t} %dp, %x0, %x1, {n}%x2;")
                    store(k, False)
                    continue
                # Both predicates: the comparison and its complement, each combined.
                k.note(f"setp.{c}.{b}.{t} p|q, a, b, {n}c")
                k(f"setp.{c}.{b}.{t} %dp|%ep, %x0, %x1, {n}%x2;")
                store(k, True)
    return k


def store(k, two):
    if two:
        k("selp.u64 %d64, 1, 0, %dp;", "selp.u64 %e64, 2, 0, %ep;", "or.b64 %d64, %d64, %e64;")
        k.result("", "%d64", 64)
    else:
        k.result("", "%dp", 1)


def set_(t, ret):
    ftz = "[.ftz]" if t in ("f32", "f16", "f16x2") else ""
    k = Kernel(f"set.{ret}.{t}", "compare and select", f"set{CMP[kind(t)]}{ftz}.{ret}.{t}",
               inputs=f"{t} {t} p")
    for insn in expand(f"set{CMP[kind(t)]}{ftz}.{ret}.{t}"):
        k.op(insn, ret, k.x[:2])
    for b in ("and", "or", "xor"):
        k.op(f"set.ne.{b}.{ret}.{t}", ret, k.x)


def make():
    for t in ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64", "f16",
              "f16x2", "bf16", "bf16x2"):
        setp(t)
    for t in ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"):
        for ret in ("u32", "s32", "f32"):
            set_(t, ret)
    for ret in ("f16", "u16", "s16", "u32", "s32"):
        set_("f16", ret)
        set_("bf16", ret.replace("f16", "bf16"))
    for ret in ("f16x2", "u32", "s32"):
        set_("f16x2", ret)
        set_("bf16x2", ret.replace("f16x2", "bf16x2"))
    f = "compare and select"
    for w in ("16", "32", "64"):
        types = [c + w for c in "bus"] + (["f" + w] if w != "16" else [])
        alts = "|".join("." + t for t in types)
        scalar(f"selp.b{w}", f"selp{{{alts}}}", f"b{w}", f"b{w} b{w} p", f)
        scalar(f"slct.b{w}.s32", f"slct{{{alts}}}.s32", f"b{w}", f"b{w} b{w} s32", f)
        scalar(f"slct.b{w}.f32", f"slct[.ftz]{{{alts}}}.f32", f"b{w}", f"b{w} b{w} f32", f)
    convert()
    pairs()
    move()


def convert():
    f = "convert"
    ints = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]

    def width(t):
        return 32 if t in ("u8", "s8") else int(t[1:])

    def narrows(dst, src):
        """Some value of src is outside dst: only then may .sat stand there."""
        return (src[0] == "s" and dst[0] == "u") or \
            int(dst[1:]) - (dst[0] == "s") < int(src[1:]) - (src[0] == "s")

    # Integer to integer: the destination as the ISA extends it to its register.
    for src in ints:
        k = Kernel(f"cvt.int.{src}", f, f"cvt[.sat] from {src} to every integer type", inputs=src)
        for dst in ints:
            for sat in ("", ".sat") if narrows(dst, src) else ("",):
                k.op(f"cvt{sat}.{dst}.{src}", "u32" if width(dst) == 32 else f"u{width(dst)}")
    # Float to integer; .ftz only with f32.
    for src in ("f16", "bf16", "f32", "f64"):
        k = Kernel(f"cvt.int.{src}", f, f"cvt{{.rni|.rzi|.rmi|.rpi}}[.ftz][.sat] from {src}",
                   inputs=src, grid=4, regs=".b8 %q" if src == "bf16" else "")
        for dst in ints:
            byte = src == "bf16" and dst in ("u8", "s8")  # takes an 8-bit register
            ftz = "[.ftz]" if src == "f32" else ""
            sat = "[.sat]" if src != "bf16" else ""
            for insn in expand(f"cvt{{.rni|.rzi|.rmi|.rpi}}{ftz}{sat}.{dst}.{src}"):
                if byte:
                    k.note(insn)
                    k(f"{insn} %q, %x0;", f"cvt.{dst[0]}32.{dst} %d32, %q;")
                    k.result(insn, "%d32", 32)
                else:
                    k.op(insn, f"u{width(dst)}")
    # Integer to float.
    for src in ints:
        k = Kernel(f"cvt.float.{src}", f, f"cvt{{.rn|.rz|.rm|.rp}}[.sat] from {src}", inputs=src,
                   grid=4, regs=".b8 %q" if src in ("u8", "s8") else "")
        for dst in ("f16", "f32", "f64", "bf16"):
            sat = "[.sat]" if dst != "bf16" else ""
            for insn in expand(f"cvt{{.rn|.rz|.rm|.rp}}{sat}.{dst}.{src}"):
                if dst == "bf16" and src in ("u8", "s8"):  # takes an 8-bit register
                    k(f"cvt.{src}.u32 %q, %x0;")
                    k.op(insn, dst, ["%q"])
                else:
                    k.op(insn, dst)
    # Float to float.
    RND, INT = "{.rn|.rz|.rm|.rp}", "{.rni|.rzi|.rmi|.rpi}"
    for name, pattern, ret, src in (
            ("f32.f64", f"cvt{RND}[.ftz][.sat].f32.f64", "f32", "f64"),
            ("f64.f32", "cvt[.ftz][.sat].f64.f32", "f64", "f32"),
            ("f16.f32", f"cvt{RND}[.ftz][.sat].f16.f32", "f16", "f32"),
            ("f32.f16", "cvt[.ftz][.sat].f32.f16", "f32", "f16"),
            ("f16.f64", f"cvt{RND}[.sat].f16.f64", "f16", "f64"),
            ("f64.f16", "cvt[.sat].f64.f16", "f64", "f16"),
            ("f32.f32", f"cvt{INT}[.ftz][.sat].f32.f32", "f32", "f32"),
            ("f32.f32.sat", "cvt[.ftz].sat.f32.f32", "f32", "f32"),
            ("f64.f64", f"cvt{INT}[.sat].f64.f64", "f64", "f64"),
            ("f16.f16", f"cvt{INT}[.sat].f16.f16", "f16", "f16"),
            ("bf16.bf16", f"cvt{INT}.bf16.bf16", "bf16", "bf16"),
            ("bf16.f32.round", f"cvt{RND}.bf16.f32", "bf16", "f32"),
            ("bf16.f64", f"cvt{RND}.bf16.f64", "bf16", "f64"),
            ("bf16.f16", f"cvt{RND}.bf16.f16", "bf16", "f16"),
            ("f16.bf16", f"cvt{RND}.f16.bf16", "f16", "bf16"),
            ("f32.bf16", "cvt[.ftz].f32.bf16", "f32", "bf16"),
            ("f64.bf16", "cvt.f64.bf16", "f64", "bf16"),
            ("f16.f32.relu", "cvt{.rn|.rz}[.relu][.satfinite].f16.f32", "f16", "f32"),
            ("bf16.f32.relu", "cvt{.rn|.rz}[.relu][.satfinite].bf16.f32", "bf16", "f32"),
            ("tf32.f32", "cvt{.rn|.rz}[.relu].tf32.f32", "b32", "f32"),
            ("tf32.f32.rna", "cvt.rna[.satfinite].tf32.f32", "b32", "f32")):
        scalar(f"cvt.{name}", pattern, ret, src, f)


def pairs():
    f = "convert pairs"
    scalar("cvt.f16x2.f32", "cvt{.rn|.rz}[.relu][.satfinite]{.f16x2|.bf16x2}.f32", "b32", "f32 f32", f)
    for t in ("e4m3x2", "e5m2x2"):
        scalar(f"cvt.{t}.f32", f"cvt.rn.satfinite[.relu].{t}.f32", "b16", "f32 f32", f)
        scalar(f"cvt.{t}.f16x2", f"cvt.rn.satfinite[.relu].{t}.f16x2", "b16", "f16x2", f)
        scalar(f"cvt.f16x2.{t}", f"cvt.rn[.relu].f16x2.{t}", "f16x2", t, f, grid=256)
    scalar("cvt.pack.16", "cvt.pack.sat{.u16|.s16}.s32", "b32", "s32 s32", f)
    scalar("cvt.pack.b32", "cvt.pack.sat{.u8|.s8|.u4|.s4|.u2|.s2}.s32.b32", "b32", "s32 s32 b32", f)


def move():
    f = "move"
    for w, types in (("16", "b16 u16 s16"), ("32", "b32 u32 s32 f32"), ("64", "b64 u64 s64 f64")):
        alts = "|".join("." + t for t in types.split())
        scalar(f"mov.b{w}", f"mov{{{alts}}}", f"b{w}", f"b{w}", f)
    scalar("mov.pred", "mov.pred", "p", "p", f)
    k = Kernel("mov.vector", f, "mov of vectors to and from wide registers",
               inputs="b64 b64", regs=".b32 %v<4>; .b16 %h<4>; .b8 %q<4>; .b128 %w")
    k.note("mov.b64 {lo, hi}, then swapped")
    k("mov.b64 {%v0, %v1}, %x0;", "mov.b64 %e64, {%v1, %v0};")
    k.result("", "%e64", 64)
    k.note("mov.b64 {h0, h1, h2, h3}, then reversed")
    k("mov.b64 {%h0, %h1, %h2, %h3}, %x0;", "mov.b64 %e64, {%h3, %h2, %h1, %h0};")
    k.result("", "%e64", 64)
    k.note("mov.b32 {h0, h1} with a sink")
    k("mov.b64 {%v0, _}, %x1;", "mov.b32 {%h0, %h1}, %v0;", "mov.b32 %d32, {%h1, %h0};")
    k.result("", "%d32", 32)
    k.note("mov.b128 from halves and back")
    k("mov.b128 %w, {%x0, %x1};", "mov.b128 {%t0, %t1}, %w;", "sub.u64 %e64, %t1, %t0;")
    k.result("", "%e64", 64)
    k.note("mov.b32 of four bytes")
    k("mov.b64 {%v0, %v1}, %x0;", "mov.b32 {%q0, %q1, %q2, %q3}, %v1;",
      "mov.b32 %d32, {%q3, %q2, %q1, %q0};")
    k.result("", "%d32", 32)
    k = Kernel("mov.special", f, "mov of special registers that the launch decides", grid=6,
               block=192, cluster=2, regs=".pred %ps")
    for r in ("tid.x tid.y tid.z ntid.x ntid.y ntid.z ctaid.x ctaid.y ctaid.z nctaid.x nctaid.y "
              "nctaid.z laneid clusterid.x clusterid.y clusterid.z nclusterid.x nclusterid.y "
              "nclusterid.z cluster_ctaid.x cluster_ctaid.y cluster_ctaid.z cluster_nctaid.x "
              "cluster_nctaid.y cluster_nctaid.z cluster_ctarank cluster_nctarank lanemask_eq "
              "lanemask_le lanemask_lt lanemask_ge lanemask_gt dynamic_smem_size").split():
        k.op(f"mov.u32 %d32, %{r}; // ".split(" %d32")[0], "u32", [f"%{r}"])
    k.note("mov.pred %is_explicit_cluster")
    k("mov.pred %dp, %is_explicit_cluster;")
    k.result("", "%dp", 1)
    address()


def address():
    """Generic addresses: cvta there and back, isspacep, and what they point to."""
    f = "move"
    k = Kernel("cvta", f, "cvta and cvta.to of every space", inputs="b32", grid=1, block=256,
               globals_=".visible .const .align 8 .b32 table[4] = {11, 22, 33, 44};\n"
                        ".visible .global .align 8 .b32 cell[4] = {5, 6, 7, 8};\n"
                        ".extern .shared .align 16 .b8 dynamic[];",
               regs=".u64 %a; .u64 %g", shared=4096)
    k("mov.u64 %a, dynamic;", "mul.wide.u32 %t0, %thread, 4;", "add.u64 %a, %a, %t0;",
      "st.shared.b32 [%a], %x0;")
    k.note("cvta.shared, generic load, cvta.to.shared gives the address back")
    k("cvta.shared.u64 %g, %a;", "ld.b32 %d32, [%g];")
    k.result("", "%d32", 32)
    k("cvta.to.shared.u64 %t1, %g;", "setp.eq.u64 %dp, %t1, %a;")
    k.result("", "%dp", 1)
    k.note("cvta.shared::cta")
    k("cvta.shared::cta.u64 %t2, %a;", "setp.eq.u64 %dp, %t2, %g;")
    k.result("", "%dp", 1)
    k("cvta.to.shared::cta.u64 %t2, %t2;", "setp.eq.u64 %dp, %t2, %a;")
    k.result("", "%dp", 1)
    k.note("cvta.shared::cluster of an address of this CTA")
    k("cvta.shared::cluster.u64 %t2, %a;", "ld.b32 %d32, [%t2];")
    k.result("", "%d32", 32)
    k("cvta.to.shared::cluster.u64 %t2, %t2;", "ld.shared::cluster.b32 %d32, [%t2];")
    k.result("", "%d32", 32)
    for s, var in (("const", "table"), ("global", "cell")):
        k.note(f"cvta.{s}")
        k(f"cvta.{s}.u64 %g, {var};", "ld.b32 %d32, [%g+8];")
        k.result("", "%d32", 32)
        k(f"cvta.to.{s}.u64 %t1, %g;", f"ld.{s}.b32 %d32, [%t1+4];")
        k.result("", "%d32", 32)
    k.note("cvta.local")
    k(".local .align 8 .b32 mine[2];", "mov.u64 %a, mine;", "st.local.b32 [%a+4], %x0;",
      "cvta.local.u64 %g, %a;", "ld.b32 %d32, [%g+4];")
    k.result("", "%d32", 32)
    k("cvta.to.local.u64 %t1, %g;", "ld.local.b32 %d32, [%t1+4];")
    k.result("", "%d32", 32)
    for s in ("shared", "shared::cta", "shared::cluster", "global", "local", "const"):
        for v, what in (("dynamic", "shared"), ("cell", "global"), ("mine", "local"),
                        ("table", "const")):
            k.note(f"isspacep.{s} of an address in {what}")
            k(f"mov.u64 %a, {v};", f"cvta.{what}.u64 %g, %a;", f"isspacep.{s} %dp, %g;")
            k.result("", "%dp", 1)
    k = Kernel("cvta.param", f, "cvta.param of a kernel parameter", grid=1, block=32)
    k.note("cvta.param, isspacep.param, cvta.to.param")
    k(".reg .u64 %g;", "mov.u64 %t0, out;", "cvta.param.u64 %g, %t0;", "ld.u64 %t1, [%g];",
      "ld.param.u64 %t2, [out];", "setp.eq.u64 %dp, %t1, %t2;")
    k.result("", "%dp", 1)
    k("isspacep.param::entry %dp, %g;")
    k.result("", "%dp", 1)
    k("isspacep.param %dp, %g;")
    k.result("", "%dp", 1)
    k("cvta.to.param.u64 %t3, %g;", "ld.param.u64 %t1, [%t3];", "setp.eq.u64 %dp, %t1, %t2;")
    k.result("", "%dp", 1)
    k = Kernel("mapa", f, "mapa, getctarank: the other CTAs' shared memory", grid=8, block=64,
               cluster=4, globals_=".shared .align 16 .b32 word[64];", inputs="b32",
               regs=".u32 %a, %r, %q; .u64 %g")
    k("mov.u32 %a, word;", "mad.lo.u32 %a, %thread, 4, %a;", "st.shared.b32 [%a], %x0;",
      "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
    for rank in range(4):
        k.note(f"mapa.shared::cluster.u32 of rank {rank}")
        k(f"mapa.shared::cluster.u32 %r, %a, {rank};", "ld.shared::cluster.b32 %d32, [%r];")
        k.result("", "%d32", 32)
        k(f"getctarank.shared::cluster.u32 %d32, %r;")
        k.result("", "%d32", 32)
        k.note(f"mapa.u64 of rank {rank}, from a generic address")
        k("cvt.u64.u32 %g, %a;", "cvta.shared.u64 %g, %g;", f"mapa.u64 %t0, %g, {rank};",
          "ld.b32 %d32, [%t0];")
        k.result("", "%d32", 32)
        k("getctarank.u64 %d32, %t0;")
        k.result("", "%d32", 32)
    k.note("mapa.shared::cluster.u64, mapa.u32 forms")
    k("cvt.u64.u32 %g, %a;", "mapa.shared::cluster.u64 %t0, %g, 1;", "ld.shared::cluster.b32 %d32, [%t0];")
    k.result("", "%d32", 32)
    k("getctarank.shared::cluster.u64 %d32, %t0;")
    k.result("", "%d32", 32)
    k("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
