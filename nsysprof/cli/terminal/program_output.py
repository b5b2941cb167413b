"""Print the messages of `nsysprof capture -- PROGRAM` on stderr, because stdout belongs to the program."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import typer

from nsysprof.cli.terminal.console import print_json
from nsysprof.units import format_bytes

if TYPE_CHECKING:
    from nsysprof.app.measuring.capture_program import PlannedProgram, ProgramResult
    from nsysprof.app.measuring.hold_program import HoldResult, PlannedHold


def print_program_plan(planned: PlannedProgram, *, as_json: bool) -> None:
    """Print what would be recorded, and how."""
    plan, folder = planned.plan, planned.folder
    if as_json:
        data = {"program": list(plan.argv), "out": str(folder), "per_rank": plan.per_rank, "nsys": planned.nsys_argv}
        print_json(data)
        return
    each = "each worker of" if plan.per_rank else ""
    typer.echo(f"{each} {shlex.join(plan.argv)}, into {folder}".strip())
    typer.echo(f"  {shlex.join(planned.nsys_argv)}" if planned.nsys else "  recorded by torch's own profiler")


def print_program_result(result: ProgramResult, *, as_json: bool) -> None:
    """Print how the program ended, the notes, and where the traces are."""
    if as_json:
        manifest = result.captured.manifest.to_json()
        keys = ("program", "ranks", "complete", "notes")
        print_json({"folder": str(result.folder), **{key: manifest[key] for key in keys}})
    elif result.is_first:
        _print_end(result)


def end_with_program(result: ProgramResult) -> None:
    """Exit with the program's exit code. If that is 0, any other failure counts."""
    captured, ended = result.captured, result.captured.ended
    if ended.exit_code and not ended.ended_by_us and not ended.refused and ended.interrupted is None:
        if captured.failure is not None:
            typer.echo(f"{captured.failure.text} -> {captured.failure.next_step}", err=True)
        raise typer.Exit(ended.exit_code)
    if result.failure is not None:
        raise result.failure


def print_hold_plan(planned: PlannedHold, *, as_json: bool) -> None:
    """Print what would be held, and how."""
    if as_json:
        argv = list(planned.nsys_argv)
        print_json({"program": list(planned.plan.argv), "out": str(planned.folder), "hold": True, "nsys": argv})
        return
    typer.echo(f"{shlex.join(planned.plan.argv)}, held in {planned.folder} and recorded on demand")
    typer.echo(f"  {shlex.join(planned.nsys_argv)}")


def end_with_held_program(result: HoldResult, *, as_json: bool) -> None:
    """Print what was recorded of a held program, and end as it did."""
    if as_json:
        recordings = [str(path) for path in result.recordings]
        print_json({"folder": str(result.folder), "exit_code": result.exit_code, "recordings": recordings})
    else:
        how = "did not start" if result.exit_code is None else f"ended with exit code {result.exit_code}"
        count = len(result.recordings)
        typer.echo(f"\nthe program {how}; {count} recording{'' if count == 1 else 's'} in {result.folder}", err=True)
        for path in result.recordings:
            typer.echo(f"  nsysprof analyze {path}", err=True)
    if result.exit_code and result.interrupted is None:
        raise typer.Exit(result.exit_code)
    if result.failure is not None:
        raise result.failure


def _print_end(result: ProgramResult) -> None:
    from nsysprof.report.formats.console import note_line

    captured, folder = result.captured, result.folder
    manifest = captured.manifest
    assert manifest.program is not None
    seconds, code = captured.ended.duration_ns / 1e9, captured.ended.exit_code
    how = "did not start" if code is None else f"ended with exit code {code}"
    if captured.ended.ended_by_us:
        how = "was ended with the recording"
    typer.echo(f"\nthe program {how} after {seconds:.1f} s", err=True)
    for note in manifest.notes:
        typer.echo(note_line(note), err=True)
    ranks, what = manifest.program.ranks, ""
    if ranks:
        traced = sum(rank.trace is not None for rank in ranks)
        so_far = " so far" if traced < ranks[0].world_size and not manifest.complete else ""
        what = f"traces of {traced} of {ranks[0].world_size} ranks{so_far}, "
    size = (
        f"{what}{format_bytes(result.trace_bytes)}); next: nsysprof analyze {folder}"
        if captured.traces
        else f"{what}no trace)"
    )
    typer.echo(f"capture in {folder} ({size}", err=True)
