#!/usr/bin/env python3
"""Compare the findings about planted faults with what each fault really costs.

    scripts/prove_findings.py [--write analysis/h200-faults/README.md]

Reads traces/h200-faults: a training with one fault each (scripts/programs/train_llama.py), FSDP with a slow rank
(scripts/programs/train_fsdp.py), the time of their steps without a profiler, and the lines that stacks named. The true
cost of a fault is the median step with it less the median step without it, in each process that measured both in turn.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import shutil
import sqlite3
import statistics
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.app.inputs.reading_requests import WhatIfRequest
from nsysprof.app.whatif import read_arrivals, what_if
from nsysprof.ranks.collective_waits.stragglers import judged_collectives
from nsysprof.ranks.identity import find_sources
from nsysprof.results.findings import Finding, Findings
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from scripts.studies.tables import template, unpacked

ROOT = Path(__file__).resolve().parents[1]
TRACES = ROOT / "traces/h200-faults"
# The code and the range of the finding that each fault has to become.
EXPECTED = {
    "pageable-copy": ("pageable-copy", "load"),
    "sync": ("sync", "optimizer"),
    "unfused-attention": ("unfused-attention", "forward"),
    "unfused-optimizer": ("unfused-optimizer", "optimizer"),
    "alloc-in-loop": ("alloc-in-loop", "optimizer"),
    "sleeping-loader": ("host-bound", "load"),
    "small-kernels": ("launch-bound", "small"),
    "stream-dependency": ("stream-dependency", "prepare"),
}
# What the program does instead where the finding advises more than to leave the fault out.
REMEDIES = {"small-kernels": "small-graph", "stream-dependency": "stream-beside", "none": "clean"}
# What is found about busy time is the program's own: analysis/h200-busy proves it.
OF_THE_PROGRAM = ("unfused-elementwise", "large-logits")
# Other sizes of the training with all faults.
OTHER_SIZES = {"seq512": "batch 32 of 512 tokens, 8 layers", "seq2048": "batch 8 of 2,048 tokens, 6 layers"}
RANKS = 2
FSDP_STEPS = 24
MOST_OFF_PCT = 15


@dataclass(frozen=True)
class Cost:
    """What a fault costs in each process (ms), and what a step with it takes."""

    step_ms: float
    of_process: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.of_process)

    @property
    def spread(self) -> float:
        return max(self.of_process) - min(self.of_process)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="write the study there")
    options = parser.parse_args()
    text = study()
    print(text)
    if options.write:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(text, encoding="utf-8")
    return 0


def study() -> str:
    """Return the study as Markdown."""
    times = json.loads((TRACES / "step_times.json").read_text(encoding="utf-8"))
    lines = [row(fault, *expected, times["train_llama"]) for fault, expected in EXPECTED.items()]
    lines.append(row("none", "sync", "forward", times["train_llama_clean"]))
    lines += [whole_row("all", times["train_llama"]), fsdp_row(times["train_fsdp"])]
    lines += ["", "| program | step, ms | findings, the largest saving first |", "|---|--:|---|"]
    for name, each in (("clean", "train_llama_clean"), ("none", "train_llama"), ("all", "train_llama")):
        step = statistics.median(itertools.chain(*times[each][name]))
        lines.append(f"| {name} | {step:.1f} | {named(name)} |")
    if "train_llama_left_out" in times:
        each = times["train_llama"]
        alone = {fault: true_cost(each[fault], each[REMEDIES.get(fault, "none")]) for fault in EXPECTED}
        lines += order_in_all(findings_of("all"), times["train_llama_left_out"], alone)
    counts = counts_among_all(findings_of("all"), times["train_llama_left_out"])
    for size, what in OTHER_SIZES.items():
        found, left_out = findings_of(f"{size}-all"), times[f"train_llama_left_out_{size}"]
        lines += order_in_all(found, left_out, None, f"fault among all, {what}")
        counts += counts_among_all(found, left_out)
    first, *later = copies_ms("all")
    return template("h200-faults").format(
        rows="\n".join(lines), most_off=MOST_OFF_PCT, first=first, least=min(later), most=max(later),
        without=by_nsys("none"), **counts,
    )  # fmt: skip


def copies_ms(name: str) -> list[float]:
    """Return how long the largest copy of a trace takes in each step (ms)."""
    with unpacked(TRACES / f"{name}.sqlite.xz") as path, contextlib.closing(sqlite3.connect(path)) as trace:
        rows = trace.execute(
            "SELECT end - start FROM CUPTI_ACTIVITY_KIND_MEMCPY "
            "WHERE bytes = (SELECT max(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY) ORDER BY start"
        ).fetchall()
    return [ns / 1e6 for (ns,) in rows]


def order_in_all(
    found: Findings, times: dict[str, list[list[float]]], alone: dict[str, Cost] | None, head: str = "fault among all"
) -> list[str]:
    """Return what each fault costs among all others, and its finding there, the most expensive first.

    times: of steps with all faults (`all`), and with all but one (`without-FAULT`), as `train_llama --in-turn
    --leave-out` takes them. alone: what each fault costs by itself, where that was measured.
    """
    costs = costs_among_all(times)
    lines = [
        "",
        f"| {head} | true cost, ms |{'' if alone is None else ' alone, ms |'} finding's place | predicted, ms "
        "| off, % of step | within |",
        f"|---|--:|{'' if alone is None else '--:|'}--:|--:|--:|---|",
    ]
    for fault, cost in sorted(costs.items(), key=lambda each: -each[1].median):
        item = placed(found, fault)
        saving = 0.0 if item is None else item.saving_ns / 1e6
        told = "not found" if item is None else str(item.rank)
        bounds = "" if item is None else f" [{item.saving_low_ns / 1e6:.1f}, {item.saving_high_ns / 1e6:.1f}]"
        lines.append(
            f"| {fault} | {cost_text(cost)} |{'' if alone is None else f' {alone[fault].median:.1f} |'} {told} "
            f"| {saving:.1f}{bounds} | {judge(saving, cost)} |"
        )
    return lines


def costs_among_all(times: dict[str, list[list[float]]]) -> dict[str, Cost]:
    """Return what each fault costs among all others."""
    return {fault: true_cost(times["all"], times[f"without-{fault}"]) for fault in EXPECTED}


def placed(found: Findings, fault: str) -> Finding | None:
    """Return the finding of a fault: the one in its range, else the first of its code."""
    of_code = [item for item in found.items if item.code == EXPECTED[fault][0]]
    return next((item for item in of_code if item.range == EXPECTED[fault][1]), next(iter(of_code), None))


def counts_among_all(found: Findings, times: dict[str, list[list[float]]]) -> Counter[str]:
    """Return how many findings are as the costs of their faults are.

    decided: pairs of faults whose ranges of costs do not overlap; right: those with findings in the same order. found:
    faults with a finding; overlapping: those whose interval overlaps the range of the costs.
    """
    costs = costs_among_all(times)
    items = {fault: placed(found, fault) for fault in EXPECTED}
    predicted = {fault: 0 if item is None else item.saving_ns for fault, item in items.items()}
    decided = [
        (one, other)
        for one, other in itertools.permutations(EXPECTED, 2)
        if min(costs[one].of_process) > max(costs[other].of_process)
    ]
    overlapping = [
        fault
        for fault, item in items.items()
        if item is not None
        and item.saving_low_ns / 1e6 <= max(costs[fault].of_process)
        and min(costs[fault].of_process) <= item.saving_high_ns / 1e6
    ]
    return Counter(
        right=sum(predicted[one] > predicted[other] for one, other in decided),
        decided=len(decided),
        overlapping=len(overlapping),
        found=sum(item is not None for item in items.values()),
    )


def row(fault: str, code: str, where: str, times: dict[str, list[list[float]]]) -> str:
    """Return the row of one fault, from the times of its steps and of those without it."""
    found = findings_of(fault)
    cost = true_cost(times[fault], times[REMEDIES.get(fault, "none")])
    place = next((n for n, item in enumerate(found.items, start=1) if (item.code, item.range) == (code, where)), None)
    if place is None:
        told = f"`{code}` in `{where}` | not found | | | no | | {by_nsys(fault)}"
        return f"| {fault} | {cost.step_ms:.1f} | {cost_text(cost)} | {told} |"
    item = found.items[place - 1]
    bounds = (item.saving_low_ns / 1e6, item.saving_high_ns / 1e6)
    saving = f"{item.saving_ns / 1e6:.1f} [{bounds[0]:.1f}, {bounds[1]:.1f}]"
    judged = judge(item.saving_ns / 1e6, cost)
    line = f"`{line_of(fault, code, where)}`" if line_of(fault, code, where) else ""
    return (
        f"| {fault} | {cost.step_ms:.1f} | {cost_text(cost)} | `{code}` in `{where}` | {place} | {saving} | {judged} "
        f"| {line} | {by_nsys(fault)} |"
    )


def by_nsys(name: str) -> str:
    """Return what the rules of `nsys analyze` name in a trace."""
    counts = json.loads((ROOT / "analysis/h200-busy/nsys_rules.json").read_text(encoding="utf-8"))
    return ", ".join(f"{rule} {count}" for rule, count in counts[f"{TRACES.name}/{name}"].items()) or "nothing"


def whole_row(name: str, times: dict[str, list[list[float]]]) -> str:
    """Return the row of all faults together."""
    together = findings_of(name).together_ns / 1e6
    cost = true_cost(times[name], times["none"])
    told = f"{together:.1f} | {judge(together, cost)}"
    return f"| {name} | {cost.step_ms:.1f} | {cost_text(cost)} | together | | {told} | | {by_nsys(name)} |"


def fsdp_row(times: dict[str, list[list[float]]]) -> str:
    """Return the row of a job with a slow rank. Its warm-up is not judged."""
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(RANKS):
            shutil.copy(TRACES / f"fsdp_rank{rank}.sqlite.xz", Path(folder) / f"rank{rank}.sqlite.xz")
        found = what_if(WhatIfRequest(Path(folder), like_peers=0)).found
        steps = FSDP_STEPS * judged_share(Path(folder))
    answer = found.answers[0]
    saving, low, high = (
        (found.replayed_ns - each) / 1e6 / steps for each in (answer.step_ns, answer.high_ns, answer.low_ns)
    )
    cost = true_cost(times["slow"], times["even"])
    told = f"{saving:.1f} [{low:.1f}, {high:.1f}] | {judge(saving, cost)} | | {by_nsys('fsdp_rank0')}"
    return f"| FSDP, slow rank | {cost.step_ms:.1f} | {cost_text(cost)} | rank 0 | 1 | {told} |"


def judged_share(job: Path) -> float:
    """Return the share of a job's collectives that is judged."""
    with tempfile.TemporaryDirectory() as work:
        arrived, _ = read_arrivals(find_sources([job], None), Path(work))
    assert arrived is not None
    first, last = judged_collectives(arrived) or (0, 0)
    return (last - first) / arrived.begin_ns.shape[1]


def true_cost(faulty: list[list[float]], clean: list[list[float]]) -> Cost:
    """Return what a fault costs, from the times of steps (ms) of each process."""
    each = tuple(
        statistics.median(mine) - statistics.median(without) for mine, without in zip(faulty, clean, strict=True)
    )
    return Cost(statistics.median(itertools.chain(*faulty)), each)


def cost_text(cost: Cost) -> str:
    return f"{cost.median:.1f} [{min(cost.of_process):.1f}, {max(cost.of_process):.1f}]"


def judge(predicted_ms: float, cost: Cost) -> str:
    """Return by how much of the step the prediction is off, and whether that is little enough, as two cells."""
    off = predicted_ms - cost.median
    within = abs(off) <= max(MOST_OFF_PCT / 100 * cost.step_ms, cost.spread)
    return f"{100 * off / cost.step_ms:+.1f} | {'yes' if within else 'no'}"


def line_of(trace: str, code: str, where: str) -> str:
    """Return the line of code that stacks named for a finding, or an empty text."""
    places = json.loads((TRACES / "places.json").read_text(encoding="utf-8"))["places"]
    return next((each["line"] for each in places[trace] if (each["code"], each["range"]) == (code, where)), "")


def named(trace: str) -> str:
    """Return the findings of a trace with their savings, or that there are none."""
    found = findings_of(trace).items
    texts = (f"{item.code} in {item.range or 'no range'} ({item.saving_ns / 1e6:.1f} ms)" for item in found)
    return ", ".join(texts) or "no cause of idle time above 1 %"


def findings_of(name: str, traces: Path = TRACES) -> Findings:
    """Return the findings of one trace of the study that count in it."""
    return without_own_findings(all_findings_of(name, traces))


def all_findings_of(name: str, traces: Path = TRACES) -> Findings:
    """Return what is found in one trace."""
    with unpacked(traces / f"{name}.sqlite.xz") as path, open_trace(path) as trace:
        found = summarize(read_tables(trace)).findings
    if found is None:
        raise SystemExit(f"{name} has no API calls, so nothing can be found in it.")
    return found


def without_own_findings(found: Findings) -> Findings:
    """Return the findings without those about busy time, which the program without a fault has, too."""
    kept = [item for item in found.items if item.code not in OF_THE_PROGRAM]
    own_ns = sum(item.saving_ns for item in found.items if item.code in OF_THE_PROGRAM)
    ranked = tuple(replace(item, rank=rank) for rank, item in enumerate(kept, start=1))
    return replace(found, items=ranked, together_ns=found.together_ns - own_ns)


if __name__ == "__main__":
    raise SystemExit(main())
