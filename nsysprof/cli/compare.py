"""Define `nsysprof compare`: compare a baseline with a candidate, with a gate that sets the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nsysprof.app.inputs.options import Option
from nsysprof.app.inputs.reading_requests import CompareRequest
from nsysprof.cli import options
from nsysprof.cli.terminal import (
    GATE_EXIT_CODES,
    mark_saved,
    print_json,
    print_report,
    say_missing_figures,
    show_progress,
)
from nsysprof.errors import UsageError

if TYPE_CHECKING:
    from nsysprof.app.compare import CompareResult
    from nsysprof.app.trace_analysis.analyze_snapshot import CompareSnapshotsResult

EXAMPLES = (
    "nsysprof compare before after",
    "nsysprof compare before after --fail-on slower:3%,launches:+1 --junit gate.xml",
    "nsysprof compare main-1 main-2 main-3 vs branch-1 branch-2 branch-3 --out comparison",
)
_SEPARATOR = "vs"

Sources = Annotated[
    list[str],
    Option(
        "Captures, traces, benches, or folders of them, or two snapshots of torch's allocator. Several on a side: "
        "BASELINE... vs CANDIDATE...",
        metavar="BASELINE CANDIDATE",
        is_argument=True,
        shows_default=False,
    ),
]


def compare(sources: Sources, request: CompareRequest, as_json: options.Json = False) -> None:
    """Compare a baseline with a candidate: latency, launches, kernels, copies and memory, case by case.

    Sides that were measured under different conditions are refused. With --fail-on, the exit code is the gate's result.
    """
    from nsysprof.app import compare as use_case

    baseline, candidate = split_sides(sources)
    request = replace(request, baseline=baseline, candidate=candidate)
    result = use_case.compare_any(request, show_progress(quiet=as_json))
    if request.out is not None:
        mark_saved()
    if not isinstance(result, use_case.CompareResult):
        _print_snapshots(result, as_json)
        return
    if request.out is not None:
        say_missing_figures(request.figures and not as_json)
    _print(result, as_json)
    if result.comparison.outcome is not None:
        raise typer.Exit(GATE_EXIT_CODES[result.comparison.outcome])


def split_sides(sources: Sequence[str]) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the inputs before and after the word `vs`, which is optional between two inputs. Raises UsageError."""
    if sources.count(_SEPARATOR) == 1:
        middle = list(sources).index(_SEPARATOR)
        sides = sources[:middle], sources[middle + 1 :]
    elif _SEPARATOR not in sources and len(sources) == 2:
        sides = sources[:1], sources[1:]
    else:
        sides = [], []
    if not sides[0] or not sides[1]:
        raise UsageError(
            f"It is not clear which of {len(sources)} inputs is the baseline.",
            "Give two, or several of each side: nsysprof compare BASELINE... vs CANDIDATE...",
        )
    return tuple(map(Path, sides[0])), tuple(map(Path, sides[1]))


def _print_snapshots(result: CompareSnapshotsResult, as_json: bool) -> None:
    from nsysprof.report.pages.memory import memory_comparison_report

    if as_json:
        print_json({**result.comparison.to_json(), "folder": None if result.folder is None else str(result.folder)})
    else:
        print_report(memory_comparison_report(result.comparison))


def _print(result: CompareResult, as_json: bool) -> None:
    found, out = result.comparison, result.folder
    if as_json:
        from nsysprof.report.pages.compare import comparison_json

        print_json({**comparison_json(found), "folder": None if out is None else str(out)})
        return
    from nsysprof.report.pages.compare import compare_report

    print_report(compare_report(found))
    if out is not None:
        typer.echo(f"read {out / 'report.md'}")
