"""Write the results of a tuning beside its samples: winners, policy, results.json and the report."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from msgspec.structs import asdict

from nsysprof.analysis.attention_tuning.program_gain import compute_gain
from nsysprof.analysis.attention_tuning.winning_rules import fill_groups, settle_own_choices
from nsysprof.analysis.sampling.bench import METHOD, BenchResults
from nsysprof.analysis.sampling.replayed_calls import METHOD as REPLAYS
from nsysprof.analysis.sampling.replayed_calls import replayed_shapes, say_replayed
from nsysprof.analysis.sampling.tune import (
    OPEN,
    UNKNOWN,
    Choice,
    choose_backends,
    decides_something,
    failed_shapes,
    find_winners,
    insights,
)
from nsysprof.app.measuring.bench import method_lines
from nsysprof.app.tuning.from_program import ProgramShapes
from nsysprof.attention.policy_file import AUTO, SDPA_BACKENDS, PolicyFile, PolicyRule, write_policy
from nsysprof.attention.shape import Shape
from nsysprof.capture.sampling.bench_run import BenchRun
from nsysprof.files.json_file import json_value
from nsysprof.files.output import write_whole
from nsysprof.report.document import Figure
from nsysprof.report.figure_files import write_figures
from nsysprof.report.figures.benches import describe_winners, draw_winners
from nsysprof.report.pages.bench import BenchReport, tuning_sections, write_bench
from nsysprof.results.column_registry.case_columns import WINNERS
from nsysprof.results.column_registry.csv_table import render_csv, to_records
from nsysprof.results.optimization import ProgramGain

POLICY = "policy.json"


def write_tuning(
    run: BenchRun,
    results: BenchResults,
    folder: Path,
    command: str,
    *,
    title: str = "",
    price: float | None = None,
    told: str = "",
    figures: bool = True,
    shapes: ProgramShapes | None = None,
    again: Collection[Shape] = (),
) -> Tuning:
    """Write everything that a tuning leaves beside its samples, and return it.

    command: the command line that the user typed.
    title: the title of the report; empty for the folder's name.
    price: the price of an hour of the GPU, if costs are wanted.
    told: why the search ended, if that is worth saying.
    shapes: the program for which the shapes were tuned.
    again: the shapes whose best backends were measured again.
    """
    winners = find_winners(results.table, again)
    choices = choose_backends(winners)
    replayed = replayed_shapes(run.plan.cells, run.blocks)
    lines = [*say_replayed(replayed), *insights(results.table, winners, results.floor_pct)]
    gain = None
    if shapes is not None:
        choices = settle_own_choices(shapes.captured, choices, winners)
        failed = failed_shapes(results.table)
        undecided = sum(choice.why == OPEN for choice in choices)
        undecided += int((winners["verdict"] == UNKNOWN).sum()) - len(failed)
        backends = {choice.shape: choice.backend for choice in choices}
        gain = compute_gain(
            shapes.captured, shapes.chosen, backends, results.table, undecided, failed, search_ended=run.complete
        )
        choices = fill_groups(shapes.chosen, choices)
        lines = [gain.text, *lines, *gain.refused]
    has_policy = bool(choices) and decides_something(choices)
    pictures = _draw(winners, folder) if figures else []
    write_whole(folder / WINNERS.name, render_csv(winners, WINNERS))
    if has_policy:
        write_choices(folder / POLICY, run, choices)
    report = BenchReport(
        title=title or folder.resolve().name,
        table=results.table,
        floor_pct=results.floor_pct,
        floor_pairs=results.floor_pairs,
        ceilings=run.ceilings,
        environment=run.environment,
        notes=results.notes,
        method=[*method_lines(run.plan, results), METHOD, *([REPLAYS] if run.plan.device == "cuda" else [])],
        command=command,
        extra=tuning_sections(
            winners, lines, price=price, policy=POLICY if has_policy else None, budget_note=told, figures=pictures
        ),
    )
    write_bench(report, folder, figures=figures)
    data = _to_json(run, results, winners, lines, gain)
    write_whole(folder / "results.json", (json.dumps(data, indent=1) + "\n").encode())
    return Tuning(winners, tuple(lines), folder / POLICY if has_policy else None, data, gain, replayed)


def _draw(winners: pd.DataFrame, folder: Path) -> list[Figure]:
    draw, alts = {"winners": lambda: draw_winners(winners)}, {"winners": lambda: describe_winners(winners)}
    return write_figures(draw, alts, folder)


def _to_json(
    run: BenchRun, results: BenchResults, winners: pd.DataFrame, lines: list[str], gain: ProgramGain | None
) -> dict[str, Any]:
    return {
        "program": json_value(gain),
        "seed": run.plan.seed,
        "complete": run.complete,
        "floor_pct": results.floor_pct,
        "insights": lines,
        "winners": to_records(winners),
        "cases": to_records(results.table),
        "environment": run.environment,
        "notes": json_value(results.notes),
    }


@dataclass(frozen=True)
class Tuning:
    """What a tuning found.

    winners: one row per shape.
    insights: what follows from the data, one sentence each.
    policy: the policy file; None where no shape has a choice, or all are torch's own and some are undecided.
    data: the content of results.json.
    program: what the program saves, where its shapes were tuned.
    replayed: the shapes that were judged by replays of CUDA graphs.
    """

    winners: pd.DataFrame
    insights: tuple[str, ...]
    policy: Path | None
    data: dict[str, Any]
    program: ProgramGain | None = None
    replayed: frozenset[Shape] = frozenset()


def write_choices(path: Path, run: BenchRun, choices: Sequence[Choice]) -> None:
    """Write the policy, without the shapes whose best backend is not part of torch, because a policy imports nothing.

    Shapes with a window are left out too: calls of torch have no window, but a mask whose content nobody reads.

    Raises OutputError.
    """
    rules = []
    for choice in choices:
        if choice.backend in (*SDPA_BACKENDS, AUTO) and choice.shape.window is None:
            rules.append(
                PolicyRule(
                    choice.backend,
                    **asdict(choice.shape),
                    why=choice.why,
                    median_ns=None if choice.median_ns is None else float(choice.median_ns),
                    over_auto=choice.over_auto,
                )
            )
    environment = run.environment
    write_policy(
        path,
        PolicyFile(
            tuple(rules),
            device=run.plan.device,
            gpu_name=environment.get("gpu_name"),
            torch_version=environment.get("torch_version"),
            cudnn_version=environment.get("cudnn_loaded_version") if run.plan.device == "cuda" else None,
            created_utc=run.created_utc,
        ),
    )
