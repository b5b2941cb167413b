"""Draw the processor time of `nsysprof analyze`, `nsys stats` and a bare SQLite scan over the size of the trace.

    scripts/bench.py sizes             draw docs/speed.png from analysis/speed/sizes.json
    scripts/bench.py sizes --measure   measure traces of 10 thousand to 1 million kernels before (about ten minutes)
    scripts/bench.py sizes --measure --kernels 10000000

The traces are of a training whose ranges nest four deep; scripts/bench.py analyze makes them and times the programs,
each once. `nsys stats` is the sum of the four reports that hold what one analysis holds. Processor time is drawn,
because other programs on the machine change it less than wall time.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from scripts.benches.machine import ROOT, SPEED, bench_analyze, load_now, write_measured

SIZES, PLOT = SPEED / "sizes.json", ROOT / "docs" / "speed.png"
FIRST, LAST = 10_000, 1_000_000
_PEERS = "nsys stats"
# Of Okabe and Ito: blue, vermilion and black.
_LINES = {
    "nsysprof analyze --no-figures": ("nsysprof analyze", "#0072B2"),
    _PEERS: ("nsys stats, four reports", "#D55E00"),
    "bare scan": ("bare scan of two tables", "#000000"),
}


def main() -> int:
    """Parse, measure if asked to, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="measure first, and write what was measured")
    parser.add_argument("--kernels", type=int, default=LAST, help="kernels of the largest trace (default a million)")
    parser.add_argument("--nsys", type=Path, help="the nsys to compare with (default: as in scripts/bench.py analyze)")
    arguments = parser.parse_args()
    if arguments.measure:
        write_measured(SIZES, measure(arguments.kernels, arguments.nsys))
    draw(json.loads(SIZES.read_text(encoding="utf-8")), PLOT)
    print(f"wrote {PLOT}")
    return 0


def measure(kernels: int, nsys: Path | None) -> dict[str, Any]:
    """Return the timings of each size, and what they were measured on."""
    found: dict[str, Any] = {"machine": "", "load": load_now(), "sizes": []}
    count = FIRST
    while count <= kernels:
        told = bench_analyze(count, "--runs", "1", *(["--nsys", str(nsys)] if nsys else []))
        (shape,) = told["shapes"]
        found["machine"] = told["machine"]
        found["sizes"].append({"kernels": shape["trace"]["kernels"], "timings": shape["timings"]})
        count *= 10
    return found


def seconds(measured: dict[str, Any]) -> dict[str, list[tuple[int, float]]]:
    """Return the points (kernels, seconds of processor time) of each line; the reports of a peer are added up."""
    found: dict[str, list[tuple[int, float]]] = {name: [] for name in _LINES}
    for size in measured["sizes"]:
        total = dict.fromkeys(_LINES, 0.0)
        for timing in size["timings"]:
            total[_PEERS if timing["name"].startswith(_PEERS) else timing["name"]] += timing["cpu_s"]
        for name, took in total.items():
            if took:
                found[name].append((size["kernels"], took))
    return found


def draw(measured: dict[str, Any], target: Path) -> None:
    """Write the plot, both axes logarithmic."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), dpi=120, layout="constrained")
    for name, points in seconds(measured).items():
        if points:
            label, colour = _LINES[name]
            axes.plot(*zip(*points, strict=True), marker="o", color=colour, label=label)
    axes.set(xscale="log", yscale="log", xlabel="kernels in the trace", ylabel="processor time (s)")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(frameon=False)
    axes.set_title(f"Ranges nested four deep; {measured['machine']}", fontsize=9)
    figure.savefig(target, metadata={"Software": None})
    pyplot.close(figure)
