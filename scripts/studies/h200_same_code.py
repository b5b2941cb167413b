"""Fill the study of pairs of runs of the same code on an H200, with the verdicts of each kind on them."""

from __future__ import annotations

import json
import lzma
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from nsysprof.analysis.comparison.compare_latency import Settings, compare_latencies
from nsysprof.analysis.comparison.compare_turns import compare_in_turn
from nsysprof.analysis.comparison.gate.gate import judge, parse_gate
from nsysprof.analysis.sampling.bench import check_self
from nsysprof.app.inputs.compare_inputs import case_names, read_input
from nsysprof.capture.sampling.bench_run import BenchRun, read_run
from nsysprof.results.comparison import LatencyComparison
from scripts.calibration_rows import share_interval
from scripts.studies.tables import ANALYSIS, machine, markdown

FOLDER = ANALYSIS / "h200-same-code"
VERDICTS = FOLDER / "verdicts.csv"
_GATE = parse_gate("slower:3%")
_ALARMS = ("SLOWER", "FASTER", "regression", "told apart")
_NAMES = {
    "compare": "`compare` of two runs",
    "in turn": "both runs as turns",
    "bench": "two copies in one run",
    "gate of two runs": "gate `slower:3%`, two runs",
    "gate in turn": "gate `slower:3%`, as turns",
}


def facts() -> dict[str, str]:
    """Return the numbers of the page. The verdicts are written from the samples by `refresh`."""
    table, header = pd.read_csv(VERDICTS), _packed()[0]
    rows = []
    for family, name in _NAMES.items():
        own = table[table["family"] == family]
        told = own["verdict"].isin(_ALARMS)
        low, high = share_interval(int(told.sum()), len(own))
        others = own[~told]["verdict"].value_counts().sort_index()
        rows.append(
            (name, len(own), int(told.sum()), f"{100 * told.mean():.1f} %", f"{100 * low:.1f} to {100 * high:.1f} %",
             ", ".join(f"{verdict} {count}" for verdict, count in others.items()))
        )  # fmt: skip
    pairs = table[table["family"] == "compare"]
    any_alarm = pairs.assign(told=pairs["verdict"].isin(_ALARMS)).groupby("pair")["told"].any()
    low, high = share_interval(int(any_alarm.sum()), len(any_alarm))
    return {
        **machine(header["environment"]),
        "pairs": str(len(any_alarm)),
        "cases": str(pairs.groupby("pair")["case"].nunique().median()).removesuffix(".0"),
        "processes": str(header["plan"]["processes"]),
        "table": markdown(("family", "verdicts", "alarms", "share", "interval", "others"), "lrrrrl", rows),
        "apart": _apart(),
        "pairs_told": str(int(any_alarm.sum())),
        "pairs_interval": f"{100 * low:.1f} to {100 * high:.1f} %",
    }


def _apart() -> str:
    """Return how long after a process of the first run of a pair the one of the second run began (s)."""
    begins = [
        [min(block["started_ns"] for block in run["blocks"] if block["process"] == process)
         for process in range(run["plan"]["processes"])]
        for run in _packed()
    ]  # fmt: skip
    gaps = [
        (b - a) / 1e9 for one, two in zip(begins[::2], begins[1::2], strict=True) for a, b in zip(one, two, strict=True)
    ]
    return f"{min(gaps):.0f} to {max(gaps):.0f}"


def refresh() -> None:
    """Write the verdicts anew from the samples."""
    evaluate().to_csv(VERDICTS, index=False)


def evaluate() -> pd.DataFrame:
    """Return one row for each verdict: its family, pair, case, ratio and interval."""
    with tempfile.TemporaryDirectory() as work:
        folders = []
        for number, content in enumerate(_packed()):
            folder = Path(work) / f"run-{number:03d}"
            folder.mkdir()
            (folder / "samples.json").write_text(json.dumps(content), encoding="utf-8")
            folders.append(folder)
        rows = [
            row for pair in range(len(folders) // 2) for row in _judge_pair(pair, *folders[2 * pair : 2 * pair + 2])
        ]
    return pd.DataFrame(rows)


def _judge_pair(pair: int, first: Path, second: Path) -> Iterator[dict[str, Any]]:
    old, new = (read_input(folder, None, lambda _: None) for folder in (first, second))
    names = case_names((old, new))
    for family, found in (
        ("compare", compare_latencies([old.cases], [new.cases], names, Settings())),
        ("in turn", compare_in_turn(old.cases, new.cases, names, Settings())),
    ):
        for change in found.changes:
            yield {"family": family, "pair": pair, "case": change.case, "verdict": str(change.verdict),
                   "ratio": change.ratio, "low": change.low, "high": change.high}  # fmt: skip
        yield _gate_row("gate of two runs" if family == "compare" else "gate in turn", pair, found)
    for run in (first, second):
        yield from _judge_copies(pair, read_run(run / "samples.json"))


def _gate_row(family: str, pair: int, found: LatencyComparison) -> dict[str, Any]:
    (result,) = judge(_GATE, found, (), ())
    return {"family": family, "pair": pair, "case": "", "verdict": str(result.outcome)}


def _judge_copies(pair: int, run: BenchRun) -> Iterator[dict[str, Any]]:
    found = check_self(run.blocks, len(run.plan.cells), run.plan.copies)
    rest = found.pairs - found.alarms - found.same
    for verdict, count in (("told apart", found.alarms), ("tie", found.same), ("inconclusive", rest)):
        yield from ({"family": "bench", "pair": pair, "case": "", "verdict": verdict} for _ in range(count))


def _packed() -> list[dict[str, Any]]:
    """Return the samples.json of each run, in the order in which they were measured; two in a row are a pair."""
    found: list[dict[str, Any]] = json.loads(lzma.decompress((FOLDER / "runs.json.xz").read_bytes()))
    return found
