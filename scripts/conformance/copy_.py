# SPDX-License-Identifier: Apache-2.0
"""Bulk copies and reductions, asynchronous stores, tensor copies, tensor maps."""
from kernel import Kernel, each, expand
from sync import inval, init, wait

REGS = ".u32 %s, %d, %b, %r, %pb; .b64 %st; .pred %p; .b32 %v<4>; .u64 %a, %g, %pol, %map; .b16 %mask"
SHARED = (".shared .align 1024 .b8 tile[16384];\n.shared .align 128 .b8 from[4096];\n"
          ".shared .align 8 .b64 bar[2];")


def begin(k):
    k("mov.u32 %b, bar;", "mov.u32 %s, from;", "mov.u32 %d, tile;",
      "setp.eq.u32 %p, %thread, 0;",
      "createpolicy.fractional.L2::evict_first.b64 %pol, 1.0;")


def clear(k, words=1, base="%d"):
    """Known words where the copy will land."""
    for i in range(words):
        k(f"mad.lo.u32 %v0, %thread, 8, {base};", f"st.shared.b64 [%v0+{i * 2048}], -1;")
    k("fence.proxy.async.shared::cta;", "bar.sync 0;")


def read(k, words=1, base="%d"):
    for i in range(words):
        k(f"mad.lo.u32 %v0, %thread, 8, {base};", f"ld.shared.b64 %e64, [%v0+{i * 2048}];")
        k.result("", "%e64", 64)


def make():
    bulk()
    bulk_reduce()
    remote()
    tensor_loads()
    tensor_stores()
    tensor_maps()


def bulk():
    f = "bulk copy"
    k = Kernel("cp.async.bulk.load", f, "cp.async.bulk from global to shared memory", grid=2,
               inputs="b64", regs=REGS, globals_=SHARED)
    begin(k)
    k("mul.wide.u32 %t0, %block, 4096;", "add.u64 %a, %scratch, %t0;")
    head = "cp.async.bulk.{}.global.mbarrier::complete_tx::bytes"
    for space in ("shared::cluster", "shared::cta"):
        for size in (16, 48, 1024, 2048):
            for tail, arg in (("", ""), (".L2::cache_hint", ", %pol")):
                k.note(f"{head.format(space)}{tail} of {size} bytes")
                init(k, 1)
                clear(k)
                k(f"@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {size};",
                  f"@%p {head.format(space)}{tail} [%d], [%a], {size}, [%b]{arg};")
                wait(k)
                read(k)
                inval(k)
    k.note("the size in a register, an offset on both sides")
    init(k, 1)
    clear(k)
    k("mov.u32 %v1, 96;", "@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 96;",
      f"@%p {head.format('shared::cluster')} [%d+16], [%a+32], %v1, [%b];")
    wait(k)
    read(k)
    inval(k)
    k.note("cp.async.bulk.prefetch.L2.global: nothing to see")
    k("@%p cp.async.bulk.prefetch.L2.global [%a], 256;",
      "@%p cp.async.bulk.prefetch.L2.global.L2::cache_hint [%a], 256, %pol;")
    k.result("", "%x0", 64)
    k = Kernel("cp.async.bulk.multicast", f, "cp.async.bulk .multicast::cluster", grid=4, cluster=4,
               inputs="b64", regs=REGS, globals_=SHARED)
    begin(k)
    k("mov.u32 %r, %cluster_ctarank;", "mov.u64 %a, %scratch;")
    for mask in (0xf, 0x6, 0x1):
        for tail, arg in (("", ""), (".L2::cache_hint", ", %pol")):
            k.note(f"{head.format('shared::cluster')}.multicast::cluster{tail}, mask {mask:#x}")
            init(k, 1)
            clear(k)
            k(f"mov.b16 %mask, {mask};", f"shr.u32 %v1, {mask}, %r;", "and.b32 %v1, %v1, 1;",
              "mul.lo.u32 %v1, %v1, 512;",
              "@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], %v1;",
              "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;",
              "setp.eq.and.u32 %dp, %r, 1, %p;",
              f"@%dp {head.format('shared::cluster')}.multicast::cluster{tail} [%d], [%a], 512, [%b], %mask{arg};")
            wait(k)
            read(k)
            k("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
            inval(k)
    k = Kernel("cp.async.bulk.store", f, "cp.async.bulk from shared to global memory, groups",
               grid=2, inputs="b64 b64", regs=REGS, globals_=SHARED)
    begin(k)
    k("mul.wide.u32 %t0, %block, 4096;", "add.u64 %a, %scratch, %t0;",
      "mul.wide.u32 %t0, %thread, 8;", "add.u64 %g, %a, %t0;",
      "mad.lo.u32 %v1, %thread, 8, %s;", "st.shared.b64 [%v1], %x0;",
      "fence.proxy.async.shared::cta;", "bar.sync 0;")
    for tail, arg in (("", ""), (".L2::cache_hint", ", %pol")):
        for size in (16, 208, 2048):
            for end in ("cp.async.bulk.wait_group 0", "cp.async.bulk.wait_group.read 0"):
                k.note(f"cp.async.bulk.global.shared::cta.bulk_group{tail} of {size}; {end}")
                k("st.global.b64 [%g], %x1;", "fence.proxy.async.global;", "bar.sync 0;",
                  f"@%p cp.async.bulk.global.shared::cta.bulk_group{tail} [%a], [%s], {size}{arg};",
                  "@%p cp.async.bulk.commit_group;", f"@%p {end};",
                  "@%p cp.async.bulk.wait_group 0;", "fence.proxy.async.global;", "bar.sync 0;",
                  "ld.global.b64 %e64, [%g];", "bar.sync 0;")
                k.result("", "%e64", 64)
    k = Kernel("cp.async.bulk.cluster", f, "cp.async.bulk from shared memory to another CTA's",
               grid=4, cluster=2, inputs="b64", regs=REGS, globals_=SHARED)
    begin(k)
    k("mov.u32 %r, %cluster_ctarank;", "xor.b32 %r, %r, 1;",
      "mad.lo.u32 %v1, %thread, 8, %s;", "st.shared.b64 [%v1], %x0;",
      "mapa.shared::cluster.u32 %v2, %d, %r;", "mapa.shared::cluster.u32 %pb, %b, %r;")
    for size in (16, 1024, 2048):
        k.note(f"cp.async.bulk.shared::cluster.shared::cta of {size} bytes")
        init(k, 1)
        clear(k)
        k(f"@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {size};",
          "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;",
          "@%p cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
          f"[%v2], [%s], {size}, [%pb];")
        wait(k, "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64")
        read(k)
        k("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
        inval(k)


def bulk_reduce():
    f = "bulk copy"
    combos = []
    for t in ("u32", "s32", "u64", "s64", "b32", "b64", "f32", "f64", "f16", "bf16"):
        ops = {"u32": "add min max inc dec", "s32": "add min max", "u64": "add min max",
               "s64": "min max", "b32": "and or xor", "b64": "and or xor", "f32": "add",
               "f64": "add", "f16": "add min max", "bf16": "add min max"}[t].split()
        combos.append((t, ops))
    for t, ops in combos:
        pool = {"f16": "f16x2", "bf16": "bf16x2"}.get(t, t)
        w = 64 if t.endswith("64") else 32
        k = Kernel(f"cp.reduce.async.bulk.global.{t}", f, f"cp.reduce.async.bulk to global memory, {t}",
                   grid=2, inputs=f"{pool} {pool}", regs=REGS, globals_=SHARED)
        begin(k)
        k(f"mul.wide.u32 %t0, %block, 4096;", "add.u64 %a, %scratch, %t0;",
          f"mul.wide.u32 %t0, %thread, {w // 8};", "add.u64 %g, %a, %t0;",
          f"mad.lo.u32 %v1, %thread, {w // 8}, %s;", f"st.shared.b{w} [%v1], %x0;",
          "fence.proxy.async.shared::cta;", "bar.sync 0;")
        size = 256 * w // 8
        for op in ops:
            noftz = ".noftz" if op == "add" and "f16" in t else ""
            for tail, arg in (("", ""), (".L2::cache_hint", ", %pol")):
                insn = f"cp.reduce.async.bulk.global.shared::cta.bulk_group{tail}.{op}{noftz}.{t}"
                k.note(insn)
                k(f"st.global.b{w} [%g], %x1;", "fence.proxy.async.global;", "bar.sync 0;",
                  f"@%p {insn} [%a], [%s], {size}{arg};", "@%p cp.async.bulk.commit_group;",
                  "@%p cp.async.bulk.wait_group 0;", "fence.proxy.async.global;", "bar.sync 0;",
                  f"ld.global.b{w} %{'e64' if w == 64 else 'd32'}, [%g];", "bar.sync 0;")
                k.result("", "%e64" if w == 64 else "%d32", w)
    for t in ("u32", "s32", "u64", "b32"):
        ops = {"u32": "add min max inc dec", "s32": "add min max", "u64": "add",
               "b32": "and or xor"}[t].split()
        w = 64 if t == "u64" else 32
        k = Kernel(f"cp.reduce.async.bulk.cluster.{t}", f,
                   f"cp.reduce.async.bulk to another CTA's shared memory, {t}", grid=2, cluster=2,
                   inputs=f"{t} {t}", regs=REGS, globals_=SHARED)
        begin(k)
        k("mov.u32 %r, %cluster_ctarank;", "xor.b32 %r, %r, 1;",
          f"mad.lo.u32 %v1, %thread, {w // 8}, %s;", f"st.shared.b{w} [%v1], %x0;",
          f"mad.lo.u32 %v3, %thread, {w // 8}, %d;",
          "mapa.shared::cluster.u32 %v2, %d, %r;", "mapa.shared::cluster.u32 %pb, %b, %r;")
        size = 256 * w // 8
        for op in ops:
            insn = ("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
                    f".{op}.{t}")
            k.note(insn)
            init(k, 1)
            k(f"st.shared.b{w} [%v3], %x1;", "fence.proxy.async.shared::cta;",
              f"@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {size};",
              "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;",
              f"@%p {insn} [%v2], [%s], {size}, [%pb];")
            wait(k, "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64")
            k(f"ld.shared.b{w} %{'e64' if w == 64 else 'd32'}, [%v3];",
              "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
            inval(k)
            k.result("", "%e64" if w == 64 else "%d32", w)


def remote():
    f = "asynchronous store"
    k = Kernel("st.async", f, "st.async to another CTA's shared memory", grid=4, cluster=2,
               inputs="b64 b64", regs=REGS + "; .b64 %w<4>", globals_=SHARED)
    begin(k)
    k("mov.u32 %r, %cluster_ctarank;", "xor.b32 %r, %r, 1;", "mad.lo.u32 %v3, %thread, 16, %d;",
      "mapa.shared::cluster.u32 %v2, %v3, %r;", "mapa.shared::cluster.u32 %pb, %b, %r;")
    for weak in ("", ".weak"):
        for t in ("b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"):
            for vec, n in (("", 1), (".v2", 2), (".v4", 4)):
                w = int(t[1:])
                if w * n > 128 or (weak and (t not in ("b32", "u64"))):
                    continue
                insn = f"st.async{weak}.shared::cluster.mbarrier::complete_tx::bytes{vec}.{t}"
                regs = ["%x0", "%x1"] if w == 64 else ["%v0", "%v1", "%d32", "%e32"]
                k.note(insn)
                init(k, 1)
                k("st.shared.v2.b64 [%v3], {-1, -1};", "mov.b64 {%v0, %v1}, %x0;",
                  "mov.b64 {%d32, %e32}, %x1;",
                  f"@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {256 * w * n // 8};",
                  "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
                value = regs[0] if n == 1 else "{" + ", ".join(regs[:n]) + "}"
                k(f"{insn} [%v2], {value}, [%pb];")
                wait(k, "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64")
                k("ld.shared.v2.b64 {%w0, %w1}, [%v3];", "barrier.cluster.arrive.aligned;",
                  "barrier.cluster.wait.aligned;")
                inval(k)
                k.result("", "%w0", 64)
                k.result("", "%w1", 64)
    for t, ops in (("u32", "add min max inc dec"), ("s32", "add min max"), ("u64", "add"),
                   ("b32", "and or xor")):
        w = 64 if t == "u64" else 32
        k = Kernel(f"red.async.{t}", f, f"red.async to another CTA's shared memory, {t}", grid=4,
                   cluster=2, inputs=f"{t} {t}", regs=REGS, globals_=SHARED)
        begin(k)
        k("mov.u32 %r, %cluster_ctarank;", "xor.b32 %r, %r, 1;", "mad.lo.u32 %v3, %thread, 8, %d;",
          "mapa.shared::cluster.u32 %v2, %v3, %r;", "mapa.shared::cluster.u32 %pb, %b, %r;")
        for op in ops.split():
            for sp in (".shared::cluster",):
                insn = f"red.async.relaxed.cluster{sp}.mbarrier::complete_tx::bytes.{op}.{t}"
                k.note(insn)
                init(k, 1)
                k(f"st.shared.b{w} [%v3], %x1;",
                  f"@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {256 * w // 8};",
                  "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;",
                  f"{insn} [%v2], %x0, [%pb];")
                wait(k, "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64")
                k(f"ld.shared.b{w} %{'e64' if w == 64 else 'd32'}, [%v3];",
                  "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
                inval(k)
                k.result("", "%e64" if w == 64 else "%d32", w)


# Tensors over the scratch buffer: shape per rank, a box that fits 2 KB.
DIMS = {1: ((200,), (64,)), 2: ((48, 20), (16, 8)), 3: ((20, 10, 6), (8, 4, 4)),
        4: ((20, 6, 5, 4), (8, 4, 2, 2)), 5: ((20, 4, 3, 3, 3), (8, 2, 2, 2, 2))}


def shape(rank, es, dims=None, box=None, **kw):
    d, b = DIMS[rank]
    d, b = dims or d, box or b
    strides, at = [], es
    for n in d[:-1]:
        at *= n
        at = (at + 15) // 16 * 16
        strides.append(at)
    more = "".join(f" {a}={v}" for a, v in kw.items())
    count = 1
    for n in b:
        count *= n
    return (f"at=scratch rank={rank} dims={','.join(map(str, d))} "
            f"strides={','.join(map(str, strides or [0]))} box={','.join(map(str, b))}{more}"), count * es


def coords(rank, which):
    """Coordinates of the box: inside, over the end, before the start, far outside.

    The first one times two or four bytes is a multiple of 16, as the hardware asks."""
    d, b = DIMS[rank]
    if which == "inside":
        c = [b[0]] + [1] * (rank - 1)
    elif which == "end":
        c = [d[i] - b[i] // 2 for i in range(rank)]
        c[0] = c[0] // 8 * 8
    elif which == "start":
        c = [-8] + [-(b[i] // 2) for i in range(1, rank)]
    elif which == "mixed":
        c = [-8 if i % 2 == 0 else d[i] - 1 for i in range(rank)]
    else:
        c = [(d[i] + 107) // 8 * 8 for i in range(rank)]
    return "{" + ", ".join(map(str, c)) + "}"


def map_address(k, n=0):
    k(f"mov.u64 %map, map{n};", "cvta.param.u64 %map, %map;")


def tensor_load(k, head, where, size, words, tail="", arg=""):
    init(k, 1)
    clear(k, words)
    k(f"@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {size};",
      f"@%p {head}{tail} [%d], [%map, {where}], [%b]{arg};")
    wait(k)
    read(k, words)
    inval(k)


def tensor_loads():
    f = "tensor copy"
    for rank in range(1, 6):
        m, size = shape(rank, 2, type=1)
        k = Kernel(f"cp.async.bulk.tensor.{rank}d.load", f, f"cp.async.bulk.tensor.{rank}d to shared memory",
                   grid=1, inputs="b64", regs=REGS, globals_=SHARED, maps=[m])
        begin(k)
        map_address(k)
        for space in ("shared::cluster", "shared::cta"):
            for tile in ("", ".tile"):
                head = f"cp.async.bulk.tensor.{rank}d.{space}.global{tile}.mbarrier::complete_tx::bytes"
                for where in ("inside", "end", "start", "mixed", "outside"):
                    k.note(f"{head}, box {where}")
                    tensor_load(k, head, coords(rank, where), size, 1)
                k.note(f"{head}.L2::cache_hint")
                tensor_load(k, head, coords(rank, "inside"), size, 1, ".L2::cache_hint", ", %pol")
        k.note("cp.async.bulk.prefetch.tensor: nothing to see")
        for tail, arg in (("", ""), (".L2::cache_hint", ", %pol")):
            k(f"@%p cp.async.bulk.prefetch.tensor.{rank}d.L2.global{tail} [%map, {coords(rank, 'inside')}]{arg};",
              f"@%p cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile{tail} [%map, {coords(rank, 'end')}]{arg};")
        k.result("", "%x0", 64)
        k = Kernel(f"cp.async.bulk.tensor.{rank}d.multicast", f,
                   f"cp.async.bulk.tensor.{rank}d .multicast::cluster", grid=4, cluster=4,
                   inputs="b64", regs=REGS, globals_=SHARED, maps=[m])
        begin(k)
        map_address(k)
        k("mov.u32 %r, %cluster_ctarank;")
        head = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes"
        for mask in (0xf, 0xa):
            for tail, arg in (("", ""), (".L2::cache_hint", ", %pol")):
                k.note(f"{head}.multicast::cluster{tail}, mask {mask:#x}")
                init(k, 1)
                clear(k)
                k(f"mov.b16 %mask, {mask};", f"shr.u32 %v1, {mask}, %r;", "and.b32 %v1, %v1, 1;",
                  f"mul.lo.u32 %v1, %v1, {size};",
                  "@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], %v1;",
                  "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;",
                  "setp.eq.and.u32 %dp, %r, 2, %p;",
                  f"@%dp {head}.multicast::cluster{tail} [%d], [%map, {coords(rank, 'end')}], [%b], %mask{arg};")
                wait(k)
                read(k)
                k("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
                inval(k)
    # Element types with their fills, swizzles, steps, interleaves: one map each.
    for name, es, kw in (
            ("u8", 1, {"type": 0}), ("u32", 4, {"type": 2}), ("u64", 8, {"type": 4}),
            ("f16.nan", 2, {"type": 6, "fill": 1}), ("f32.nan", 4, {"type": 7, "fill": 1}),
            ("f64.nan", 8, {"type": 8, "fill": 1}), ("bf16.nan", 2, {"type": 9, "fill": 1}),
            ("f32.ftz", 4, {"type": 10}), ("tf32", 4, {"type": 11}), ("tf32.ftz", 4, {"type": 12}),
            ("s32", 4, {"type": 3}), ("s64", 8, {"type": 5})):
        box = (32 if es == 1 else 16, 8)
        m, size = shape(2, es, dims=(64, 20), box=box, **kw)
        k = Kernel(f"tensor.type.{name}", f, f"a tensor map of type {name}: loads over the edges",
                   grid=1, inputs="b64", regs=REGS, globals_=SHARED, maps=[m])
        begin(k)
        map_address(k)
        head = "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"
        for c in ("{16, 4}", "{48, 16}", "{-16, -4}", "{112, 100}"):
            k.note(f"a box at {c}")
            tensor_load(k, head, c, size, 1)
    for sw, width in ((1, 32), (2, 64), (3, 128)):
        for part in (1, 2):
            m, size = shape(2, 2, dims=(256, 80), box=(width // 2 // part, 32), type=1, swizzle=sw)
            k = Kernel(f"tensor.swizzle.{width}{'' if part == 1 else '.narrow'}", f,
                       f"swizzle of {width} bytes, a box row of {width // part} bytes", grid=1,
                       inputs="b64", regs=REGS, globals_=SHARED, maps=[m])
            begin(k)
            map_address(k)
            head = "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"
            for c in ("{32, 8}", "{224, 60}"):
                k.note(f"a box at {c}")
                tensor_load(k, head, c, size, 3)
            k.note("to an address off the pattern's start by 128 bytes")
            k("add.u32 %d, %d, 128;")
            tensor_load(k, head, "{32, 8}", size, 3)
    m, size = shape(2, 2, dims=(64, 40), box=(32, 16), type=1, steps="1,3")
    k = Kernel("tensor.steps", f, "element strides of a tensor map", grid=1, inputs="b64", regs=REGS,
               globals_=SHARED, maps=[m])
    begin(k)
    map_address(k)
    for c in ("{8, 4}", "{40, 30}"):
        k.note(f"a box at {c}, every third row")
        # ceil(16 / 3) rows of 32 elements land.
        tensor_load(k, "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes", c,
                    6 * 64, 1)


def tensor_stores():
    f = "tensor copy"
    for rank in range(1, 6):
        m, size = shape(rank, 4, type=2)
        k = Kernel(f"cp.async.bulk.tensor.{rank}d.store", f,
                   f"cp.async.bulk.tensor.{rank}d to global memory", grid=1, inputs="b64 b64",
                   regs=REGS, globals_=SHARED, maps=[m])
        store_body(k, rank, size,
                   [(f"cp.async.bulk.tensor.{rank}d.global.shared::cta{tile}.bulk_group{tail}", arg)
                    for tile in ("", ".tile") for tail, arg in (("", ""), (".L2::cache_hint", ", %pol"))],
                   ("inside", "end"))
        m, size = shape(rank, 4, type=3)
        k = Kernel(f"cp.reduce.async.bulk.tensor.{rank}d", f,
                   f"cp.reduce.async.bulk.tensor.{rank}d to global memory", grid=1,
                   inputs="b64 b64", regs=REGS, globals_=SHARED, maps=[m])
        ops = ["add", "min", "max", "and", "or", "xor"]
        store_body(k, rank, size,
                   [(f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{op}{tile}.bulk_group{tail}", arg)
                    for op in ops for tile, tail, arg in (("", "", ""), (".tile", ".L2::cache_hint", ", %pol"))],
                   ("inside", "end"))
    for which in ("start", "outside"):
        m, size = shape(2, 4, type=2)
        k = Kernel(f"cp.async.bulk.tensor.store.{which}", f,
                   f"a tensor store whose box begins {which}: negative coordinates, or past the end",
                   grid=1, inputs="b64 b64", regs=REGS, globals_=SHARED, maps=[m])
        store_body(k, 2, size, [("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group", "")], (which,))
    for name, t, es, ops in (("u32", 2, 4, "add min max inc dec and or xor"), ("u64", 4, 8, "add min max and or xor"),
                             ("s64", 5, 8, "min max"), ("f16", 6, 2, "add min max"),
                             ("bf16", 9, 2, "add min max"), ("f32", 7, 4, "add"), ("f64", 8, 8, "add"),
                             ("f32.ftz", 10, 4, "add")):
        pool = {"f16": "f16x2", "bf16": "bf16x2", "f32": "f32x2", "f32.ftz": "f32x2", "f64": "f64"}.get(name, "b64")
        box = (16, 8)
        m, size = shape(2, es, dims=(48, 20), box=box, type=t)
        k = Kernel(f"cp.reduce.async.bulk.tensor.{name}", f, f"tensor reductions of {name}", grid=1,
                   inputs=f"{pool} {pool}", regs=REGS, globals_=SHARED, maps=[m])
        store_body(k, 2, size,
                   [(f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{op}.tile.bulk_group", "")
                    for op in ops.split()], ("inside",))


def store_body(k, rank, size, insns, wheres):
    begin(k)
    map_address(k)
    wide = k.x[0], k.x[1]
    if k.inputs[0].endswith("16x2"):
        k(".reg .b64 %w<2>;", "mov.b64 %w0, {%x0, %x1};", "mov.b64 %w1, {%x1, %x0};")
        wide = "%w0", "%w1"
    k("mad.lo.u32 %v1, %thread, 8, %s;", f"st.shared.b64 [%v1], {wide[0]};",
      "mul.wide.u32 %t0, %thread, 64;", "add.u64 %g, %scratch, %t0;")
    for insn, arg in insns:
        for where in wheres:
            k.note(f"{insn}, box {where}: every word of the tensor, mixed")
            for i in range(8):
                k(f"st.global.b64 [%g+{8 * i}], {wide[1]};")
            k("fence.proxy.async;", "bar.sync 0;", f"@%p {insn} [%map, {coords(rank, where)}], [%s]{arg};",
              "@%p cp.async.bulk.commit_group;", "@%p cp.async.bulk.wait_group 0;",
              "fence.proxy.async;", "bar.sync 0;", "mov.b64 %e64, 0;")
            for i in range(8):
                k(f"ld.global.b64 %d64, [%g+{8 * i}];", "mad.lo.u64 %e64, %e64, 0x100000001b3, %d64;")
            k("bar.sync 0;")
            k.result("", "%e64", 64)


def tensor_maps():
    f = "tensor map"
    m, size = shape(2, 2, dims=(64, 20), box=(16, 8), type=1)
    k = Kernel("tensormap.replace", f, "tensormap.replace of every field, prefetch, cp_fenceproxy",
               grid=1, block=256, inputs="b64", regs=REGS + "; .u64 %gmap; .u32 %sm; .b64 %w<2>; .pred %w0p",
               globals_=SHARED + "\n.shared .align 128 .b8 smap[128];", maps=[m])
    begin(k)
    map_address(k)
    k("add.u64 %gmap, %scratch, 0x80000;", "mov.u32 %sm, smap;", "setp.lt.u32 %w0p, %thread, 32;")

    def through(text, changes, where, space, bytes_=size):
        """The map copied, changed, used."""
        k.note(text)
        k("setp.lt.u32 %dp, %thread, 16;", "mul.wide.u32 %t1, %thread, 8;", "add.u64 %t2, %map, %t1;",
          "@%dp ld.b64 %w0, [%t2];", "mad.lo.u32 %v2, %thread, 8, %sm;", "@%dp st.shared.b64 [%v2], %w0;",
          "bar.sync 0;")
        if space == "global":
            k("add.u64 %t2, %gmap, %t1;", "@%dp st.global.b64 [%t2], %w0;", "bar.sync 0;")
        at = "%gmap" if space == "global" else "%sm"
        for c, args in changes:
            k(f"@%p tensormap.replace.tile.{c.format(space)} [{at}], {args};")
        if space == "global":
            k("@%p fence.proxy.tensormap::generic.release.gpu;", "bar.sync 0;")
        else:
            k("bar.sync 0;", "@%w0p tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic"
              ".release.gpu.sync.aligned [%gmap], [%sm], 128;", "bar.sync 0;")
        init(k, 1)
        clear(k)
        k("@%p fence.proxy.tensormap::generic.acquire.gpu [%gmap], 128;",
          f"@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {bytes_};",
          "@%p prefetch.tensormap [%gmap];",
          "@%p cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes "
          f"[%d], [%gmap, {where}], [%b];")
        wait(k)
        read(k)
        inval(k)

    k("@%p prefetch.param.tensormap [map0];")
    for space in ("shared::cta", "global"):
        k("add.u64 %t3, %scratch, 0x1000;")
        through(f"as it was, through {space}", [], "{8, 2}", space)
        through(f"global_address, {space}", [("global_address.{}.b1024.b64", "%t3")], "{8, 2}", space)
        through(f"global_dim 1, {space}", [("global_dim.{}.b1024.b32", "1, 6")], "{8, 2}", space)
        through(f"global_dim 0, {space}", [("global_dim.{}.b1024.b32", "0, 18")], "{8, 2}", space)
        through(f"global_stride, {space}", [("global_stride.{}.b1024.b64", "0, 256")], "{8, 2}", space)
        through(f"box_dim, {space}", [("box_dim.{}.b1024.b32", "1, 4")], "{8, 2}", space, size // 2)
        through(f"element_stride, {space}", [("element_stride.{}.b1024.b32", "1, 2")], "{8, 2}", space, size // 2)
        through(f"rank, elemtype, interleave_layout, fill_mode as they were, {space}",
                [("rank.{}.b1024.b32", "1"), ("elemtype.{}.b1024.b32", "1"),
                 ("interleave_layout.{}.b1024.b32", "0"), ("fill_mode.{}.b1024.b32", "0")], "{-8, 2}", space)
        through(f"elemtype f16 and fill_mode NaN, {space}",
                [("elemtype.{}.b1024.b32", "6"), ("fill_mode.{}.b1024.b32", "1")], "{-8, 2}", space)
        through(f"swizzle_mode 32 bytes, {space}", [("swizzle_mode.{}.b1024.b32", "1")], "{8, 2}", space)
    k = Kernel("tensormap.scopes", f, "tensormap fences and copies of every scope", grid=1, inputs="b64",
               regs=REGS + "; .u64 %gmap; .u32 %sm; .b64 %w<2>; .pred %w0p",
               globals_=SHARED + "\n.shared .align 128 .b8 smap[128];", maps=[m])
    begin(k)
    map_address(k)
    k("add.u64 %gmap, %scratch, 0x80000;", "mov.u32 %sm, smap;", "setp.lt.u32 %w0p, %thread, 32;")
    for scope in ("cta", "cluster", "gpu", "sys"):
        k.note(f"cp_fenceproxy and acquire of scope {scope}")
        k("setp.lt.u32 %dp, %thread, 16;", "mul.wide.u32 %t1, %thread, 8;", "add.u64 %t2, %map, %t1;",
          "@%dp ld.b64 %w0, [%t2];", "mad.lo.u32 %v2, %thread, 8, %sm;", "@%dp st.shared.b64 [%v2], %w0;",
          "bar.sync 0;", "@%w0p tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic"
          f".release.{scope}.sync.aligned [%gmap], [%sm], 128;", "bar.sync 0;")
        init(k, 1)
        clear(k)
        k(f"@%p fence.proxy.tensormap::generic.acquire.{scope} [%gmap], 128;",
          f"@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], {size};",
          "@%p cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes "
          "[%d], [%gmap, {8, 2}], [%b];")
        wait(k)
        read(k)
        inval(k)
