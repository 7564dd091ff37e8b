# SPDX-License-Identifier: Apache-2.0
"""The plot of results.py: drawn by matplotlib, looked at without it.

The PNG says of which data it was made: in a tEXt chunk "Source" it has the sha256 of all that it
shows.  So anyone can find out whether it is that of a file of results, and nobody has to draw it
again for that: other versions of matplotlib give other bytes.

h200.png was drawn by matplotlib 3.11.2:

  python3 -m venv DIR && DIR/bin/pip install matplotlib==3.11.2
  DIR/bin/python scripts/gpu/results.py plot tests/results/h200.json tests/results/h200.png
"""
import hashlib
import json
import struct
import sys
import zlib

KEYWORD = "Source"
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def digest(shown):
    text = json.dumps(shown, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# ---- reading ------------------------------------------------------------------------------------


def chunks(data):
    """(type, contents) of each chunk; ValueError if it is no whole PNG."""
    if data[:8] != SIGNATURE:
        raise ValueError("no PNG")
    at, kind = 8, b""
    while kind != b"IEND":
        if len(data) < at + 12:
            raise ValueError("the PNG ends early")
        size, kind = struct.unpack_from(">I4s", data, at)
        body, end = data[at + 8:at + 8 + size], at + 12 + size
        if len(data) < end or zlib.crc32(kind + body) != struct.unpack_from(">I", data, end - 4)[0]:
            raise ValueError(f"a broken chunk at byte {at}")
        yield kind, body
        at = end


def digest_in(path):
    """The digest of what the PNG shows, None if it has none."""
    with open(path, "rb") as file:
        found = [body.partition(b"\0") for kind, body in chunks(file.read()) if kind == b"tEXt"]
    texts = [text.decode("latin-1") for keyword, _, text in found if keyword == KEYWORD.encode()]
    return texts[0] if texts else None


# ---- drawing ------------------------------------------------------------------------------------

# By name of the curve: colours that also the colour-blind tell apart, barewarp's on top.
STYLES = {
    "wo_a, PDL": dict(color="#0050a0", linewidth=2.4, marker="o", markersize=5.5, zorder=4),
    "wo_a, no PDL": dict(color="#56a5e2", linewidth=1.8, marker="o", markersize=4.5, zorder=3),
    "floor": dict(color="#777777", linewidth=1.5, linestyle=(0, (4, 2.5))),
    "bf16 peer": dict(color="#d55e00", linewidth=1.8, marker="s", markersize=5.5),
    "MXFP8 peer": dict(color="#8a5a9e", linewidth=1.8, marker="^", markersize=6.5),
}
ROUND = [base * 10**power for power in range(-1, 5) for base in (1, 1.5, 2, 3, 4, 5, 7)]


def draw_panel(axes, panel):
    curves = panel["curves"]
    for name, points in curves.items():
        axes.plot(*zip(*points), label=name, **STYLES[name])
    tokens = sorted({t for points in curves.values() for t, _ in points})
    every = [time for points in curves.values() for _, time in points]
    low, high = min(every) * 0.85, max(every) * 1.15
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(tokens[0] * 0.88, tokens[-1] * 1.14)
    axes.set_ylim(low, high)
    axes.set_xticks(tokens, [str(t) for t in tokens])
    ticks = [t for t in ROUND if low <= t <= high]
    axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.tick_params(length=0, colors="#444444", labelsize=10)
    axes.grid(color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color("#999999")
    axes.set_title(panel["title"], fontsize=11, loc="left")
    axes.set_xlabel("tokens T", fontsize=10, color="#444444")


def draw(shown, target):
    try:
        import matplotlib
    except ImportError:
        sys.exit("drawing needs matplotlib; scripts/gpu/plot.py says how to get it")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(shown["panels"]), figsize=(10, 4.4), squeeze=False,
                                     layout="constrained")
    for axes, panel in zip(panels[0], shown["panels"]):
        draw_panel(axes, panel)
    panels[0][0].set_ylabel("µs a launch", fontsize=10, color="#444444")
    figure.suptitle(shown["title"], fontsize=13)
    lines = {line.get_label(): line for axes in panels[0] for line in axes.lines}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=len(lines),
                  frameon=False, fontsize=10.5)
    figure.savefig(target, format="png", dpi=130, metadata={KEYWORD: digest(shown)},
                   pil_kwargs={"optimize": True})
