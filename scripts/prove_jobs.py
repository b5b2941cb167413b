"""Compare what findings of jobs predict with what the changes save, and write the study analysis/h200-jobs.

    scripts/prove_jobs.py FOLDER    collect the findings of recorded jobs: FOLDER/PROGRAM-FAULT is a capture of each
    scripts/prove_jobs.py --write   write analysis/h200-jobs/README.md from jobs.json

Recorded by `nsysprof capture --per-rank -- torchrun --nproc-per-node 2 scripts/programs/job_faults.py ddp --faults F`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nsysprof.files.plain_file import decode_json, encode_json
from nsysprof.ranks.identity import RankSource
from nsysprof.ranks.job_findings import find_in_job
from nsysprof.ranks.summarize import summarize_rank
from nsysprof.results.column_registry.rank_columns import STRAGGLERS
from nsysprof.results.findings import JobFinding
from scripts.studies.tables import template

STUDY = Path(__file__).parents[1] / "analysis/h200-jobs"
# The finding of each planted fault. A fault that costs nothing has none.
FAULTS = {
    "ddp-reduce-always": "redundant-communication",
    "fsdp-reduce-always": "redundant-communication",
    "fsdp-small-shards": "small-messages",
    "ddp-small-buckets": "small-messages",
    "ddp-uneven": "uneven-work",
    "tp-small-pieces": "small-messages",
    "tp-fp32-messages": "fp32-messages",
    "pp-few-parts": "exposed-communication",
    "pp-unbalanced": "uneven-work",
}
# What mends a program without a planted fault that is told of one, as the code has it for a form of the program.
MENDED = {"pp": "evened"}
# Stragglers have a study of their own.
NOBODY = pd.DataFrame(columns=list(STRAGGLERS.names))
OF_COMMUNICATION = (
    "redundant-communication", "small-messages", "exposed-communication", "fp32-messages", "uneven-work"
)  # fmt: skip


@dataclass(frozen=True)
class Study:
    """The findings by program and fault, and the step times (ms) of each turn by program and form."""

    findings: dict[str, list[JobFinding]]
    step_ms: dict[str, dict[str, list[float]]]


def collect(folder: Path) -> dict[str, list[JobFinding]]:
    """Return the findings of the captures in a folder."""
    findings = {}
    for capture in sorted(path for path in folder.iterdir() if path.is_dir()):
        traces = sorted((capture / "ranks").glob("*.sqlite"))
        details = {rank: summarize_rank(RankSource(rank, trace)).detail for rank, trace in enumerate(traces)}
        facts = {rank: detail.facts for rank, detail in details.items()}
        graphs = {rank: detail.graph for rank, detail in details.items() if detail.graph is not None}
        items = find_in_job(facts, NOBODY, graphs)
        findings[capture.name] = [item for item in items if item.code in OF_COMMUNICATION]
    return findings


def page(study: Study) -> str:
    """Return the study as Markdown."""
    lines = []
    for name, findings in study.findings.items():
        kind, _, fault = name.partition("-")
        items = [item for item in findings if item.code in OF_COMMUNICATION]
        if fault == "none":
            step, saved = statistics.median(study.step_ms[kind]["none"]), "none planted"
            mended = study.step_ms[kind].get(MENDED.get(kind, ""))
            if mended is not None:
                saved = f"{step - statistics.median(mended):.1f} ({MENDED[kind]})"
        else:
            step = statistics.median(study.step_ms[kind][fault])
            saved = f"{step - statistics.median(study.step_ms[kind]['none']):.1f}"
        own = [item for item in items if item.code == FAULTS.get(name)]
        shown = own or [item for item in items if item.saving_low_ns]
        text = ", ".join(item.code for item in shown) or "none"
        predicted = "; ".join(
            f"{item.saving_ns / 1e6:.1f} [{item.saving_low_ns / 1e6:.1f}, {item.saving_high_ns / 1e6:.1f}]"
            for item in shown
        )
        lines.append(f"| {name} | {step:.1f} | {saved} | {text} | {predicted or '0'} |")
    return template("h200-jobs").format(rows="\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--times", type=Path, nargs="*", default=[], help="what job_faults.py --time printed")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.folder is not None:
        timed = [decode_json(path.read_bytes(), dict) for path in given.times]
        before = decode_json((STUDY / "jobs.json").read_bytes(), Study)
        findings = collect(given.folder)
        times = {of_kind["kind"]: of_kind["step_ms"] for of_kind in timed}
        study = Study({**before.findings, **findings}, {**before.step_ms, **times})
        (STUDY / "jobs.json").write_bytes(encode_json(study))
    text = page(decode_json((STUDY / "jobs.json").read_bytes(), Study))
    if given.write:
        (STUDY / "README.md").write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
