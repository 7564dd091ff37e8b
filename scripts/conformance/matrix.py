# SPDX-License-Identifier: Apache-2.0
"""ldmatrix, stmatrix, movmatrix, mma.sync, wgmma."""
from kernel import Kernel, expand

TILES = 10000


def make():
    moves()
    mma_sync()
    wgmma_tiles()
    wgmma_shapes()
    wgmma_layouts()


def moves():
    f = "matrix load and store"
    regs = ".u32 %s, %a; .b32 %v<4>"
    k = Kernel("ldmatrix", f, "ldmatrix of every count, transposed and not", grid=4, block=32,
               inputs="b32 b32 b32 b32 small", regs=regs,
               globals_=".shared .align 16 .b32 rows[256];")
    k("mov.u32 %s, rows;", "mad.lo.u32 %a, %thread, 16, %s;",
      "st.shared.v4.b32 [%a], {%x0, %x1, %x2, %x3};", "bar.warp.sync 0xffffffff;",
      "mad.lo.u32 %a, %x4, 16, %s;")
    for insn in expand("ldmatrix.sync.aligned.m8n8{.x1|.x2|.x4}[.trans][.shared|.shared::cta].b16"):
        n = int(insn[insn.index(".x") + 2])
        k.note(insn + ", every row anywhere")
        # Without a space the address is generic.
        k("cvt.u64.u32 %t0, %a;", "cvta.shared.u64 %t0, %t0;")
        k(f"{insn} {{{', '.join(f'%v{i}' for i in range(n))}}}, [{'%a' if '.shared' in insn else '%t0'}];")
        for i in range(n):
            k.result("", f"%v{i}", 32)
    k = Kernel("stmatrix", f, "stmatrix of every count, transposed and not", grid=4, block=32,
               inputs="b32 b32 b32 b32 small", regs=regs,
               globals_=".shared .align 16 .b32 rows[256];")
    k("mov.u32 %s, rows;", "mad.lo.u32 %a, %thread, 16, %s;", 
      # Rows in a shuffled order, each lane its own.
      "xor.b32 %e32, %thread, 21;", "mad.lo.u32 %e32, %e32, 16, %s;",
      "cvt.u64.u32 %t0, %e32;", "cvta.shared.u64 %t0, %t0;")
    for insn in expand("stmatrix.sync.aligned.m8n8{.x1|.x2|.x4}[.trans][.shared|.shared::cta].b16"):
        n = int(insn[insn.index(".x") + 2])
        k.note(insn)
        k("st.shared.v4.b32 [%a], {-1, -1, -1, -1};", "bar.warp.sync 0xffffffff;",
          f"{insn} [{'%e32' if '.shared' in insn else '%t0'}], {{{', '.join(f'%x{i}' for i in range(n))}}};", "bar.warp.sync 0xffffffff;",
          "ld.shared.v4.b32 {%v0, %v1, %v2, %v3}, [%a];", "bar.warp.sync 0xffffffff;")
        for i in range(4):
            k.result("", f"%v{i}", 32)
    k = Kernel("movmatrix", f, "movmatrix.sync.aligned.m8n8.trans.b16", inputs="b32", grid=4)
    k.op("movmatrix.sync.aligned.m8n8.trans.b16", "b32")


# name, element pool, its type in the instruction
FP8 = [(a, b) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]


def one_mma(shape, d, a, b, pool, na, nb, satfinite=""):
    c = {"f32": ("cf32", 4), "f16": ("cf16x2", 2), "s32": ("cs32", 4)}[d]
    insn = f"mma.sync.aligned.{shape}.row.col{satfinite}.{d}.{a}.{b}.{d}"
    pa, pb = pool if isinstance(pool, tuple) else (pool, pool)
    k = Kernel(f"mma.{shape}.{d}.{a}.{b}{satfinite}", "mma.sync", insn,
               inputs=" ".join([f"tile:{pa}"] * na + [f"tile:{pb}"] * nb + [f"tile:{c[0]}"] * c[1]),
               grid=TILES // 8, block=256, directives=["tile 32", "sample 25"], regs=".b32 %v<4>")
    x = k.x
    k.note(insn)

    def group(regs):
        return "{" + ", ".join(regs) + "}"

    k(f"{insn} {group([f'%v{i}' for i in range(c[1])])}, {group(x[:na])}, {group(x[na:na + nb])}, "
      f"{group(x[na + nb:])};")
    for i in range(c[1]):
        k.result("", f"%v{i}", 32)


def mma_sync():
    for d in ("f32", "f16"):
        one_mma("m16n8k16", d, "f16", "f16", "f16x2", 4, 2)
        one_mma("m16n8k8", d, "f16", "f16", "f16x2", 2, 1)
        for a, b in FP8:
            one_mma("m16n8k32", d, a, b, (a + "x4", b + "x4"), 4, 2)
            one_mma("m16n8k16", d, a, b, (a + "x4", b + "x4"), 2, 1)
    one_mma("m16n8k16", "f32", "bf16", "bf16", "bf16x2", 4, 2)
    one_mma("m16n8k8", "f32", "bf16", "bf16", "bf16x2", 2, 1)
    one_mma("m16n8k8", "f32", "tf32", "tf32", "tf32", 4, 2)
    one_mma("m16n8k4", "f32", "tf32", "tf32", "tf32", 2, 1)
    for a in ("s8", "u8"):
        for b in ("s8", "u8"):
            for sat in ("", ".satfinite"):
                one_mma("m16n8k32", "s32", a, b, "i8x4", 4, 2, sat)
                one_mma("m16n8k16", "s32", a, b, "i8x4", 2, 1, sat)


def descriptor(k, reg, address, lbo, sbo, swizzle=0, base=0):
    """A wgmma matrix descriptor for a shared address in a 32-bit register."""
    high = (sbo >> 4) | base << 17 | swizzle << 30
    k(f"shr.u32 %d32, {address}, 4;", "and.b32 %d32, %d32, 0x3fff;",
      f"or.b32 %d32, %d32, {(lbo >> 4) << 16};",
      f"mov.b64 {reg}, {{%d32, {high:#x}}};")


# type name, (D type, A type, B type), pools, K
WGMMA = [("f32.f16", "f32", "f16", "f16", 16), ("f16.f16", "f16", "f16", "f16", 16),
         ("f32.bf16", "f32", "bf16", "bf16", 16), ("f32.tf32", "f32", "tf32", "tf32", 8)]
WGMMA += [(f"{d}.{a}.{b}", d, a, b, 32) for d in ("f32", "f16") for a, b in FP8]
POOL = {"f16": "f16x2", "bf16": "bf16x2", "tf32": "tf32", "e4m3": "e4m3x4", "e5m2": "e5m2x4"}


def tail_a(k_, regs=False):
    """Scale and transpose operands after scale-d."""
    if k_ != 16:
        return ", 1, 1"
    return ", 1, 1, 0" if regs else ", 1, 1, 0, 0"


def wgmma_tiles():
    """m64n8: A and B without swizzle, C in registers; one warpgroup a tile."""
    for name, d, a, b, kk in WGMMA:
        c = ("cf32", 4) if d == "f32" else ("cf16x2", 2)
        for source in ("shared", "registers"):
            full = source == "shared"
            k = Kernel(f"wgmma.{name}" + ("" if full else ".a_regs"), "wgmma",
                       f"wgmma m64n8k{kk} {d}.{a}.{b}, A in {source}",
                       inputs=" ".join([f"tile:{POOL[a]}"] * 4 + [f"tile:{POOL[b]}"] +
                                       [f"tile:{c[0]}"] * c[1]),
                       grid=TILES if full else 512, block=128,
                       directives=["tile 128"] + (["sample 64"] if full else ["sample 16"]),
                       regs=".u32 %s, %a; .u64 %da, %db; .pred %p",
                       globals_=".shared .align 1024 .b8 a[2048];\n.shared .align 1024 .b8 b[256];")
            k("mov.u32 %s, a;", "mad.lo.u32 %a, %thread, 16, %s;",
              "st.shared.v4.b32 [%a], {%x0, %x1, %x2, %x3};")
            descriptor(k, "%da", "%s", 128, 256)
            k("mov.u32 %s, b;", "mad.lo.u32 %a, %thread, 4, %s;", "setp.lt.u32 %p, %thread, 64;",
              "@%p st.shared.b32 [%a], %x4;")
            descriptor(k, "%db", "%s", 128, 256)
            k("fence.proxy.async.shared::cta;", "bar.sync 0;", "setp.eq.u32 %p, %thread, %thread;")
            acc = "{" + ", ".join(k.x[5:]) + "}"
            k.note(f"D, register by register")
            from_ = "%da" if full else "{%x0, %x1, %x2, %x3}"
            k("wgmma.fence.sync.aligned;",
              f"wgmma.mma_async.sync.aligned.m64n8k{kk}.{d}.{a}.{b} {acc}, {from_}, %db, %p"
              f"{tail_a(kk, not full)};", "wgmma.commit_group.sync.aligned;",
              "wgmma.wait_group.sync.aligned 0;")
            for r in k.x[5:]:
                k.result("", r, 32)


def fold(k, regs):
    """All registers of D in one word."""
    k("mov.b32 %h, 0;")
    for r in regs:
        k(f"mad.lo.u32 %h, %h, 16777619, {r};")
    k.result("", "%h", 32)


def memory_for(k):
    """16 KB: operands, then the same operands turned around."""
    k("mov.u32 %s, mem;", "mad.lo.u32 %a, %thread, 64, %s;")
    for j in range(4):
        k(f"st.shared.v4.b32 [%a+{16 * j}], {{{', '.join(f'%x{4 * j + i}' for i in range(4))}}};",
          f"st.shared.v4.b32 [%a+{8192 + 16 * j}], {{{', '.join(f'%x{15 - 4 * j - i}' for i in range(4))}}};")
    k("fence.proxy.async.shared::cta;", "bar.sync 0;")


def big(name, title, pool, n, d, grid=2, more=""):
    regs = n // 2 if d == "f32" else n // 4
    k = Kernel(name, "wgmma", title, inputs=" ".join([f"tile:{pool}"] * 16), grid=grid, block=128,
               directives=["tile 128"],
               regs=f".u32 %s, %a, %b; .u64 %da, %db; .b32 %h, %acc<{max(regs, 1)}>; .pred %p" + more,
               globals_=".shared .align 1024 .b8 mem[32768];")
    memory_for(k)
    return k


def wgmma_shapes():
    """Every N; D starts from nothing (scale-d false)."""
    for name, d, a, b, kk in WGMMA:
        every = name == "f32.f16"
        ns = range(8, 257, 8) if every else (8, 16, 24, 64, 104, 128, 192, 248, 256)
        if name not in ("f32.f16", "f16.f16", "f32.bf16", "f32.tf32", "f32.e4m3.e4m3", "f16.e5m2.e4m3"):
            ns = (16, 96, 256)
        k = big(f"wgmma.shapes.{name}", f"wgmma m64nNk{kk} {d}.{a}.{b} for N of {list(ns)}", POOL[a],
                256, d, grid=1)
        k("add.u32 %b, %s, 4096;")
        descriptor(k, "%da", "%s", 128, 256)
        descriptor(k, "%db", "%b", 128, 256)
        for n in ns:
            count = n // 2 if d == "f32" else n // 4
            regs = [f"%acc{i}" for i in range(count)]
            k.note(f"m64n{n}k{kk}, scale-d 0: D mixed into one word")
            k("wgmma.fence.sync.aligned;",
              f"wgmma.mma_async.sync.aligned.m64n{n}k{kk}.{d}.{a}.{b} {{{', '.join(regs)}}}, %da, %db, 0"
              f"{tail_a(kk)};", "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;")
            fold(k, regs)
    for name, d, a, b, kk in WGMMA:
        for sa, sb in ((-1, 1), (1, -1), (-1, -1)):
            sign = ("-" if sa < 0 else "") + "a." + ("-" if sb < 0 else "") + "b"
            k = big(f"wgmma.{name}.{sign.replace('-', 'minus_')}", f"wgmma m64n16k{kk} {d}.{a}.{b}, A times {sa}, B times {sb}",
                    POOL[a], 16, d, grid=1)
            k("add.u32 %b, %s, 4096;")
            descriptor(k, "%da", "%s", 128, 256)
            descriptor(k, "%db", "%b", 128, 256)
            regs = [f"%acc{i}" for i in range(8 if d == "f32" else 4)]
            for r in regs:
                k(f"mov.b32 {r}, {'0x3f800000' if d == 'f32' else '0x3c003c00'};")
            k.note("onto ones")
            k("wgmma.fence.sync.aligned;",
              f"wgmma.mma_async.sync.aligned.m64n16k{kk}.{d}.{a}.{b} {{{', '.join(regs)}}}, %da, %db, 1"
              f"{tail_a(kk).replace(', 1, 1', f', {sa}, {sb}', 1)};",
              "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;")
            fold(k, regs)


def wgmma_layouts():
    """Swizzles, both majors, steps along K inside an atom, several groups in flight."""
    for name, d, a, b, kk in (WGMMA[0], WGMMA[2], WGMMA[3], WGMMA[4]):
        k = big(f"wgmma.layout.{name}", f"wgmma {d}.{a}.{b}: swizzles and majors of A and B", POOL[a], 32, d,
                more="; .u32 %left, %q<4>; .u64 %row")
        k("add.u32 %b, %s, 8192;")
        regs = [f"%acc{i}" for i in range(16)]
        # A loop over a table, one for each pair of majors (those are constants of the
        # instruction): ptxas 13.0 drops some of several wgmma written one after another
        # that differ in their descriptors only.
        for ta, tb in [(0, 0)] + ([(1, 0), (0, 1), (1, 1)] if kk == 16 else []):
            rows = []
            for sw, w in ((0, 16), (1, 128), (2, 64), (3, 32)):
                steps = (0,) if (ta or tb or sw in (0, 3)) else (0, 32) if sw == 2 else (0, 32, 64, 96)
                for step in steps:
                    lbo = [128 if sw == 0 else 16 * w if major else 16 for major in (ta, tb)]
                    high = (256 if sw == 0 else 8 * w) >> 4 | sw << 30
                    rows.append((step, lbo[0] >> 4 << 16, lbo[1] >> 4 << 16, high))
                    k(f"// {k.results + len(rows) - 1}: swizzle {w if sw else 'none'}, "
                      f"A {'MN' if ta else 'K'}-major, B {'MN' if tb else 'K'}-major, "
                      f"{step} bytes into the atom")
            table = f"table{ta}{tb}"
            k.globals += f"\n.const .align 16 .b32 {table}[{4 * len(rows)}] = {{" + ", ".join(
                              f"{v:#x}" for row in rows for v in row) + "};"
            label = f"NEXT{ta}{tb}"
            k(f"mov.u64 %row, {table};", f"mov.u32 %left, {len(rows)};", f"{label}:",
              ".pragma \"nounroll\";", "ld.const.v4.b32 {%q0, %q1, %q2, %q3}, [%row];", "add.u64 %row, %row, 16;")
            for reg, base, lbo in (("%da", "%s", "%q1"), ("%db", "%b", "%q2")):
                k(f"add.u32 %h, {base}, %q0;", "shr.u32 %d32, %h, 4;", "and.b32 %d32, %d32, 0x3fff;",
                  f"or.b32 %d32, %d32, {lbo};", f"mov.b64 {reg}, {{%d32, %q3}};")
            t = ", 1, 1" if kk != 16 else f", 1, 1, {ta}, {tb}"
            k("wgmma.fence.sync.aligned;",
              f"wgmma.mma_async.sync.aligned.m64n32k{kk}.{d}.{a}.{b} {{{', '.join(regs)}}}, "
              f"%da, %db, 0{t};", "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;")
            before = k.results
            fold(k, regs)
            k("sub.u32 %left, %left, 1;", "setp.ne.u32 %p, %left, 0;", f"@%p bra {label};")
            k.results = before + len(rows)
        k.note("three on one accumulator in two groups, then wait_group 1 and 0")
        descriptor(k, "%da", "%s", 128, 256)
        descriptor(k, "%db", "%b", 128, 256)
        one = (f"wgmma.mma_async.sync.aligned.m64n32k{kk}.{d}.{a}.{b} {{{', '.join(regs)}}}, %da, %db, "
               "SCALE" + tail_a(kk) + ";")
        k("wgmma.fence.sync.aligned;", one.replace("SCALE", "0"), one.replace("SCALE", "1"),
          "wgmma.commit_group.sync.aligned;", one.replace("SCALE", "1"), "wgmma.commit_group.sync.aligned;",
          "wgmma.wait_group.sync.aligned 1;", "wgmma.wait_group.sync.aligned 0;")
        fold(k, regs)
        if kk == 16:
            k.note("A in registers, B MN-major")
            descriptor(k, "%db", "%b", 16 * 128, 8 * 128, 1)
            k("wgmma.fence.sync.aligned;",
              f"wgmma.mma_async.sync.aligned.m64n32k{kk}.{d}.{a}.{b} {{{', '.join(regs)}}}, "
              "{%x0, %x1, %x2, %x3}, %db, 0, 1, 1, 1;", "wgmma.commit_group.sync.aligned;",
              "wgmma.wait_group.sync.aligned 0;")
            fold(k, regs)
