# SPDX-License-Identifier: Apache-2.0
"""What the documents leave open and an H200 can answer; the answers are in
tests/conformance/README.md."""
from kernel import Kernel
from matrix import descriptor
from sync import init, inval, wait

F = "open questions"


def make():
    base_offset()
    coordinates()
    lone_expect_tx()
    cluster_addresses()
    self_store()
    cluster_ranks()
    zero_products()


def base_offset():
    """A's 16-byte chunks hold their own number; B picks one column of chunks.

    D row m then tells which chunk the hardware read as the row's chunk, for each start
    address (128-byte steps from a 1024-byte boundary) and each base offset."""
    k = Kernel("question.base_offset", F, "the effect of a descriptor's base offset", grid=1, block=128,
               regs=".u32 %s, %b, %h, %c; .u64 %da, %db; .b32 %acc<4>; .pred %p; .b16 %one; .f32 %f",
               globals_=".shared .align 1024 .b8 a[12288];\n.shared .align 1024 .b8 b[512];")
    k("mov.u32 %s, a;", "mov.u32 %b, b;")
    k("// Chunk c of A: eight times the number c.")
    for j in range(6):
        k(f"add.u32 %c, %thread, {128 * j};", "cvt.rn.f32.u32 %f, %c;", "cvt.rn.f16.f32 %one, %f;",
          "mov.b32 %h, {%one, %one};", "mad.lo.u32 %c, %c, 16, %s;",
          "st.shared.v4.b32 [%c], {%h, %h, %h, %h};")
    k("// B, 8 rows of 16 k: ones at k = 0 for even n and k = 8 for odd n, else zero.")
    k("and.b32 %c, %thread, 31;", "mad.lo.u32 %c, %c, 8, %b;", "setp.lt.u32 %p, %thread, 32;", "@%p st.shared.b64 [%c], 0;", "bar.sync 0;",
      "setp.lt.u32 %p, %thread, 8;", "and.b32 %c, %thread, 1;", "mul.lo.u32 %c, %c, 128;",
      "mad.lo.u32 %c, %thread, 16, %c;", "add.u32 %c, %c, %b;", "mov.b16 %one, 0x3c00;",
      "@%p st.shared.b16 [%c], %one;", "fence.proxy.async.shared::cta;", "bar.sync 0;")
    descriptor(k, "%db", "%b", 128, 256)
    # A loop: ptxas 13.0 drops some of several wgmma that differ in their descriptors only.
    k(".reg .u32 %turn, %line, %base;", "mov.u32 %turn, 0;", "NEXT:", '.pragma "nounroll";',
      "shr.u32 %line, %turn, 3;", "and.b32 %base, %turn, 7;", "mad.lo.u32 %h, %line, 128, %s;",
      "shr.u32 %d32, %h, 4;", "and.b32 %d32, %d32, 0x3fff;", "or.b32 %d32, %d32, 0x10000;",
      "shl.b32 %base, %base, 17;", "or.b32 %base, %base, 0x40000040;", "mov.b64 %da, {%d32, %base};",
      "wgmma.fence.sync.aligned;",
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%acc0, %acc1, %acc2, %acc3}, "
      "%da, %db, 0, 1, 1, 0, 0;", "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;")
    for n in range(64):
        for half in (0, 1):
            k(f"// {2 * n + half}: start {128 * (n // 8)} bytes into the pattern, base offset {n % 8}, "
              f"rows {'8 to 15' if half else '0 to 7'} of each warp")
    k("// Row's first chunk (n even) in the low half, second (n odd) in the high half.")
    for r in (0, 2):
        k(f"cvt.rzi.u32.f32 %h, %acc{r};", f"cvt.rzi.u32.f32 %c, %acc{r + 1};",
          "shl.b32 %c, %c, 16;", "or.b32 %h, %h, %c;")
        k.result("", "%h", 32)
    k("add.u32 %turn, %turn, 1;", "setp.lt.u32 %p, %turn, 64;", "@%p bra NEXT;")
    k.results = 128


def coordinates():
    """Loads whose box begins at a first coordinate that is no multiple of 16 bytes, each alone:
    an H200 ends such a kernel."""
    from copy_ import REGS, SHARED, begin, map_address, tensor_load
    for c in (8, 1, 4, 12, -4, -8, 100):
        k = Kernel(f"question.tensor_coordinate.{str(c).replace('-', 'minus_')}", F,
                   f"a tensor load of 16-bit elements whose first coordinate is {c}", grid=1, block=256,
                   inputs="b64", regs=REGS, globals_=SHARED,
                   maps=["at=scratch rank=2 dims=64,20 strides=128 box=16,8 type=1"])
        begin(k)
        map_address(k)
        k.note(f"the box at {c}, 4")
        tensor_load(k, "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes",
                    f"{{{c}, 4}}", 256, 1)


def lone_expect_tx():
    k = Kernel("question.expect_tx", F, "an expect_tx that brings the count to zero with nothing pending",
               grid=1, block=32, regs=".u32 %b; .b64 %st; .pred %p",
               globals_=".shared .align 8 .b64 bar[1];")
    k("mov.u32 %b, bar;")
    init(k, 1)
    k("@%p mbarrier.complete_tx.shared::cta.b64 [%b], 16;",
      "@%p mbarrier.arrive.shared::cta.b64 _, [%b];", "bar.sync 0;")
    k.note("pending 0, tx -16: is phase 0 complete?")
    k("mbarrier.test_wait.parity.shared::cta.b64 %dp, [%b], 0;")
    k.result("", "%dp", 1)
    k("bar.sync 0;", "@%p mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], 16;", "bar.sync 0;")
    k.note("after expect_tx of 16: is it?")
    k("mbarrier.test_wait.parity.shared::cta.b64 %dp, [%b], 0;")
    k.result("", "%dp", 1)
    k("bar.sync 0;", "@%p mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], 16;",
      "@%p mbarrier.complete_tx.shared::cta.b64 [%b], 16;", "bar.sync 0;")
    k.note("after a further expect_tx and complete_tx: parity 0, then parity 1")
    for parity in (0, 1):
        k(f"mbarrier.test_wait.parity.shared::cta.b64 %dp, [%b], {parity};")
        k.result("", "%dp", 1)
    inval(k)


def cluster_addresses():
    k = Kernel("question.cluster_address", F, "shared::cluster addresses of the ranks of a cluster",
               grid=8, block=32, cluster=4, regs=".u32 %s, %r, %own; .u64 %g",
               globals_=".shared .align 16 .b32 word[4];")
    k("mov.u32 %s, word;", "mov.u32 %own, %cluster_ctarank;")
    for rank in range(4):
        k.note(f"mapa of rank {rank}, less the local address")
        k(f"mapa.shared::cluster.u32 %r, %s, {rank};", "sub.u32 %d32, %r, %s;")
        k.result("", "%d32", 32)
    k.note("mapa of the own rank, less the local address")
    k("mapa.shared::cluster.u32 %r, %s, %own;", "sub.u32 %d32, %r, %s;")
    k.result("", "%d32", 32)
    k.note("getctarank of the plain local address")
    k("getctarank.shared::cluster.u32 %d32, %s;")
    k.result("", "%d32", 32)
    k.note("the generic address of rank 1's word less the generic address of the own")
    k("cvt.u64.u32 %g, %s;", "cvta.shared.u64 %g, %g;", "mapa.u64 %t0, %g, 1;", "sub.u64 %e64, %t0, %g;")
    k.result("", "%e64", 64)


def self_store():
    k = Kernel("question.st_async_self", F, "st.async to the executing CTA itself, in a cluster of two",
               grid=2, block=32, cluster=2, inputs="b32",
               regs=".u32 %s, %b, %r, %own, %pb; .b64 %st; .pred %p",
               globals_=".shared .align 16 .b32 word[32];\n.shared .align 8 .b64 bar[1];")
    k("mov.u32 %s, word;", "mov.u32 %b, bar;", "mad.lo.u32 %s, %thread, 4, %s;",
      "mov.u32 %own, %cluster_ctarank;", "st.shared.b32 [%s], -1;")
    init(k, 1)
    k("@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 128;",
      "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;",
      "mapa.shared::cluster.u32 %r, %s, %own;", "mapa.shared::cluster.u32 %pb, %b, %own;",
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r], %x0, [%pb];")
    wait(k, "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64")
    k("ld.shared.b32 %d32, [%s];", "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
    k.note("what arrived")
    k.result("", "%d32", 32)


def cluster_ranks():
    k = Kernel("question.cluster_rank", F, "rank and coordinates in clusters of 2 x 2 x 2", grid="4,4,2",
               block=32, cluster="2,2,2", regs=".u32 %r")
    # The common head counts in x only: this kernel finds its own place.
    k("mov.u32 %i, %ctaid.z;", "mad.lo.u32 %i, %i, 4, 0;", "mov.u32 %r, %ctaid.y;",
      "add.u32 %i, %i, %r;", "mul.lo.u32 %i, %i, 4;", "mov.u32 %r, %ctaid.x;", "add.u32 %i, %i, %r;",
      "mad.lo.u32 %i, %i, 32, %thread;", "mov.u32 %count, 1024;", "mul.wide.u32 %step, %count, 8;",
      "mul.wide.u32 %d64, %i, 8;", "ld.param.u64 %out, [out];", "add.u64 %out, %out, %d64;")
    for r in ("cluster_ctarank", "cluster_ctaid.x", "cluster_ctaid.y", "cluster_ctaid.z", "clusterid.x",
              "clusterid.y", "clusterid.z", "ctaid.x", "ctaid.y", "ctaid.z", "cluster_nctarank"):
        k.op("mov.u32", "u32", [f"%{r}"])


def zero_products():
    """Does a product with a zero factor take part in the largest exponent?

    One product 0 * 2^e with e rising, one product 1 * 1 + 2^-10 steps: if the zero's
    exponent counts, small terms are cut away."""
    k = Kernel("question.zero_product", F, "a zero factor beside a large exponent", grid=1, block=32,
               regs=".b32 %v<4>, %a0, %b0, %c; .u32 %e, %q; .pred %p")
    k("// Lane q = lane % 4 holds k = 2q, 2q+1: k 0 is 0 * 2^e, k 2 is 1 * 1; C = 2^-20.")
    k("and.b32 %q, %thread, 3;", "mov.b32 %c, 0x35800000;")
    for t, one, bias, shift in (("f16", 0x3c00, 15, 10), ("bf16", 0x3f80, 127, 7)):
        for e in ((0, 4, 8, 15) if t == "f16" else (0, 8, 24, 60, 100, 127)):
            for side in ("a", "b"):
                big = (bias + e) << shift
                k.note(f"{t}: 0 in {'A' if side == 'a' else 'B'}, 2^{e} beside it, plus 1 * 1 + 2^-20")
                k("setp.eq.u32 %p, %q, 1;", f"selp.b32 %a0, {one:#x}, {0 if side == 'a' else big:#x}, %p;",
                  f"selp.b32 %b0, {one:#x}, {big if side == 'a' else 0:#x}, %p;",
                  "setp.gt.u32 %p, %q, 1;", "@%p mov.b32 %a0, 0;", "@%p mov.b32 %b0, 0;",
                  f"mma.sync.aligned.m16n8k8.row.col.f32.{t}.{t}.f32 {{%v0, %v1, %v2, %v3}}, "
                  "{%a0, %a0}, {%b0}, {%c, %c, %c, %c};")
                k.result("", "%v0", 32)
    k.note("no product but zeros with large partners, C a subnormal")
    k("mov.b32 %c, 0x00000123;", "mov.b32 %a0, 0;", "mov.b32 %b0, 0x7f007f00;",
      "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%v0, %v1, %v2, %v3}, {%a0, %a0}, {%b0}, "
      "{%c, %c, %c, %c};")
    k.result("", "%v0", 32)
