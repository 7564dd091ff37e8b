# SPDX-License-Identifier: Apache-2.0
"""Results of `gpu.sh bench`, kept and shown.

  results.py merge OUT FILE.json      one file of what a run left in OUT; where that had one GPU,
                                      steps of several stay as FILE had them, with their date;
                                      so do peers and families that the run had no time for
  results.py readme FILE.json README  writes the tables between the marks in README
  results.py plot FILE.json FILE.png  time of wo_a over T, against the floor and the peers; this
                                      alone needs matplotlib (see plot.py)
  results.py check FILE.json README   fails if the README has others, or FILE.png shows others

Ratios are of one run: the peer's time over barewarp's.
"""
import json
import os
import sys

sys.dont_write_bytecode = True  # it also runs in trees that are to stay as they are
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import plot  # noqa: E402

BEGIN, END = "<!-- results: scripts/gpu/results.py -->", "<!-- /results -->"


# ---- one file -----------------------------------------------------------------------------------


def short(times):
    """Three digits behind the point are more than a clock gives."""
    return {k: round(v, 3) if isinstance(v, float) else v for k, v in times.items()}


def of_several_gpus(row):
    return row["family"] == "step" and (row.get("mode") == "peers" or "peer" in row)


def same_peer(one, other):
    """Whether both time the same thing."""
    facts = ("family", "peer", "rows", "tp", "tokens", "groups", "hidden", "layers")
    return all(one.get(k) == other.get(k) for k in facts)


def keep_older(result, target):
    """Steps of several GPUs from an earlier run, if this one has none; peers and whole families
    that it lacks."""
    if not os.path.exists(target):
        return
    older = json.load(open(target))
    several = any(map(of_several_gpus, result["rows"]))
    families = {row["family"] for row in result["rows"]}
    for part in ("rows", "peers"):
        for row in older[part]:
            if of_several_gpus(row):
                keep = not several
            elif part == "peers":
                keep = not any(same_peer(row, r) for r in result["peers"])
            else:
                keep = row["family"] not in families
            if keep:
                result[part].append({**row, "date": row.get("date", older["date"])})
    if "torch" in older:
        result.setdefault("torch", older["torch"])
    if "nccl" in older and not several:
        result.setdefault("nccl", older["nccl"])


def merge(folder, target):
    def load(name):
        path = os.path.join(folder, name + ".json")
        return json.load(open(path)) if os.path.exists(path) else None

    first = load("wo_a")
    result = {k: first[k] for k in ("device", "arch", "driver_version", "ptxas", "date",
                                    "replays", "rotates_through_bytes",
                                    "read_rate_bytes_per_second")}
    result["empty_us"] = {w: short(t) for w, t in first["empty_us"].items()}
    result["rows"], result["peers"] = [], []
    for name in ("wo_a", "up_proj", "lamport_copy", "step", "step_peers", "layers", "host"):
        for row in (load(name) or {"rows": []})["rows"]:
            for times in ("us", "floor_us"):
                if times in row:
                    row[times] = (short(row[times]) if "median" in row[times] else
                                  {w: short(t) for w, t in row[times].items()})
            row["read_share"] = round(row.get("read_share", 0), 3)
            result["rows"].append(row)
    for name in ("peers", "nccl"):
        part = load(name)
        if part is None:
            continue
        result.update({k: part[k] for k in ("torch", "nccl") if k in part})
        for peer in part["peers"]:
            if "us" in peer:
                peer["us"] = short(peer["us"])
            result["peers"].append(peer)
    keep_older(result, target)
    with open(target, "w") as file:
        rows = ",\n".join("  " + json.dumps(r) for r in result.pop("rows"))
        peers = ",\n".join("  " + json.dumps(r) for r in result.pop("peers"))
        head = json.dumps(result, indent=1)[:-2]
        file.write(f'{head},\n "rows": [\n{rows}\n ],\n "peers": [\n{peers}\n ]\n}}\n')


# ---- looking things up ------------------------------------------------------------------------------


def select(among, **facts):
    return [r for r in among if all(r.get(k) == v for k, v in facts.items())]


def ours(result, **facts):
    """(without PDL, best of all, its name, floor at best) of a row, or None."""
    rows = select(result["rows"], **facts)
    if not rows:
        return None
    row = rows[0]
    best = measured(row, row["us"][row["best"]]["median"])
    floor = min((t["median"] for t in row.get("floor_us", {}).values()), default=None)
    return measured(row, row["us"]["none"]["median"]), best, row["best"], floor


class OfEarlierRun(float):
    """A time that another run measured: shown with a star."""


def measured(row, time):
    return OfEarlierRun(time) if "date" in row and not of_several_gpus(row) else time


def star(value):
    return "\\*" if isinstance(value, OfEarlierRun) else ""


def peer(result, **facts):
    rows = [r for r in select(result["peers"], **facts) if "us" in r]
    if not rows:
        return None
    return measured(rows[0], rows[0]["us"]["median"])


def number(value):
    if value is None:
        return "–"
    return (f"{value:.0f}" if value >= 1000 else f"{value:.2f}") + star(value)


def ratio(theirs, own):
    theirs = [t for t in theirs if t is not None]
    return f"{min(theirs) / own:.1f}×{star(min(theirs)) or star(own)}" if theirs else "–"


def values(result, family, name):
    return sorted({r[name] for r in select(result["rows"], family=family)})


# ---- tables ------------------------------------------------------------------------------------------


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]


WAYS = {"none": "none", "entry": "entry", "after_wait": "after the wait", "late": "late"}


def wo_a_table(result, groups):
    rows, never, measured = [], [], []
    for t in values(result, "wo_a", "tokens"):
        facts = dict(family="wo_a", tokens=t, groups=groups, heads_per_group=8)
        own = ours(result, **facts)
        if own is None:
            continue
        theirs = [peer(result, peer=p, **facts) for p in ("bf16", "mxfp8_triton", "fp8_rows")]
        none, best, way, floor = own
        rows.append([t, number(none), number(best), WAYS[way], number(floor),
                     *map(number, theirs), ratio(theirs[:2], best), ratio(theirs[:2], none)])
        same = [p for p in theirs[:2] if p is not None]
        measured += [str(t)] if same else []
        if same and best > min(same):
            never.append(t)
    head = ["T", "no PDL", "PDL", "trigger", "floor", "bf16", "MXFP8", "fp8 by rows",
            "ratio, PDL", "ratio, no PDL"]
    said = (f"From T = {never[0]} on a peer is faster." if never else
            f"No peer that computes the same is faster at T = {', '.join(measured)}.")
    return [f"`wo_a`, G = {groups} groups of 8 heads, 1024 rows each. {said}", "",
            *table(head, rows), ""]


def up_proj_table(result, tp):
    rows, never = [], []
    for m in values(result, "up_proj", "rows"):
        facts = dict(family="up_proj", rows=m, tp=tp, hidden=7168)
        own = ours(result, mode="local", **facts)
        if own is None:
            continue
        none, best, way, floor = own
        theirs = [peer(result, peer=p, **facts) for p in ("linear_add", "addmm")]
        rows.append([m, number(none), number(best), WAYS[way], number(floor), *map(number, theirs),
                     ratio(theirs, best), ratio(theirs, none)])
        if any(p is not None and p < best for p in theirs):
            never.append(m)
    head = ["M", "no PDL", "PDL", "trigger", "floor", "linear + add", "addmm",
            "ratio, PDL", "ratio, no PDL"]
    said = f"From M = {never[0]} on a peer is faster." if never else "No peer is faster."
    return [f"`up_proj`, S = {7168 // tp}, stored to one rank. {said}", "", *table(head, rows), ""]


def copy_table(result):
    rows = []
    for m in values(result, "lamport_copy", "rows"):
        own = ours(result, family="lamport_copy", rows=m)
        theirs = peer(result, family="lamport_copy", rows=m)
        rows.append([m, number(own[0]), number(own[1]), number(theirs)])
    return ["`lamport_copy`, 7168 columns, the rows already there; beside it a copy that neither "
            "polls nor empties.", "", *table(["M", "no PDL", "PDL", "copy"], rows), ""]


def of_day(row):
    return f" (run of {row['date'][:10]}, kernels of that day)" if "date" in row else ""


def step_table(result):
    steps = [r for r in select(result["rows"], family="step", mode="peers")]
    rows = []
    for row in steps:
        facts = dict(family="step", rows=row["rows"], tp=row["tp"])
        none, best, way, _ = ours(result, mode="peers", **facts)
        whole = peer(result, peer="linear_allgather_add", **facts)
        alone = peer(result, peer="allgather_add", **facts)
        rows.append([row["rows"], number(none), number(best), WAYS[way], number(whole),
                     number(alone), ratio([whole], best)])
    if not rows:
        return []
    head = ["M", "no PDL", "PDL", "trigger", "linear + NCCL all-gather + add",
            "all-gather + add alone", "ratio"]
    return [f"A step of {steps[0]['tp']} GPUs, S = 896 columns each: `up_proj` and `lamport_copy` "
            "in mode `peers`; the slowest rank" + of_day(steps[0]) + ".", "", *table(head, rows), ""]


def layers_table(result):
    rows = []
    for row in select(result["rows"], family="layers"):
        none, best, way, _ = ours(result, family="layers", rows=row["rows"])
        theirs = peer(result, family="layers", rows=row["rows"])
        rows.append([row["rows"], number(none), number(best), WAYS[way], number(theirs),
                     ratio([theirs], best)])
    if not rows:
        return []
    layers = select(result["rows"], family="layers")[0]["layers"]
    return [f"A whole decode step: {layers} layers' `wo_a` (G = 2, T = M), `up_proj` (S = 896) and "
            "`lamport_copy` in one graph, every weight cold; against bf16 WO-A, linear + add and "
            "copy. Microseconds a step.", "",
            *table(["M", "no PDL", "PDL", "trigger", "peers", "ratio"], rows), ""]


def host_table(result):
    rows = [[r["what"], number(r["us"]["median"])]
            for r in select(result["rows"], family="host")]
    return ["What calls cost on the CPU, microseconds.", "", *table(["call", "median"], rows), ""]


def text_of(result, png):
    tera = result["read_rate_bytes_per_second"] * 1e-12
    empty = result["empty_us"]
    lines = [
        f"{result['device']}, CUDA driver {result['driver_version'] // 1000}."
        f"{result['driver_version'] % 1000 // 10}, ptxas {result['ptxas'].split()[0]}, PyTorch "
        f"{result.get('torch', '–')}, {result['date'][:10]}; reading alone {tera:.2f} TB/s, an empty "
        f"launch {empty['none']['median']:.2f} µs. Microseconds a launch, medians; ratios are the "
        "fastest peer's time (of those that compute the same) over ours in a PDL chain and without "
        "PDL. *Floor*: CTAs that only fetch the weights. *bf16*: Triton before and after, weights "
        "widened beforehand, `torch.bmm`. *MXFP8*: Triton throughout (`tl.dot_scaled`). *fp8 by "
        "rows* computes less: one scale for a weight row instead of one for 32 columns. Peers run "
        "without PDL, as PyTorch launches them. What has a star is of an earlier run.", "",
        f"![time of wo_a over T]({png})", ""]
    for groups in values(result, "wo_a", "groups"):
        lines += wo_a_table(result, groups)
    for tp in values(result, "up_proj", "tp"):
        lines += up_proj_table(result, tp)
    lines += copy_table(result) + step_table(result) + layers_table(result) + host_table(result)
    return "\n".join(lines).rstrip() + "\n"


def split(readme):
    text = open(readme).read()
    before, rest = text.split(BEGIN + "\n")
    inside, after = rest.split(END)
    return before, inside, after


# ---- the plot -------------------------------------------------------------------------------------------


def plotted(result):
    """All that the plot shows: times of wo_a over T, a panel for each G, the first two."""
    panels = []
    for groups in values(result, "wo_a", "groups")[:2]:
        curves = {}
        for t in values(result, "wo_a", "tokens"):
            facts = dict(family="wo_a", tokens=t, groups=groups, heads_per_group=8)
            own = ours(result, **facts)
            if own is None:
                continue
            times = {"wo_a, PDL": own[1], "wo_a, no PDL": own[0], "floor": own[3],
                     "bf16 peer": peer(result, peer="bf16", **facts),
                     "MXFP8 peer": peer(result, peer="mxfp8_triton", **facts)}
            for name, time in times.items():
                if time is not None:
                    curves.setdefault(name, []).append((t, time))
        panels.append({"title": f"G = {groups} groups of 8 heads, 1024 rows each",
                       "curves": curves})
    return {"title": f"Time of wo_a, {result['device']}", "panels": panels}


def plot_of(source):
    return os.path.splitext(source)[0] + ".png"


def stale(result, source):
    """What is wrong with the plot beside the file; None: nothing."""
    png = plot_of(source)
    try:
        found = plot.digest_in(png)
    except (OSError, ValueError) as error:
        return f"{png}: {error}"
    if found != plot.digest(plotted(result)):
        return f"{png} shows other results than {source}: scripts/gpu/results.py plot {source} {png}"
    return None


# ---- the program --------------------------------------------------------------------------------------------


def main(arguments):
    if len(arguments) != 3 or arguments[0] not in ("merge", "readme", "check", "plot"):
        sys.exit(__doc__)
    what, source, target = arguments
    if what == "merge":
        return merge(source, target)
    result = json.load(open(source))
    if what == "plot":
        return plot.draw(plotted(result), target)
    text = text_of(result, plot_of(source))
    before, inside, after = split(target)
    if what == "check":
        wrong = stale(result, source)
        if inside != text:
            wrong = (f"{target} has other results than {source}: "
                     f"scripts/gpu/results.py readme {source} {target}")
        sys.exit(wrong)
    with open(target, "w") as file:
        file.write(before + BEGIN + "\n" + text + END + after)


if __name__ == "__main__":
    main(sys.argv[1:])
