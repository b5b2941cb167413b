"""Run the use case `compare`: compare a baseline with a candidate, with verdicts and a gate."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path

from nsysprof.analysis.comparison.compare import compare_inputs, measured_in_turn
from nsysprof.analysis.comparison.compare_latency import Settings
from nsysprof.analysis.comparison.gate.gate import GateRule, margin_of, parse_gate
from nsysprof.analysis.sampling.significance import ALPHA
from nsysprof.app.inputs.compare_inputs import case_names, find_inputs, read_input
from nsysprof.app.inputs.reading_requests import CompareRequest, is_snapshot
from nsysprof.app.progress import SILENT, Progress, Say
from nsysprof.app.trace_analysis.analyze_snapshot import (
    CompareSnapshotsRequest,
    CompareSnapshotsResult,
    compare_snapshots,
)
from nsysprof.errors import NotComparableError, UsageError
from nsysprof.files.folder_state import COMPARISON
from nsysprof.files.plain_file import output_error, write_whole
from nsysprof.files.result_folder import claim_folder
from nsysprof.report.formats.data_formats import render_junit
from nsysprof.report.formats.markdown import render_markdown
from nsysprof.report.pages.compare import compare_report, difference_lines, write_compare
from nsysprof.results.comparison import Input, VersionComparison

# The fields of a request that mean something for snapshots of memory.
_OF_SNAPSHOTS = ("baseline", "candidate", "out", "force")


def compare(request: CompareRequest, progress: Progress = SILENT) -> CompareResult:
    """Compare a baseline with a candidate, and write the files that the request names.

    Raises NotComparableError for sides that were measured under different conditions.
    """
    rules = parse_rules(request)
    out = request.out
    with nullcontext() if out is None else claim_folder(out, COMPARISON, force=request.force) as claimed:
        baseline = _read_side(request.baseline, request, progress.say)
        candidate = _read_side(request.candidate, request, progress.say)
        found = _compare(baseline, candidate, rules, request)
        _write(found, request, None if claimed is None else claimed.path)
        if claimed is not None:
            claimed.commit()
    return CompareResult(found, out)


def compare_any(request: CompareRequest, progress: Progress = SILENT) -> CompareResult | CompareSnapshotsResult:
    """Compare two snapshots of torch's allocator line by line, and any other inputs as compare does.

    Raises UsageError for a snapshot beside another kind of input, and for options that have no meaning for snapshots.
    """
    both = (*request.baseline, *request.candidate)
    if not any(map(is_snapshot, both)):
        return compare(request, progress)
    for field in fields(request):
        if field.name not in _OF_SNAPSHOTS and getattr(request, field.name) != field.default:
            raise UsageError(
                f"{_option_of(field.name)} does not work with memory snapshots, which are compared line by line.",
                "Leave it out.",
            )
    if len(both) != 2 or not all(map(is_snapshot, both)):
        raise UsageError("Memory snapshots can only be compared one with one.", "Give exactly two .pickle files.")
    return compare_snapshots(CompareSnapshotsRequest(*both, request.out, request.force), progress)


def _option_of(field: str) -> str:
    """Return what the command line calls a field of the request."""
    names = {"launched_only": "--attribution", "figures": "--no-figures"}
    return names.get(field, f"--{field.removesuffix('_pct').replace('_', '-')}")


def look_early(request: CompareRequest, alpha: float) -> VersionComparison:
    """Return what two sides that are still being measured in turn show so far, without writing anything.

    alpha: the significance level of tests and intervals.
    """
    sides = [_read_side(side, request, SILENT.say) for side in (request.baseline, request.candidate)]
    return _compare(sides[0], sides[1], parse_rules(request), request, alpha)


def parse_rules(request: CompareRequest) -> tuple[GateRule, ...]:
    """Return the rules of the gate. Raises UsageError where the request is not valid."""
    if not request.baseline or not request.candidate:
        raise UsageError("A comparison needs a baseline and a candidate.", "Give at least one input for each side.")
    rules = tuple(parse_gate(request.fail_on)) if request.fail_on.strip() else ()
    if request.fail_on and not rules:
        raise UsageError("--fail-on is empty.", "Give rules such as slower:3%,launches:+1,vram:+5%.")
    for name, percent in (("--margin", request.margin_pct), ("--floor", request.floor_pct)):
        if percent is not None and not 0 < percent < 1000:
            raise UsageError(f"{name} {percent:g} is not a valid percentage.", "Give a number above zero, such as 3.")
    return rules


def _read_side(sources: Sequence[Path], request: CompareRequest, say: Say) -> list[Input]:
    return [
        read_input(path, request.nsys, say, launched_only=request.launched_only)
        for source in sources
        for path in find_inputs(source)
    ]


def _compare(
    baseline: list[Input],
    candidate: list[Input],
    rules: Sequence[GateRule],
    request: CompareRequest,
    alpha: float | None = None,
) -> VersionComparison:
    margin = margin_of(rules) if request.margin_pct is None else request.margin_pct
    settings = Settings(margin, request.floor_pct, alpha or ALPHA)
    names = case_names((*baseline, *candidate))
    # What differs between the two sides of one session is what the user wants to compare.
    ignored = request.ignore_conditions or measured_in_turn(baseline, candidate)
    found = compare_inputs(baseline, candidate, names, rules, settings, force=ignored)
    if found.differences and not ignored:
        lines = "\n".join(f"  {line}" for line in difference_lines(found.differences))
        raise NotComparableError(
            f"The two sides were not measured under the same conditions:\n{lines}",
            "Measure both on one machine and setup, or give --ignore-conditions to compare them anyway.",
        )
    return found


def _write(found: VersionComparison, request: CompareRequest, folder: Path | None) -> None:
    texts = {}
    if request.markdown is not None:
        texts[request.markdown] = render_markdown(compare_report(found))
    if request.junit is not None:
        texts[request.junit] = render_junit(compare_report(found))
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise output_error(path.parent, error) from error
        write_whole(path, text.encode("utf-8", "replace"))
    if folder is not None:
        write_compare(found, folder, figures=request.figures)


@dataclass(frozen=True)
class CompareResult:
    """The comparison, and the folder that it was written to."""

    comparison: VersionComparison
    folder: Path | None
