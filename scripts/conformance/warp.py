# SPDX-License-Identifier: Apache-2.0
"""Warp instructions, control flow."""
from kernel import Kernel

# Ways to call a warp instruction: all lanes, and subsets that the mask names.
SUBSETS = (("all", "0xffffffff", None), ("even", "0x55555555", "even"), ("low", "0x0000ffff", "low"),
           ("lane5", "0x00000020", "lane5"))


def subset(k, name):
    """Sets %in_ for the lanes of a subset; the others skip the instruction."""
    if name == "even":
        k("and.b32 %e32, %lane, 1;", "setp.eq.u32 %inset, %e32, 0;")
    elif name == "low":
        k("setp.lt.u32 %inset, %lane, 16;")
    elif name == "lane5":
        k("setp.eq.u32 %inset, %lane, 5;")


def start(name, title, inputs):
    k = Kernel(name, "warp", title, inputs=inputs, grid=4, regs=".pred %inset; .b32 %lane")
    k("mov.u32 %lane, %laneid;")
    return k


def run(k, text, code, reg, width, zero):
    """The instruction by each subset of the lanes; lanes outside keep a given value."""
    for name, mask, pred in SUBSETS:
        k.note(f"{text}, lanes {name}")
        k(*zero)
        guard = "" if pred is None else "@%inset "
        if pred:
            subset(k, pred)
        k(*[guard + c.replace("MASK", mask) for c in code])
        for r, w in zip(reg, width):
            k.result("", r, w)


def make():
    k = start("shfl.sync", "shfl.sync{.up|.down|.bfly|.idx}.b32", "b32 small small")
    zero = ("mov.b32 %d32, 7;", "setp.ne.u32 %dp, %d32, 7;")
    k(".reg .b32 %even;", "and.b32 %even, %x1, 30;")
    for mode in ("up", "down", "bfly", "idx"):
        # Every clamp and segment with all lanes; subsets only so that sources are in them.
        for c in ("0x1f", "0", "0x1c1f", "0x1800", "0x0f1f", "0x1e03", "0x100f"):
            k.note(f"shfl.sync.{mode}.b32 d|p, a, b, {c}")
            k(f"shfl.sync.{mode}.b32 %d32|%dp, %x0, %x1, {c}, 0xffffffff;")
            k.result("", "%d32", 32)
            k.result("", "%dp", 1)
        for name, mask, b, c in (("even", "0x55555555", "%even", "0" if mode == "up" else "0x1f"),
                                 ("low", "0x0000ffff", "%x1", "0x1000" if mode == "up" else "0x101f"),
                                 ("lane5", "0x00000020", "0" if mode == "bfly" else "%x1", "0x1f1f")):
            k.note(f"shfl.sync.{mode}.b32 d|p, lanes {name}")
            k(*zero)
            subset(k, name)
            k(f"@%inset shfl.sync.{mode}.b32 %d32|%dp, %x0, {b}, {c}, {mask};")
            k.result("", "%d32", 32)
            k.result("", "%dp", 1)
        for b in (0, 1, 4, 16, 31, 33):
            k.note(f"shfl.sync.{mode}.b32 d, a, {b}, 31")
            k(f"shfl.sync.{mode}.b32 %d32, %x0, {b}, {0 if mode == 'up' else 31}, 0xffffffff;")
            k.result("", "%d32", 32)
        k.note(f"shfl.sync.{mode}.b32, clamp and segments from a register")
        k("shl.b32 %e32, %x2, 8;", "or.b32 %e32, %e32, 31;",
          f"shfl.sync.{mode}.b32 %d32|%dp, %x0, %x1, %e32, 0xffffffff;")
        k.result("", "%d32", 32)
        k.result("", "%dp", 1)
    k = start("vote.sync", "vote.sync{.all|.any|.uni}.pred, {.ballot}.b32", "p small")
    k(".reg .pred %q;")
    for source in ("%x0", "!%x0", "%q"):
        if source == "%q":
            k("setp.ne.u32 %q, %x1, 0xffff;")
        for mode in ("all", "any", "uni"):
            run(k, f"vote.sync.{mode}.pred of {source}", [f"vote.sync.{mode}.pred %dp, {source}, MASK;"],
                ("%dp",), (1,), ("setp.ne.u32 %dp, %lane, %lane;",))
        run(k, f"vote.sync.ballot.b32 of {source}", [f"vote.sync.ballot.b32 %d32, {source}, MASK;"],
            ("%d32",), (32,), ("mov.b32 %d32, 7;",))
    for w in (32, 64):
        k = start(f"match.sync.b{w}", f"match{{.any|.all}}.sync.b{w}", f"b{w} small")
        k(f".reg .b{w} %few;", f"and.b{w} %few, %x0, 3;")
        for source in ("%x0", "%few"):
            run(k, f"match.any.sync.b{w} of {source}", [f"match.any.sync.b{w} %d32, {source}, MASK;"],
                ("%d32",), (32,), ("mov.b32 %d32, 7;",))
        k(f"shr.u{w} %few, %few, 2;", f"setp.eq.u32 %dp, %x1, 3;", f"@%dp mov.b{w} %few, 1;")
        for source in ("%few",):
            run(k, f"match.all.sync.b{w} d|p of {source}",
                [f"match.all.sync.b{w} %d32|%dp, {source}, MASK;"], ("%d32", "%dp"), (32, 1),
                ("mov.b32 %d32, 7;", "setp.ne.u32 %dp, %lane, %lane;"))
            run(k, f"match.all.sync.b{w} d of {source}", [f"match.all.sync.b{w} %d32, {source}, MASK;"],
                ("%d32",), (32,), ("mov.b32 %d32, 7;",))
    k = start("activemask.b32", "activemask.b32", "b32")
    k.note("activemask.b32 of a whole warp")
    k("activemask.b32 %d32;")
    k.result("", "%d32", 32)
    k = start("elect.sync", "elect.sync: the leader, in every lane", "b32")
    # Which lane leads is open: every lane must name the same one, of the mask, and only that
    # one's predicate is true.  question.elect records the H200's choice.
    for name, mask, pred in SUBSETS:
        k.note(f"elect.sync d|p and _|p, lanes {name}: leaders, disagreements, leader in the mask")
        k("mov.b32 %d32, 0;", "setp.ne.u32 %dp, %lane, %lane;", "setp.ne.u32 %ep, %lane, %lane;")
        guard = "" if pred is None else "@%inset "
        if pred:
            subset(k, pred)
        else:
            k("setp.eq.u32 %inset, %lane, %lane;")
        k(f"{guard}elect.sync %d32|%dp, {mask};", f"{guard}elect.sync _|%ep, {mask};",
          "vote.sync.ballot.b32 %e32, %dp, -1;", "popc.b32 %e32, %e32;")
        k.result("", "%e32", 32)
        k("vote.sync.ballot.b32 %e32, %ep, -1;", "popc.b32 %e32, %e32;")
        k.result("", "%e32", 32)
        k("setp.eq.u32 %ep, %d32, %lane;", "and.pred %ep, %ep, %inset;", "xor.pred %ep, %ep, %dp;",
          "vote.sync.ballot.b32 %e32, %ep, -1;")
        k.result("", "%e32", 32)
        k(f"shr.u32 %e32, {mask}, %d32;", "and.b32 %e32, %e32, 1;", "setp.eq.u32 %ep, %e32, 1;",
          "not.pred %dp, %inset;", "or.pred %ep, %ep, %dp;",
          "vote.sync.all.pred %dp, %ep, -1;")
        k.result("", "%dp", 1)
    k = start("question.elect", "which lane elect.sync chooses", "b32")
    k.family = "open questions"
    k.directives = ["varies the emulated driver draws one, so that code which counts on a lane is found out"]
    for mask, cond in (("0xffffffff", "0xffffffff"), ("0xf0f0f000", "0xf0f0f000"), ("0x80000001", "0x80000001"),
                       ("0x7ffffffe", "0x7ffffffe")):
        k.note(f"elect.sync by the lanes {cond}")
        k("mov.b32 %d32, 77;", "setp.ne.u32 %dp, %lane, %lane;", f"shr.u32 %e32, {cond}, %lane;",
          "and.b32 %e32, %e32, 1;", "setp.ne.u32 %inset, %e32, 0;",
          f"@%inset elect.sync %d32|%dp, {mask};")
        k.result("", "%d32", 32)
        k.result("", "%dp", 1)
    for t in ("u32", "s32"):
        k = start(f"redux.sync.{t}", f"redux.sync{{.add|.min|.max}}.{t}", t)
        for op in ("add", "min", "max"):
            run(k, f"redux.sync.{op}.{t}", [f"redux.sync.{op}.{t} %d32, %x0, MASK;"], ("%d32",), (32,),
                ("mov.b32 %d32, 7;",))
    k = start("redux.sync.b32", "redux.sync{.and|.or|.xor}.b32", "b32")
    for op in ("and", "or", "xor"):
        run(k, f"redux.sync.{op}.b32", [f"redux.sync.{op}.b32 %d32, %x0, MASK;"], ("%d32",), (32,),
            ("mov.b32 %d32, 7;",))
    control()


def control():
    f = "control"
    k = Kernel("bra", f, "bra, bra.uni, predicated both ways, loops with divergent trip counts",
               inputs="b32 small", regs=".pred %p; .b32 %c")
    k.note("a loop of as many turns as the operand says")
    k("mov.b32 %d32, 1;", "mov.b32 %c, %x1;", "LOOP:", "setp.eq.u32 %p, %c, 0;", "@%p bra DONE;",
      "mad.lo.u32 %d32, %d32, 5, %x0;", "sub.u32 %c, %c, 1;", "bra.uni LOOP;", "DONE:")
    k.result("", "%d32", 32)
    k.note("if, else")
    k("and.b32 %c, %x0, 1;", "setp.ne.u32 %p, %c, 0;", "@!%p bra ELSE;", "add.u32 %d32, %x0, 100;",
      "bra JOIN;", "ELSE:", "sub.u32 %d32, %x0, 100;", "JOIN:")
    k.result("", "%d32", 32)
    k = Kernel("brx.idx", f, "brx.idx and brx.idx.uni", inputs="b32", regs=".b32 %c")
    k.note("brx.idx, lanes to four targets")
    k("and.b32 %c, %x0, 3;", "T: .branchtargets A0, A1, A2, A3;", "brx.idx %c, T;",
      "A0:", "mov.b32 %d32, 10;", "bra OUT;", "A1:", "mov.b32 %d32, 11;", "bra OUT;",
      "A2:", "mov.b32 %d32, 12;", "bra OUT;", "A3:", "mov.b32 %d32, 13;", "OUT:")
    k.result("", "%d32", 32)
    k.note("brx.idx.uni, one target for all")
    k("and.b32 %c, %block, 1;", "U: .branchtargets B0, B1;", "brx.idx.uni %c, U;",
      "B0:", "mov.b32 %d32, 20;", "bra OUT2;", "B1:", "mov.b32 %d32, 21;", "OUT2:")
    k.result("", "%d32", 32)
    k = Kernel("exit", f, "exit and ret of some lanes while others go on", inputs="b32",
               regs=".b32 %c; .pred %p")
    k.note("before anyone leaves")
    k.result("", "%x0", 32)
    k("and.b32 %c, %thread, 7;", "setp.eq.u32 %p, %c, 3;", "@%p exit;", "setp.eq.u32 %p, %c, 5;", "@%p ret;")
    k.note("lanes 3 and 5 of every eight keep the poison of the buffer")
    k.result("", "%x0", 32)
    k("setp.eq.u32 %p, %c, 6;", "@%p ret;")
    k.note("lane 6 too")
    k("activemask.b32 %d32;")
    k.result("", "%x0", 32)
    k("ret.uni;")
    k = Kernel("call", f, "call of functions, by value and through parameters", inputs="b32 b32",
               globals_=".func (.reg .b32 %r) twice(.reg .b32 %a)\n{\n  add.u32 %r, %a, %a;\n  ret;\n}\n"
               ".func (.param .b32 r) mix(.param .b32 a, .param .b32 b)\n{\n  .reg .b32 %u, %v;\n"
               "  .reg .pred %p;\n  ld.param.b32 %u, [a];\n  ld.param.b32 %v, [b];\n"
               "  setp.lt.u32 %p, %u, %v;\n  @%p bra SMALL;\n  sub.u32 %u, %u, %v;\n"
               "  st.param.b32 [r], %u;\n  ret.uni;\nSMALL:\n  mul.lo.u32 %u, %u, %v;\n"
               "  st.param.b32 [r], %u;\n  ret;\n}")
    k.note("call.uni with registers")
    k("call.uni (%d32), twice, (%x0);")
    k.result("", "%d32", 32)
    k.note("call with parameters")
    k("{", ".param .b32 p0; .param .b32 p1; .param .b32 q;", "st.param.b32 [p0], %x0;",
      "st.param.b32 [p1], %x1;", "call (q), mix, (p0, p1);", "ld.param.b32 %d32, [q];", "}")
    k.result("", "%d32", 32)
    k = Kernel("hints", f, "instructions without a result: nanosleep, pmevent, setmaxnreg, griddepcontrol",
               inputs="b32", block=128, bounds=".maxntid 128, 1, 1 .maxnreg 96")
    k.note("the operand, after them")
    k("setmaxnreg.dec.sync.aligned.u32 64;", "setmaxnreg.inc.sync.aligned.u32 96;",
      "nanosleep.u32 20;", "and.b32 %d32, %x0, 15;", "nanosleep.u32 %d32;", "pmevent 3;",
      "pmevent.mask 0x21;", "griddepcontrol.wait;", "griddepcontrol.launch_dependents;")
    k.result("", "%x0", 32)
    for name, code in (("trap", "CUDA_ERROR_LAUNCH_FAILED"), ("brkpt", "")):
        if name == "brkpt":
            continue
        k = Kernel(name, f, f"{name} ends the launch", inputs="b32", grid=1, block=32,
                   directives=[f"fails {code}"])
        k(f"{name};")
        k.result("", "%x0", 32)
