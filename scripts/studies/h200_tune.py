"""Fill the study of the best attention backend on an H200: two grids, the self-check, and two comparisons."""

from __future__ import annotations

import json
import lzma
import re
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from nsysprof.results.samples import OK
from nsysprof.units import format_ns, format_ratio
from scripts.studies.tables import ANALYSIS, machine, markdown

FOLDER = ANALYSIS / "h200-tune"
# The study shows none of these figures. They are neither kept nor in the reports.
_FIGURES = re.compile(r"^## Figures\n\n(!\[.*\]\(\S+\)\n\n?)*", re.MULTILINE)
_BENCHES = ("grid", "wider", "bench", "flex", "self-check")


def facts() -> dict[str, str]:
    """Return the numbers of the page. The folders are written from their samples by `refresh`."""
    winners = pd.concat([pd.read_csv(FOLDER / name / "winners.csv") for name in ("grid", "wider")], ignore_index=True)
    tables = {name: read_results(name) for name in ("grid", "wider", "bench", "flex")}
    header = {name: _header(name) for name in _BENCHES}
    grid, wider = tables["grid"], tables["wider"]
    return {
        **machine(header["grid"]["environment"]),
        "shapes": str(len(winners)),
        "ties": str((winners["verdict"] == "tie").sum()),
        "undecided": str((winners["verdict"] == "inconclusive").sum()),
        "won": str((winners["verdict"] == "winner").sum()),
        "auto_in_tie": str(sum("auto" in _names(row) for row in winners.to_dict("records"))),
        "grid_shapes": str(_shapes(grid)),
        "grid_cases": str(len(grid)),
        "grid_outcome": _outcome(pd.read_csv(FOLDER / "grid/winners.csv")),
        "grid_minutes": f"{_minutes('grid'):.1f}",
        "grid_error": f"{grid['largest_error'].max():.1g}",
        "against": _against(grid),
        "wider_shapes": str(_shapes(wider)),
        "wider_outcome": _outcome(pd.read_csv(FOLDER / "wider/winners.csv")),
        "wider_refused": str((wider["status"] == "ineligible").sum()),
        "wider_throttled": f"{100 * wider['throttled_samples'].sum() / wider['samples'].sum():.0f}",
        **_reached(wider),
        **_self_check(),
        **_do_bench(tables["bench"]),
        "explained": _explained(),
        **_flex(tables["flex"]),
        **_per_operation(grid),
    }


def read_results(name: str) -> pd.DataFrame:
    """Return the results of a bench of the study, which are packed where they are large."""
    (path,) = (FOLDER / name).glob("results.csv*")
    return pd.read_csv(path)


def _header(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lzma.decompress((FOLDER / name / "samples.json.xz").read_bytes()))
    return found


def _minutes(name: str) -> float:
    """Return the time from the first sample to the last (min)."""
    starts = [block["started_ns"] for block in _header(name)["blocks"] if block["status"] == OK]
    return (max(starts) - min(starts)) / 60e9


def _names(row: dict[Any, Any]) -> list[str]:
    return [row["backend"], *str(row["tied"]).split(", ")]


def _shapes(table: pd.DataFrame) -> int:
    return len(table) // table["backend"].nunique()


def _outcome(winners: pd.DataFrame) -> str:
    counts = winners["verdict"].value_counts()
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _against(grid: pd.DataFrame) -> str:
    """Return how many times as long as the fastest each backend takes."""
    rows = []
    for backend, own in grid.groupby("backend"):
        ratios = own["against_best"].fillna(1.0)
        shown, behind = ((own["verdict"] == verdict).sum() for verdict in ("slower", "far behind"))
        cells = [format_ratio(each) for each in (ratios.min(), ratios.median(), ratios.max())]
        rows.append((ratios.median(), (backend, *cells, f"{shown} of {len(own)}", f"{behind} of {len(own)}")))
    head = ("backend", "least", "median", "most", "shown to be slower", "far behind")
    return markdown(head, "lrrrrr", [row for _, row in sorted(rows)])


def _reached(wider: pd.DataFrame) -> dict[str, str]:
    """Return the most FLOP/s that a backend reaches, forward and with backward (TFLOP/s)."""
    found = {}
    for backend in ("cudnn", "flash"):
        for way in ("fwd", "fwdbwd"):
            own = wider[(wider["backend"] == backend) & (wider["pass"] == way)]
            found[f"{backend}_{way}"] = f"{own['flops_per_s'].max() / 1e12:.0f}"
            found[f"{backend}_{way}_pct"] = f"{own['measured_flops_pct'].max():.0f}"
    return found


def _self_check() -> dict[str, str]:
    text = (FOLDER / "self-check/report.md").read_text(encoding="utf-8")
    found = re.search(
        r"(\d+) pairs of the same code; called a difference: (\d+) \(.+? %\); shown to be the same: (\d+)", text
    )
    assert found is not None
    return dict(zip(("check_pairs", "check_alarms", "check_same"), found.groups(), strict=True))


def _do_bench(bench: pd.DataFrame) -> dict[str, str]:
    """Return how the medians of do_bench compare with those of bench, as do_bench.md has them."""
    text = (FOLDER / "do_bench.md").read_text(encoding="utf-8")
    ratios = pd.Series({name: float(ratio) for name, ratio in re.findall(r"^\| (\S+) .* ([\d.]+)x \|$", text, re.M)})
    assert set(ratios.index) == set(bench["case"])
    far = ratios[(ratios - 1).abs() > 0.05]
    return {
        "do_cases": str(len(ratios)),
        "do_median": f"{ratios.median():.3f}",
        "do_span": f"{ratios.min():.3f} to {ratios.max():.3f}",
        "do_near": str(int(((ratios - 1).abs() <= 0.02).sum())),
        "do_far": ", ".join(f"{name} ({ratio:.3f})" for name, ratio in far.items()),
    }


def _explained() -> str:
    """Return what explain says of each backend at head dimension 8192."""
    data = json.loads((FOLDER / "explain-head-dim-8192.json").read_text(encoding="utf-8"))
    rows = []
    for each in data["shapes"][0]["backends"]:
        ran, bounds = each["ran"], [f"{c['property']} {c['relation']} {c['bound']}" for c in each["constraints"]]
        total = sum(kernel["total_ns"] for kernel in ran["kernels"]) if ran["status"] == OK else None
        rows.append((each["backend"], "refused: " + ", ".join(bounds) if bounds else ran["family"], format_ns(total)))
    return markdown(("backend", "what ran", "kernel time"), "llr", rows)


def _flex(flex: pd.DataFrame) -> dict[str, str]:
    own = flex[flex["backend"].str.endswith(":flex")]
    rows = [
        (f"S={row.seq}, {row.pass_}", format_ns(row.median_ns), format_ns(row.graph_median_ns),
         format_ratio(row.against_best), row.verdict)
        for row in own.rename(columns={"pass": "pass_"}).itertuples()
    ]  # fmt: skip
    head = ("case", "one call", "as a CUDA graph", "against the fastest", "verdict")
    return {"flex": markdown(head, "lrrrl", rows)}


def _per_operation(grid: pd.DataFrame) -> dict[str, str]:
    """Return how the best backend's time and its operations grow from S=128 to 2048 at B=4, H=8."""
    best = grid[(grid["batch"] == 4) & (grid["heads"] == 8) & (grid["rank"] == 1)].set_index("seq")
    time = best.loc[2048, "median_ns"] / best.loc[128, "median_ns"]
    work = best.loc[2048, "flops"] / best.loc[128, "flops"]
    return {"longer": f"{time:.1f}", "more_work": f"{work:.0f}", "per_operation": f"{work / time:.0f}"}


def refresh() -> None:
    """Write results, winners, policies, figures and reports of the benches anew from their samples."""
    for name in _BENCHES:
        with tempfile.TemporaryDirectory() as scratch:
            made = Path(scratch) / name
            evaluate(name, made, figures=True)
            for path in (FOLDER / name).iterdir():
                packed = path.name == "results.csv.xz"
                source = made / ("results.csv" if packed else path.name)
                if source.exists():
                    content = source.read_bytes()
                    if path.name == "report.md":
                        content = _FIGURES.sub("", content.decode()).encode()
                    path.write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME) if packed else content)


def evaluate(name: str, made: Path, *, figures: bool) -> None:
    """Write into the new folder `made` what bench or tune leave of the samples of one folder of the study."""
    from nsysprof.app.measuring.bench import report_of, summarize
    from nsysprof.app.tune import write_tuning
    from nsysprof.capture.sampling.bench_run import read_run
    from nsysprof.report.pages.bench import write_bench

    made.mkdir()
    (made / "samples.json").write_bytes(lzma.decompress((FOLDER / name / "samples.json.xz").read_bytes()))
    run = read_run(made / "samples.json")
    results, command = summarize(run), f"nsysprof {run.kind}"
    if run.kind == "tune":
        write_tuning(run, results, made, command, figures=figures)
    else:
        write_bench(report_of(run, results, made, command), made, figures=figures)
