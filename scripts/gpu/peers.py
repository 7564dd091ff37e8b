# SPDX-License-Identifier: Apache-2.0
"""What a user of PyTorch runs today instead of barewarp's kernels, on one GPU.

  peers.py --output FILE [--tokens LIST] [--groups LIST] [--rows LIST] [--layers N]

Every peer gets operands from `barewarp make-input`, and its results are judged before it is
timed: those of WO-A by `barewarp compare`, with the bounds that hold for barewarp's own kernels;
those that compute less, and the others, against float64.  A peer that fails is reported with
its error and not timed.  JSON: {"peers": [{"family", "peer", "what", sizes, "us", ...}]}.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import traceback

import safetensors.torch
import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import timing
import wo_a_kernels as kernels

BAREWARP = os.environ.get("BAREWARP", "bin/barewarp")
HEADS, RANK = 8, 1024
LATENT, HIDDEN = 3584, 7168


def barewarp(*arguments):
    done = subprocess.run([BAREWARP, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"barewarp {arguments[0]}: {done.stderr}{done.stdout}")
    return done.stdout


def made(family, folder, **sizes):
    path = os.path.join(folder, "input.safetensors")
    options = [o for name, value in sizes.items() for o in ("--" + name.replace("_", "-"), value)]
    barewarp("make-input", family, "--output", path, *options)
    return path, {n: t.cuda() for n, t in safetensors.torch.load_file(path).items()}


# ---- WO-A -------------------------------------------------------------------------------------


class WoA:
    """Operands of one size; each peer is (what it computes, weights it rotates, a call)."""

    def __init__(self, tokens, groups, folder):
        self.tokens, self.groups = tokens, groups
        self.path, t = made("wo_a", folder, tokens=tokens, groups=groups, heads_per_group=HEADS,
                            lora_rank=RANK)
        self.x, self.positions, self.rope = t["x"], t["positions"], t["rope"]
        self.weight = t["weight"]
        self.weight_scale = t["weight_scale"].view(torch.uint8)
        heads, outputs = groups * HEADS, groups * RANK
        self.q = torch.empty(tokens, outputs, dtype=torch.float8_e4m3fn, device="cuda")
        self.qs = torch.zeros(outputs // 128, 512, dtype=torch.uint8, device="cuda")
        self.a = torch.empty(tokens, heads, 512, dtype=torch.float8_e4m3fn, device="cuda")
        self.a_scale = torch.empty(tokens, heads, 16, dtype=torch.uint8, device="cuda")
        self.a_wide = torch.empty(tokens, heads, 512, dtype=torch.bfloat16, device="cuda")
        self.largest = torch.empty(tokens, heads, device="cuda")
        self.y = torch.empty(groups, tokens, RANK, dtype=torch.bfloat16, device="cuda")

    def wide_weight(self):
        """The bf16 that the weights stand for, exactly."""
        factor = torch.exp2(self.weight_scale.float() - 127).repeat_interleave(32, 1)
        return (self.weight.float() * factor).to(torch.bfloat16)

    def before(self, mode):
        out = self.a if mode == 0 else self.a_wide
        kernels.before(self.x, self.positions, self.rope, out, self.a_scale, self.largest, mode)

    # Same function, weights widened to bf16 beforehand.
    def bf16(self, w):
        self.before(1)
        a = self.a_wide.view(self.tokens, self.groups, HEADS * 512).transpose(0, 1)
        torch.bmm(a, w.view(self.groups, RANK, HEADS * 512).transpose(1, 2), out=self.y)
        kernels.after(self.y, self.q, self.qs, 1, self.groups)

    # Same function, MXFP8 weights as they are, a grouped product in Triton.
    def mxfp8(self, w, parts, bn, bk, warps):
        self.before(0)
        kernels.grouped_mx(self.a, self.a_scale, w, self.weight_scale, self.partial, self.groups,
                           parts, bn, bk, warps)
        kernels.after(self.partial, self.q, self.qs, parts, self.groups)

    # One scale for a token and group and one for a weight row, instead of one for 32.
    def fp8_rows(self, w):
        self.before(2)
        kernels.row_quantize(self.a_wide, self.largest, self.a_rows, self.row_scale, self.groups)
        for g in range(self.groups):
            torch._scaled_mm(self.a_rows[g], w[g].t(), scale_a=self.row_scale[g].unsqueeze(1),
                             scale_b=self.weight_rows[g].unsqueeze(0), out_dtype=torch.bfloat16,
                             use_fast_accum=True, out=self.y_rows[g])
        kernels.after(self.y_rows, self.q, self.qs, 1, self.groups)

    def judge(self, folder):
        out = os.path.join(folder, "output.safetensors")
        safetensors.torch.save_file({"q": self.q.cpu(), "qs": self.qs.cpu()}, out)
        return barewarp("compare", "wo_a", "--input", self.path, "--output", out).strip()

    def copies(self, tensor):
        """The tensor, and as many others of its kind as it takes to leave the cache: rows
        shuffled, so that no two are the same."""
        flat = tensor.view(torch.uint8).reshape(-1, 512)
        others = timing.rotation(flat.numel()) - 1
        for _ in range(others):
            yield flat[torch.randperm(flat.shape[0], device="cuda")].view(tensor.dtype).view(
                tensor.shape)

    def run_bf16(self, folder):
        w = self.wide_weight()
        self.bf16(w)
        said = self.judge(folder)
        return said, timing.chain(self.bf16, [w, *self.copies(w)])

    def run_mxfp8(self, folder):
        best, said = None, ""
        every = [self.weight, *self.copies(self.weight)]
        for parts, bn, bk, warps in ((4, 64, 128, 4), (8, 64, 128, 4), (4, 128, 128, 4),
                                     (2, 64, 128, 4), (1, 64, 256, 4)):
            self.partial = torch.empty(parts, self.groups, self.tokens, RANK, device="cuda")
            self.mxfp8(self.weight, parts, bn, bk, warps)
            said = self.judge(folder)
            time = timing.chain(lambda w: self.mxfp8(w, parts, bn, bk, warps), every)
            if best is None or time["median"] < best["median"]:
                best = dict(time, config=[parts, bn, bk, warps])
        return said, best

    def run_fp8_rows(self, folder):
        k = HEADS * 512
        wide = self.wide_weight().view(self.groups, RANK, k).float()
        self.weight_rows = wide.abs().amax(2).clamp(min=1e-10) / 448
        w = (wide / self.weight_rows.unsqueeze(2)).to(torch.float8_e4m3fn)
        # cuBLAS takes no fewer than 16 rows of them.
        pitch = (self.tokens + 15) // 16 * 16
        self.a_rows = torch.ones(self.groups, pitch, k, device="cuda").to(torch.float8_e4m3fn)
        self.row_scale = torch.ones(self.groups, pitch, device="cuda")
        self.y_rows = torch.empty(self.groups, pitch, RANK, dtype=torch.bfloat16, device="cuda")
        self.fp8_rows(w)
        a = self.a_rows.double() * self.row_scale.double().unsqueeze(2)
        truth = torch.bmm(a, (w.double() * self.weight_rows.double().unsqueeze(2)).transpose(1, 2))
        # Fast accumulation keeps 13 bits or so.
        worst = float((self.y_rows.double() - truth).norm() / truth.norm())
        if not worst < 2e-2:
            raise RuntimeError(f"relative error {worst:.3g}")
        said = f"relative error {worst:.2e} of its own operands' product"
        return said, timing.chain(self.fp8_rows, [w, *self.copies(w)])


WO_A_PEERS = (
    ("bf16", "the same function; weights widened to bf16 beforehand, twice the bytes; Triton "
     "before and after, torch.bmm", WoA.run_bf16),
    ("mxfp8_triton", "the same function on MXFP8 weights; Triton throughout, tl.dot_scaled, the "
     "best of five tilings", WoA.run_mxfp8),
    ("fp8_rows", "less: one scale for a token and group and for a weight row instead of one for "
     "32; Triton before and after, torch._scaled_mm a group", WoA.run_fp8_rows),
)


def wo_a(report, tokens, groups, folder):
    for g in groups:
        for t in tokens:
            case = WoA(t, g, folder)
            for name, what, run in WO_A_PEERS:
                facts = dict(family="wo_a", peer=name, what=what, tokens=t, groups=g,
                             heads_per_group=HEADS, lora_rank=RANK)
                measured(report, facts, lambda: run(case, folder))
            del case
            torch.cuda.empty_cache()


# ---- up_proj and lamport_copy -------------------------------------------------------------------


def close_to(got, truth):
    """Two roundings to bf16 and a sum in f32 away from float64."""
    error = (got.double() - truth).abs()
    bound = truth.abs() * 2**-7 + truth.abs().mean() * 2**-7
    if not bool((error <= bound).all()):
        raise RuntimeError(f"off by {float((error / bound).max()):.2f} times the bound")
    return f"within {float((error / bound).max()):.2f} of the bound"


def up_proj(report, rows, folder):
    _, t = made("up_proj", folder, rows=max(rows), latent=LATENT, hidden=HIDDEN)
    for shard in (896, 448):
        first = t["weight"][:shard].contiguous()
        every = [first] + [first[torch.randperm(shard, device="cuda")]
                           for _ in range(timing.rotation(first.numel() * 2) - 1)]
        for m in rows:
            a, shared = t["latent"][:m], t["shared"][:m, :shard]
            box = torch.empty(m, HIDDEN, dtype=torch.bfloat16, device="cuda")
            truth = (a.double() @ first.double().t()).to(torch.bfloat16).double() + shared.double()

            def linear_add(w):
                torch.add(F.linear(a, w), shared, out=box[:, :shard])

            def addmm(w):
                box[:, :shard] = torch.addmm(shared, a, w.t())

            for name, what, call in (
                ("linear_add", "F.linear, then torch.add into a slice of wider rows", linear_add),
                ("addmm", "torch.addmm, then a copy into the slice; rounds once", addmm)):
                facts = dict(family="up_proj", peer=name, what=what, rows=m, tp=HIDDEN // shard,
                             latent=LATENT, hidden=HIDDEN)

                def run():
                    box.fill_(float("nan"))
                    call(first)
                    return close_to(box[:, :shard], truth), timing.chain(call, every)

                measured(report, facts, run)
    for m in rows:
        boxes = [torch.randn(m, HIDDEN, device="cuda").bfloat16() for _ in range(64)]
        out = torch.empty_like(boxes[0])
        facts = dict(family="lamport_copy", peer="copy", what="torch's copy: no polling, no "
                     "emptying", rows=m, hidden=HIDDEN)

        def run():
            out.copy_(boxes[0])
            assert torch.equal(out, boxes[0])
            return "equal", timing.chain(out.copy_, boxes)

        measured(report, facts, run)


# ---- whole layers ----------------------------------------------------------------------------------


def layers(report, count, rows, folder):
    """A graph of so many layers' WO-A (the bf16 peer), linear + add, and copy: what `barewarp
    bench layers` does with its own kernels."""
    _, t = made("up_proj", folder, rows=max(rows), latent=LATENT, hidden=HIDDEN)
    shard = 896
    first = t["weight"][:shard].contiguous()
    skinny = [first[torch.randperm(shard, device="cuda")] for _ in range(count)]
    for m in rows:
        case = WoA(m, 2, folder)
        wide = case.wide_weight()
        every = [wide[torch.randperm(wide.shape[0], device="cuda")] for _ in range(count)]
        a, shared = t["latent"][:m], t["shared"][:m, :shard]
        box = torch.empty(m, HIDDEN, dtype=torch.bfloat16, device="cuda")
        out = torch.empty_like(box)

        def layer(i):
            case.bf16(every[i])
            torch.add(F.linear(a, skinny[i]), shared, out=box[:, :shard])
            out.copy_(box)

        facts = dict(family="layers", peer="bf16 + linear_add + copy", what="parts as above",
                     rows=m, layers=count)

        def run():
            case.bf16(wide)
            said = case.judge(folder)
            time = timing.chain(layer, list(range(count)), least=count)
            return said, {k: v * count for k, v in time.items()}

        measured(report, facts, run)
        del case, every
        torch.cuda.empty_cache()


# ---- the program ------------------------------------------------------------------------------------


def measured(report, facts, run):
    try:
        facts["judged"], time = run()
        facts["us"] = time
        print("  ".join(f"{v}" for k, v in facts.items() if k not in ("what", "us", "judged")),
              f" {time['median']:.2f} us  ({facts['judged']})", flush=True)
    except Exception as error:  # one peer that does not run must not cost the others
        torch.cuda.synchronize()
        facts["failed"] = f"{type(error).__name__}: {error}"
        print(facts, flush=True)
        traceback.print_exc()
    report["peers"].append(facts)
    with open(report["output"], "w") as file:  # what there is, should this program be ended
        json.dump(report, file, indent=1)


def numbers(text):
    return [int(n) for n in text.split(",")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    parser.add_argument("--tokens", type=numbers, default=[1, 2, 4, 8, 16, 32, 64, 96])
    parser.add_argument("--groups", type=numbers, default=[2, 16])
    parser.add_argument("--rows", type=numbers, default=list(range(1, 9)))
    parser.add_argument("--layers", type=int, default=61)
    o = parser.parse_args()
    torch.manual_seed(0)
    properties = torch.cuda.get_device_properties(0)
    report = dict(device=properties.name, l2=properties.L2_cache_size, torch=torch.__version__,
                  cuda=torch.version.cuda, output=o.output, peers=[])
    with tempfile.TemporaryDirectory() as folder:
        up_proj(report, o.rows, folder)
        wo_a(report, o.tokens, o.groups, folder)
        layers(report, o.layers, [m for m in (1, 4, 8) if m in o.rows], folder)
    failed = [p for p in report["peers"] if "failed" in p]
    print(f"{len(report['peers']) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
