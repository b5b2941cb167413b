"""`nsysprof compare`: a baseline against a candidate, with a verdict, and a gate whose answer is the exit code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nsysprof.comparison import Comparison, Input, Outcome
from nsysprof.errors import NotComparableError, UsageError

if TYPE_CHECKING:
    from nsysprof.gate_spec import Rule

_SEPARATOR = "vs"
# No error of ours has these; see nsysprof/errors.py.
EXIT_CODES = {Outcome.PASS: 0, Outcome.REGRESSION: 1, Outcome.INCONCLUSIVE: 3}
_INPUTS, _VERDICT, _OUTPUT = "Inputs", "Verdict", "Output"


def compare(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="BASELINE CANDIDATE",
            help="Captures, traces or benches, or folders of them; of several: BASELINE... vs CANDIDATE...",
            show_default=False,
        ),
    ],
    fail_on: Annotated[
        str,
        typer.Option(
            help="Gate, such as slower:3%,launches:+1,vram:+5%. Exit code 0 pass, 1 regression, 3 inconclusive.",
            rich_help_panel=_VERDICT,
        ),
    ] = "",
    margin: Annotated[
        float | None,
        typer.Option(
            help="The difference in latency that matters, in percent. Default: that of slower in --fail-on, else 3.",
            rich_help_panel=_VERDICT,
        ),
    ] = None,
    floor: Annotated[
        float | None,
        typer.Option(
            help="The machine's noise floor in percent, from bench --self-check. Default: from the inputs.",
            rich_help_panel=_VERDICT,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Compare what is not comparable, with a warning.", rich_help_panel=_INPUTS),
    ] = False,
    nsys: Annotated[
        Path | None, typer.Option(help="The nsys that exports a .nsys-rep.", rich_help_panel=_INPUTS)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for report, tables and figure.", rich_help_panel=_OUTPUT),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an older comparison in --out.", rich_help_panel=_OUTPUT)
    ] = False,
    markdown: Annotated[
        Path | None, typer.Option(help="Write the report for a pull request here.", rich_help_panel=_OUTPUT)
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.", rich_help_panel=_OUTPUT)] = None,
    figures: Annotated[bool, typer.Option(help="Draw the figure in --out.", rich_help_panel=_OUTPUT)] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.", rich_help_panel=_OUTPUT)] = False,
) -> None:
    """Compare a baseline with a candidate: latency, launches, kernels, copies and memory, case by case.

    Refuses what was measured under other conditions. With --fail-on the exit code is the gate's answer.
    """
    from nsysprof.gate_spec import parse_gate

    baseline, candidate = split_sides(sources)
    rules = parse_gate(fail_on) if fail_on.strip() else ()
    if fail_on and not rules:
        raise UsageError("--fail-on names nothing.", "Give rules such as slower:3%,launches:+1,vram:+5%.")
    for name, percent in (("--margin", margin), ("--floor", floor)):
        if percent is not None and not 0 < percent < 1000:
            raise UsageError(f"{name} {percent:g} is no such percentage.", "Give a number above zero, such as 3.")
    if out is not None:
        from nsysprof.report.compare import check_compare_folder

        check_compare_folder(out, replace=replace)
    sides = _read_sides(baseline, candidate, nsys, quiet=as_json)
    found = _compare(sides, rules, margin, floor, force=force)
    _write(found, out, markdown, junit, figures=figures)
    _print(found, out, as_json)
    if found.outcome is not None:
        raise typer.Exit(EXIT_CODES[found.outcome])


def split_sides(sources: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """What is before and after the word `vs`, which two sources do without. Raises UsageError."""
    if sources.count(_SEPARATOR) == 1:
        middle = list(sources).index(_SEPARATOR)
        sides = sources[:middle], sources[middle + 1 :]
    elif _SEPARATOR not in sources and len(sources) == 2:
        sides = sources[:1], sources[1:]
    else:
        sides = [], []
    if not sides[0] or not sides[1]:
        raise UsageError(
            f"{len(sources)} inputs, and which of them is the baseline is not clear.",
            "Give two, or several of each side: nsysprof compare BASELINE... vs CANDIDATE...",
        )
    return [Path(source) for source in sides[0]], [Path(source) for source in sides[1]]


def _read_sides(
    baseline: Sequence[Path], candidate: Sequence[Path], nsys: Path | None, *, quiet: bool
) -> tuple[list[Input], list[Input]]:
    from nsysprof.cli.compare_inputs import find_inputs, read_input

    def say(text: str) -> None:
        if not quiet:
            typer.echo(text, err=True)

    named = [[path for source in side for path in find_inputs(source)] for side in (baseline, candidate)]
    old, new = ([read_input(path, nsys, say) for path in side] for side in named)
    return old, new


def _compare(
    sides: tuple[list[Input], list[Input]],
    rules: Sequence[Rule],
    margin: float | None,
    floor: float | None,
    *,
    force: bool,
) -> Comparison:
    from nsysprof.analysis.compare import compare_inputs
    from nsysprof.analysis.compare_latency import MARGIN_PCT, Settings
    from nsysprof.cli.compare_inputs import case_names

    gate = next((rule.limit for rule in rules if rule.metric == "slower"), MARGIN_PCT)
    names = case_names((*sides[0], *sides[1]))
    found = compare_inputs(*sides, names, rules, Settings(gate if margin is None else margin, floor), force=force)
    if found.differences and not force:
        from nsysprof.report.compare_tables import difference_lines

        lines = "\n".join(f"  {line}" for line in difference_lines(found.differences))
        raise NotComparableError(
            f"The two sides were not measured under the same conditions:\n{lines}",
            "Measure both on one machine and setup, or give --force to compare them all the same.",
        )
    return found


def _write(found: Comparison, out: Path | None, markdown: Path | None, junit: Path | None, *, figures: bool) -> None:
    from nsysprof.output import output_error, write_whole
    from nsysprof.report.compare import render_compare, write_compare

    texts = {}
    if markdown is not None:
        texts[markdown] = render_compare(found, [])
    if junit is not None:
        from nsysprof.report.junit import render_junit

        texts[junit] = render_junit(found)
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise output_error(path.parent, error) from error
        write_whole(path, text.encode("utf-8", "replace"))
    if out is not None:
        write_compare(found, out, figures=figures)


def _print(found: Comparison, out: Path | None, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({**found.to_json(), "folder": None if out is None else str(out)}, indent=1))
        return
    from nsysprof.report.compare import render_compare_console

    typer.echo(render_compare_console(found, shutil.get_terminal_size((120, 40)).columns))
    if out is not None:
        typer.echo(f"read {out / 'report.md'}")
