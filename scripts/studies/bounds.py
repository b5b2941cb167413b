"""Count how often the true saving of a fault lies within the bounds of its finding, over the tables of all studies."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ANALYSIS = Path(__file__).resolve().parents[2] / "analysis"
STUDIES = ("h200-faults", "h200-busy", "h200-jobs")
# The findings of this one are about all ranks of a job together.
_OF_JOBS = "h200-jobs"
_BOUNDED = re.compile(r"(-?[\d.]+) \[(-?[\d.]+), (-?[\d.]+)\]")
# So many truths of all lie inside where the rules that were made after a study are left out in it. It was counted once,
# when the rules were made, and not by code.
_HELD_OUT = 57
# What a fault is called where a table has no column for the finding.
_CODES = {"sleeping-loader": "host-bound", "small-kernels": "launch-bound"}


@dataclass(frozen=True)
class Told:
    """A finding of a planted fault: its code, what mending the fault really saves, and what is predicted (all ms)."""

    code: str
    true_ms: float
    predicted_ms: float
    low_ms: float
    high_ms: float

    @property
    def is_inside(self) -> bool:
        # A page has one digit after the point.
        return self.low_ms - 0.05 <= self.true_ms <= self.high_ms + 0.05


def read_study(name: str) -> Iterator[Told]:
    """Yield the findings with bounds and a measured truth of a study's page."""
    head: list[str] = []
    for line in (ANALYSIS / name / "README.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if "predicted, ms" in line:
            head = [re.sub(r"true (cost|saving), ms", "true", cell) for cell in cells]
        row = dict(zip(head, cells, strict=False))
        told = _BOUNDED.fullmatch(row.get("predicted, ms", ""))
        is_planted = name != _OF_JOBS or not cells[0].endswith("-none")
        if told is None or len(cells) != len(head) or not is_planted:
            continue
        fault = cells[0]
        code = (re.findall(r"[a-z0-9-]+", row["finding"]) if "finding" in row else [_CODES.get(fault, fault)])[0]
        yield Told(code, float(row["true"].split()[0]), *map(float, told.groups()))


def bounds_table() -> str:
    """Return the Markdown of the page of causes: by code, how many truths lie inside, and how wide the bounds are."""
    of_study = {study: list(read_study(study)) for study in STUDIES}
    every = [told for own in of_study.values() for told in own]
    by_code: dict[str, list[Told]] = {}
    for told in every:
        by_code.setdefault(told.code, []).append(told)
    of_one = [told for study, own in of_study.items() if study != _OF_JOBS for told in own]
    totals = [("all of one trace", of_one), ("all of a job's ranks", of_study[_OF_JOBS]), ("all", every)]
    lines = [
        "| code | findings | truth inside | without rules made after the study | median width, % of the saving |",
        "|---|--:|--:|--:|--:|",
    ]
    for code, of_code in [*sorted(by_code.items()), *totals]:
        widths = [100 * (told.high_ms - told.low_ms) / told.predicted_ms for told in of_code if told.predicted_ms]
        inside = sum(told.is_inside for told in of_code)
        name = code if code.split()[0] == "all" else f"`{code}`"
        held_out = str(_HELD_OUT) if of_code is every else "–"
        lines.append(f"| {name} | {len(of_code)} | {inside} | {held_out} | {statistics.median(widths):.0f} |")
    missed = [told for told in every if not told.is_inside]
    above = sum(told.true_ms > told.high_ms for told in missed)
    return "\n".join([*lines, "", f"Of the {len(missed)} others, {above} saved more than the upper bound."])
