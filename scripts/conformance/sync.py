# SPDX-License-Identifier: Apache-2.0
"""Barriers, mbarriers, fences, cp.async."""
from kernel import Kernel, each, expand

SHARED = ".shared .align 16 .b32 data[512];\n.shared .align 8 .b64 bar[8];"
REGS = ".u32 %s, %b; .b64 %st; .pred %p; .b32 %v<4>; .u64 %a, %pol"


def swap(k, text, *sync):
    """Each thread writes its word; after the barrier it reads another warp's."""
    k.note(text)
    k("add.u32 %v1, %x0, %v3;", "st.shared.b32 [%s], %v1;", *sync, "ld.shared.b32 %d32, [%b];",
      "bar.sync 0;", "add.u32 %v3, %v3, 17;")
    k.result("", "%d32", 32)


def places(k):
    """%s: this thread's word; %b: that of the thread 96 further on, around."""
    k("mov.u32 %s, data;", "add.u32 %b, %thread, 96;", "and.b32 %b, %b, 255;",
      "mad.lo.u32 %b, %b, 4, %s;", "mad.lo.u32 %s, %thread, 4, %s;", "mov.b32 %v3, 1;")


def make():
    barriers()
    clusters()
    fences()
    mbarriers()
    cp_async()


def barriers():
    f = "barrier"
    k = Kernel("bar.sync", f, "bar.sync, bar.arrive, barrier.sync with constants and registers",
               inputs="b32", regs=REGS, globals_=SHARED)
    places(k)
    k("mov.b32 %v0, 3;", "mov.b32 %v2, 256;")
    for insn in ("bar.sync 0", "bar.cta.sync 1", "bar.sync 2, 256", "bar.sync %v0", "bar.sync %v0, %v2",
                 "barrier.sync.aligned 4", "barrier.cta.sync.aligned 5, 256", "barrier.sync 6",
                 "barrier.cta.sync 15, %v2"):
        swap(k, insn, insn + ";")
    for arrive in ("bar.arrive", "bar.cta.arrive", "barrier.arrive.aligned", "barrier.cta.arrive"):
        sync = "barrier.sync" if arrive.startswith("barrier") else "bar.sync"
        k.note(f"{arrive} by four warps, {sync} by the other four, which read")
        k("add.u32 %v1, %x0, %v3;", "setp.lt.u32 %p, %thread, 128;", "mov.b32 %d32, 0;",
          "@%p st.shared.b32 [%s], %v1;", f"@%p {arrive} 7, 256;", f"@!%p {sync} 7, 256;",
          "sub.u32 %v1, %s, 512;", "@!%p ld.shared.b32 %d32, [%v1];", "bar.sync 0;",
          "add.u32 %v3, %v3, 1;")
        k.result("", "%d32", 32)
    k = Kernel("bar.red", f, "bar.red and barrier.red: popc, and, or", inputs="p", regs=REGS)
    k("mov.b32 %v0, 3;", "mov.b32 %v2, 256;", "setp.gt.u32 %p, %thread, 300;")
    for head in ("bar", "bar.cta", "barrier", "barrier.cta"):
        for al in ("",) if head.startswith("bar.") or head == "bar" else (".aligned", ""):
            for args in ("0", "%v0, %v2", "2, 256"):
                k.note(f"{head}.red.popc{al}.u32 {args}")
                k(f"{head}.red.popc{al}.u32 %d32, {args}, %x0;")
                k.result("", "%d32", 32)
                for op in ("and", "or"):
                    for c in ("%x0", "!%x0", "%p"):
                        k.note(f"{head}.red.{op}{al}.pred {args} of {c}")
                        k(f"{head}.red.{op}{al}.pred %dp, {args}, {c};")
                        k.result("", "%dp", 1)
    k = Kernel("bar.warp.sync", f, "bar.warp.sync of all lanes and of some", inputs="b32", regs=REGS,
               globals_=SHARED)
    places(k)
    k.note("the neighbour's word")
    k("st.shared.b32 [%s], %x0;", "bar.warp.sync 0xffffffff;", "xor.b32 %b, %s, 4;",
      "ld.shared.b32 %d32, [%b];")
    k.result("", "%d32", 32)
    k.note("by the low 16 lanes, the mask in a register")
    k("and.b32 %v0, %thread, 31;", "setp.lt.u32 %p, %v0, 16;", "mov.b32 %v1, 0xffff;",
      "bar.warp.sync -1;", "add.u32 %d32, %x0, 9;", "@%p st.shared.b32 [%s], %d32;",
      "@%p bar.warp.sync %v1;", "@%p ld.shared.b32 %d32, [%b];")
    k.result("", "%d32", 32)


def clusters():
    k = Kernel("barrier.cluster", "cluster barrier", "barrier.cluster.arrive, .wait, all orders",
               inputs="b32", regs=REGS + "; .b32 %r, %peer", globals_=SHARED, cluster=4, grid=8)
    k("mov.u32 %s, data;", "mad.lo.u32 %s, %thread, 4, %s;", "mov.u32 %r, %cluster_ctarank;",
      "add.u32 %r, %r, 1;", "and.b32 %r, %r, 3;", "mapa.shared::cluster.u32 %peer, %s, %r;",
      "mov.b32 %v3, 1;")
    for arrive in expand("barrier.cluster.arrive[.release|.relaxed][.aligned]"):
        for wait in expand("barrier.cluster.wait[.acquire][.aligned]"):
            fence = "fence.acq_rel.cluster;" if "relaxed" in arrive else ""
            k.note(f"{arrive}; {wait}: the next CTA's word")
            k("add.u32 %v1, %x0, %v3;", "st.shared.b32 [%s], %v1;", fence, arrive + ";", wait + ";",
              "ld.shared::cluster.b32 %d32, [%peer];", "barrier.cluster.arrive.aligned;",
              "barrier.cluster.wait.aligned;", "add.u32 %v3, %v3, 17;")
            k.result("", "%d32", 32)


def fences():
    f = "fence and hint"
    k = Kernel("fence", f, "fences of every order and scope: another warp's word after a barrier",
               inputs="b32", regs=REGS, globals_=SHARED)
    places(k)
    for insn in (expand("fence[.sc|.acq_rel|.acquire|.release]{.cta|.cluster|.gpu|.sys}") +
                 expand("membar{.cta|.gl|.sys}") +
                 ["fence.proxy.alias", "fence.mbarrier_init.release.cluster",
                  "fence.acquire.sync_restrict::shared::cluster.cluster",
                  "fence.release.sync_restrict::shared::cta.cluster",
                  "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
                  "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster"] +
                 expand("fence.proxy.async[.global|.shared::cta|.shared::cluster]") +
                 expand("fence.proxy.tensormap::generic.release{.cta|.cluster|.gpu|.sys}") +
                 ["membar.proxy.alias"]):
        swap(k, insn, insn + ";", "bar.sync 0;")
    k = Kernel("prefetch", f, "prefetch, createpolicy, applypriority, discard: no effect on values",
               inputs="b32", regs=REGS, grid=1)
    k("mul.wide.u32 %t0, %i, 128;", "add.u64 %a, %scratch, %t0;", "st.global.b32 [%a], %x0;",
      "cvta.to.global.u64 %a, %a;")
    for insn in (expand("prefetch.global{.L1|.L2}") + ["prefetch.L1", "prefetch.L2"] +
                 expand("prefetch.global{.L2::evict_last|.L2::evict_normal}") + ["prefetchu.L1"]):
        k.note(insn)
        k(f"{insn} [%a];", "ld.global.b32 %d32, [%a];")
        k.result("", "%d32", 32)
    for insn in ("applypriority.global.L2::evict_normal [%a], 128", "applypriority.L2::evict_normal [%a], 128"):
        k.note(insn)
        k(f"{insn};", "ld.global.b32 %d32, [%a];")
        k.result("", "%d32", 32)
    for insn in each("createpolicy.fractional{.L2::evict_last|.L2::evict_normal|.L2::evict_first|"
                     ".L2::evict_unchanged}[.L2::evict_first|.L2::evict_unchanged].b64"):
        for frac in (", 0.25", ""):
            k.note(insn)
            k(f"{insn} %pol{frac};" if frac else f"{insn} %pol;",
              "ld.global.L2::cache_hint.b32 %d32, [%a], %pol;")
            k.result("", "%d32", 32)
    for insn in each("createpolicy.range.global{.L2::evict_last|.L2::evict_normal|.L2::evict_first|"
                     ".L2::evict_unchanged}[.L2::evict_first|.L2::evict_unchanged].b64"):
        k.note(insn)
        k(f"{insn} %pol, [%scratch], 0x10000, 0x20000;",
          "ld.global.L2::cache_hint.b32 %d32, [%a], %pol;")
        k.result("", "%d32", 32)
    k.note("discard.global.L2, then a store")
    k("discard.global.L2 [%a], 128;", "discard.L2 [%a], 128;", "st.global.b32 [%a], %x0;",
      "ld.global.b32 %d32, [%a];")
    k.result("", "%d32", 32)


# Gives up after many turns, so that a wrong count shows as a wrong result, not as a hang.
WAIT = """{{
.reg .pred %done;
.reg .u32 %turns;
mov.u32 %turns, {turns};
AGAIN{n}:
{wait} %done, {args};
sub.u32 %turns, %turns, 1;
setp.ne.and.u32 %done, %turns, 0, !%done;
@%done bra AGAIN{n};
}}"""


def wait(k, insn="mbarrier.try_wait.parity.shared::cta.b64", args="[%b], 0"):
    k.waits = getattr(k, "waits", 0) + 1
    turns = 1000000 if "test_wait" in insn else 2000
    k(*WAIT.format(n=k.waits, wait=insn, args=args, turns=turns).split("\n"))


def init(k, count, bar="%b"):
    k("setp.eq.u32 %p, %thread, 0;", f"@%p mbarrier.init.shared::cta.b64 [{bar}], {count};",
      "bar.sync 0;")


def inval(k, bar="%b"):
    k("bar.sync 0;", "setp.eq.u32 %p, %thread, 0;", f"@%p mbarrier.inval.shared::cta.b64 [{bar}];",
      "bar.sync 0;")


def mbarriers():
    f = "mbarrier"
    k = Kernel("mbarrier.arrive", f, "mbarrier arrive and wait forms: another warp's word",
               inputs="b32", regs=REGS, globals_=SHARED)
    k("mov.u32 %v2, bar;")
    bars = "%v2"
    k("mov.u32 %s, data;", "mad.lo.u32 %s, %thread, 4, %s;", "mov.b32 %v3, 1;", ".reg .u32 %peer;",
      "xor.b32 %peer, %thread, 96;", "mov.u32 %b, data;", "mad.lo.u32 %peer, %peer, 4, %b;",
      f"mov.u32 %b, {bars};")

    def phase(text, arrive, waiting, args, count=256):
        k.note(text)
        init(k, count)
        k("add.u32 %v1, %x0, %v3;", "st.shared.b32 [%s], %v1;", *arrive)
        wait(k, waiting, args)
        if "relaxed" in waiting:
            k("fence.acq_rel.cluster;")
        k("ld.shared.b32 %d32, [%peer];", "add.u32 %v3, %v3, 17;")
        inval(k)
        k.result("", "%d32", 32)

    for sem in ("", ".release.cta", ".release.cluster"):
        for sp in ("", ".shared", ".shared::cta"):
            for w in ("try_wait", "test_wait"):
                if sp == "":
                    continue
                phase(f"mbarrier.arrive{sem}{sp}, {w}", [f"mbarrier.arrive{sem}{sp}.b64 %st, [%b];"],
                      f"mbarrier.{w}{sp}.b64", "[%b], %st")
    for w in expand("mbarrier{.try_wait|.test_wait}[.acquire.cta|.acquire.cluster].shared::cta.b64"):
        phase(f"{w}", ["mbarrier.arrive.shared::cta.b64 %st, [%b];"], w, "[%b], %st")
        phase(f"{w} of a parity", ["mbarrier.arrive.shared::cta.b64 _, [%b];"],
              w.replace("_wait", "_wait.parity"), "[%b], 0")
    for w in expand("mbarrier{.try_wait|.test_wait}.relaxed{.cta|.cluster}.shared::cta.b64"):
        phase(f"{w}, then a fence", ["mbarrier.arrive.shared::cta.b64 %st, [%b];"], w, "[%b], %st")
    phase("try_wait with a time", ["mbarrier.arrive.shared::cta.b64 %st, [%b];"],
          "mbarrier.try_wait.shared::cta.b64", "[%b], %st, 1000")
    phase("try_wait.parity with a time", ["mbarrier.arrive.shared::cta.b64 %st, [%b];"],
          "mbarrier.try_wait.parity.shared::cta.b64", "[%b], 0, 1000")
    phase("arrive with a count", ["mbarrier.arrive.shared::cta.b64 %st, [%b], 3;"],
          "mbarrier.try_wait.shared::cta.b64", "[%b], %st", 768)
    phase("arrive.relaxed after a fence",
          ["fence.acq_rel.cta;", "mbarrier.arrive.relaxed.cta.shared::cta.b64 %st, [%b];"],
          "mbarrier.try_wait.shared::cta.b64", "[%b], %st")
    phase("arrive.expect_tx and complete_tx",
          ["mbarrier.arrive.expect_tx.shared::cta.b64 %st, [%b], 16;",
           "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 16;"],
          "mbarrier.try_wait.shared::cta.b64", "[%b], %st")
    phase("expect_tx, arrive and complete_tx, cluster scope",
          ["mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%b], 64;",
           "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%b];",
           "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%b], 64;"],
          "mbarrier.try_wait.parity.shared::cta.b64", "[%b], 0")
    phase("expect_tx.shared::cta", ["mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], 8;",
                                    "mbarrier.arrive.shared::cta.b64 %st, [%b];",
                                    "mbarrier.complete_tx.shared::cta.b64 [%b], 8;"],
          "mbarrier.try_wait.shared::cta.b64", "[%b], %st")
    phase("arrive.expect_tx.relaxed",
          ["fence.acq_rel.cta;", "mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 _, [%b], 4;",
           "mbarrier.complete_tx.shared::cta.b64 [%b], 4;"],
          "mbarrier.try_wait.parity.shared::cta.b64", "[%b], 0")
    phase("arrive.expect_tx.release.cluster.shared::cluster",
          ["mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%b], 4;",
           "mbarrier.complete_tx.shared::cluster.b64 [%b], 4;"],
          "mbarrier.try_wait.parity.shared::cta.b64", "[%b], 0")
    k("cvt.u64.u32 %a, %b;", "cvta.shared.u64 %a, %a;")
    phase("init and arrive at a generic address", ["mbarrier.arrive.b64 %st, [%a];"],
          "mbarrier.try_wait.b64", "[%a], %st")
    phase("arrive.expect_tx, complete_tx at a generic address",
          ["mbarrier.arrive.expect_tx.release.cta.b64 %st, [%a], 4;",
           "mbarrier.complete_tx.shared::cta.b64 [%b], 4;"],
          "mbarrier.test_wait.b64", "[%a], %st")
    more(f)
    state(f)


def more(f):
    """arrive_drop, noComplete, pending_count: counts of later phases."""
    k = Kernel("mbarrier.drop", f, "mbarrier.arrive_drop, .noComplete, pending_count", grid=4,
               block=64, inputs="b32", regs=REGS + "; .b64 %st2", globals_=SHARED)
    k("mov.u32 %b, bar;")
    for drop in ("mbarrier.arrive_drop.shared::cta.b64 %st, [%b];",
                 "mbarrier.arrive_drop.release.cta.shared::cta.b64 %st, [%b];",
                 "mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%b];",
                 "mbarrier.arrive_drop.shared::cta.b64 %st, [%b], 1;",
                 "mbarrier.arrive_drop.relaxed.cta.shared::cta.b64 %st, [%b];",
                 "mbarrier.arrive_drop.expect_tx.shared::cta.b64 %st, [%b], 8;",
                 "mbarrier.arrive_drop.expect_tx.relaxed.cta.shared::cta.b64 %st, [%b], 8;"):
        k.note(f"{drop} by half of the threads; the next phase needs only the others")
        init(k, 64)
        k("setp.lt.u32 %p, %thread, 32;", "@%p " + drop,
          "@!%p mbarrier.arrive.shared::cta.b64 %st, [%b];")
        if "expect_tx" in drop:
            k("@%p mbarrier.complete_tx.shared::cta.b64 [%b], 8;")
        wait(k, args="[%b], 0")
        k("bar.sync 0;", "mov.b32 %d32, 0;", "@!%p mbarrier.arrive.shared::cta.b64 %st, [%b];")
        wait(k, args="[%b], 1")
        k("mbarrier.test_wait.parity.shared::cta.b64 %dp, [%b], 1;")
        inval(k)
        k.result("", "%dp", 1)
    k.note("arrive.noComplete and pending_count of its state")
    k("setp.eq.u32 %p, %thread, 0;", "mov.b64 %st, 0;", "mov.b32 %d32, 0;", "mov.b32 %e32, 0;",
      "mov.b32 %v0, 0;",
      "@%p mbarrier.init.shared::cta.b64 [%b], 9;",
      "@%p mbarrier.arrive.noComplete.shared::cta.b64 %st, [%b], 2;",
      "@%p mbarrier.pending_count.b64 %d32, %st;",
      "@%p mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %st, [%b], 3;",
      "@%p mbarrier.pending_count.b64 %e32, %st;",
      "@%p mbarrier.arrive_drop.noComplete.shared::cta.b64 %st, [%b], 1;",
      "@%p mbarrier.pending_count.b64 %v0, %st;",
      "@%p mbarrier.inval.shared::cta.b64 [%b];", "bar.sync 0;")
    for r in ("%d32", "%e32", "%v0"):
        k.result("", r, 32)
    k.note("arrive.noComplete.shared at the default space, arrive_drop.noComplete.release.cta")
    k("@%p mbarrier.init.shared.b64 [%b], 5;",
      "@%p mbarrier.arrive.noComplete.shared.b64 %st, [%b], 1;",
      "@%p mbarrier.arrive_drop.noComplete.release.cta.shared::cta.b64 %st, [%b], 1;",
      "@%p mbarrier.pending_count.b64 %d32, %st;", "@%p mbarrier.inval.shared.b64 [%b];",
      "bar.sync 0;")
    k.result("", "%d32", 32)


def state(f):
    """What test_wait says of each parity as phases pass."""
    k = Kernel("mbarrier.phases", f, "mbarrier.test_wait of both parities, phase by phase", grid=1,
               block=32, inputs="b32", regs=REGS, globals_=SHARED)
    k("mov.u32 %b, bar;")
    init(k, 1)
    for n in range(4):
        for parity in (0, 1):
            k.note(f"after {n} phases, test_wait.parity {parity}")
            k(f"mbarrier.test_wait.parity.shared::cta.b64 %dp, [%b], {parity};")
            k.result("", "%dp", 1)
        k("bar.sync 0;", "setp.eq.u32 %p, %thread, 0;",
          "@%p mbarrier.arrive.shared::cta.b64 %st, [%b];", "bar.sync 0;")
    k.note("arrive by a remote CTA's thread: its own address in the cluster window")
    inval(k)
    k.result("", "%x0", 32)


def cp_async():
    f = "asynchronous copy, not bulk"
    k = Kernel("cp.async", f, "cp.async of every size, source size, cache operator and hint",
               inputs="b64 b64", grid=2, regs=REGS + "; .u32 %d; .b32 %n4",
               globals_=".shared .align 16 .b8 into[4096];\n.shared .align 8 .b64 bar[1];")
    k("mov.u32 %d, into;", "mad.lo.u32 %d, %thread, 16, %d;", "mul.wide.u32 %t0, %i, 16;",
      "add.u64 %a, %scratch, %t0;", "st.global.v2.b64 [%a], {%x0, %x1};",
      "createpolicy.fractional.L2::evict_first.b64 %pol, 1.0;", "mov.b32 %n4, 4;")

    def copy(insn, args, size, end=("cp.async.wait_all;",)):
        k.note(f"{insn} {args}")
        k("st.shared.v2.b64 [%d], {-1, -1};", f"{insn} [%d], [%a], {args};", *end)
        for i in range(2):
            k(f"ld.shared.b64 %e64, [%d+{8 * i}];")
            k.result("", "%e64", 64)

    for size in (4, 8, 16):
        copy("cp.async.ca.shared.global", f"{size}", size)
        copy("cp.async.ca.shared::cta.global", f"{size}, %n4", size)
        for src in range(0, size + 1, 1 if size == 4 else 3):
            copy("cp.async.ca.shared.global", f"{size}, {src}", size)
    copy("cp.async.cg.shared.global", "16", 16)
    copy("cp.async.cg.shared::cta.global", "16, 8", 16)
    for hint in (".L2::64B", ".L2::128B", ".L2::256B"):
        copy(f"cp.async.cg.shared.global{hint}", "16", 16)
        copy(f"cp.async.ca.shared.global{hint}", "4", 4)
    copy("cp.async.ca.shared.global.L2::cache_hint", "8, %pol", 8)
    copy("cp.async.cg.shared.global.L2::cache_hint", "16, 12, %pol", 16)
    copy("cp.async.cg.shared.global.L2::cache_hint.L2::128B", "16, %n4, %pol", 16)
    k("and.b32 %n4, %thread, 1;", "setp.eq.u32 %p, %n4, 1;")
    copy("cp.async.ca.shared.global", "8, %p", 8)
    copy("cp.async.cg.shared.global", "16, !%p", 16)
    k("setp.eq.u32 %p, %thread, 0;", "mov.u32 %b, bar;")
    copy("cp.async.ca.shared.global", "16", 16,
         ("cp.async.commit_group;", "cp.async.wait_group 0;"))
    k.note("two groups, wait_group 1: the first is there")
    k("st.shared.v2.b64 [%d], {-1, -1};", "bar.sync 0;", "cp.async.ca.shared.global [%d], [%a], 8;",
      "cp.async.commit_group;", "cp.async.ca.shared.global [%d+8], [%a+8], 8;",
      "cp.async.commit_group;", "cp.async.wait_group 1;", "ld.shared.b64 %e64, [%d];")
    k.result("", "%e64", 64)
    k("cp.async.wait_group 0;", "ld.shared.b64 %e64, [%d+8];")
    k.result("", "%e64", 64)
    for insn, count in (("cp.async.mbarrier.arrive.noinc.shared::cta.b64", 256),
                        ("cp.async.mbarrier.arrive.noinc.shared.b64", 256),
                        ("cp.async.mbarrier.arrive.shared::cta.b64", 256),
                        ("cp.async.mbarrier.arrive.b64", 256)):
        k.note(insn)
        init(k, count)
        k("st.shared.v2.b64 [%d], {-1, -1};", "cp.async.ca.shared.global [%d], [%a], 16;")
        if insn.endswith("arrive.b64"):
            k("cvt.u64.u32 %t1, %b;", "cvta.shared.u64 %t1, %t1;", f"{insn} [%t1];")
        else:
            k(f"{insn} [%b];")
        if "noinc" not in insn:
            k("mbarrier.arrive.shared::cta.b64 %st, [%b];")
        wait(k)
        k("xor.b32 %v0, %d, 16;", "ld.shared.b64 %e64, [%v0];")
        inval(k)
        k.result("", "%e64", 64)
