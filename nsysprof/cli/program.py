"""`nsysprof capture -- PROGRAM`: any program under nsys, alone or as ranks of a job."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nsysprof.errors import DataLossError, InterruptedCaptureError, MissingToolError, UsageError
from nsysprof.notes import Note, Severity
from nsysprof.units import format_bytes

if TYPE_CHECKING:
    from nsysprof.capture.program import CapturedProgram
    from nsysprof.capture.program_plan import ProgramPlan
    from nsysprof.capture.rank import RankIdentity


def capture_program(
    argv: list[str],
    *,
    per_rank: bool,
    ranks: str,
    nsys: Path | None,
    out: Path | None,
    force: bool,
    dry_run: bool,
    as_json: bool,
    numbers: dict[str, Any],
) -> None:
    """Record one program, say where it lies, and end with the program's exit status. numbers: of the ProgramPlan."""
    from nsysprof.capture.program import run_program_capture
    from nsysprof.capture.program_plan import is_torch_launcher, plan_program
    from nsysprof.capture.rank import own_identity
    from nsysprof.capture.record_program import own_watchers

    if sys.platform == "win32":
        raise UsageError("Programs are captured on Linux alone.", "Run nsys profile, then nsysprof analyze.")
    identity = own_identity()
    # A rank of a job whose program is no launcher is what is recorded, whether it was said or not.
    launches = per_rank and (identity is None or is_torch_launcher(argv))
    plan = plan_program(argv, per_rank=launches, ranks=_parse_ranks(ranks), **numbers)
    if plan.ranks and not (launches or identity):
        raise UsageError("--ranks chooses among ranks, and here is one program.", "Give --per-rank too.")
    _find_program(argv[0])
    nsys_path = _find_nsys(nsys)
    folder = out or _default_folder(plan, identity)
    if dry_run:
        _print_plan(plan, folder, nsys_path, identity, as_json)
        return
    _prepare(plan, folder, identity, force=force)
    is_first = identity is None or identity.rank == 0
    say = _say if is_first and not as_json else _silent
    captured = run_program_capture(
        plan,
        folder,
        nsys=nsys_path,
        identity=identity,
        watchers=own_watchers(quiet_stdout=as_json),
        say=say,
        inspect=_inspect,
    )
    if as_json:
        _print_json(captured, folder)
    elif is_first:
        _print_end(captured, folder)
    _end(captured, folder)


def _parse_ranks(text: str) -> tuple[int, ...]:
    """`0,8-11` -> (0, 8, 9, 10, 11)."""
    found: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        low, dash, high = part.partition("-")
        if not low.isdigit() or (dash and not high.isdigit()) or int(high or low) < int(low):
            raise UsageError(f"--ranks {part!r} is no rank.", "Give ranks and spans of ranks, e.g. 0,8-11.")
        found.update(range(int(low), int(high or low) + 1))
    return tuple(sorted(found))


def _find_program(name: str) -> None:
    if shutil.which(name) is None:
        raise UsageError(
            f"The program {name} was not found, or may not be run.",
            "Options of nsysprof stand before the program: nsysprof capture [OPTIONS] -- PROGRAM [ARGUMENTS].",
        )


def _find_nsys(named: Path | None) -> Path:
    from nsysprof.capture.find_nsys import find_nsys

    found = find_nsys(named)
    if found is None:
        raise MissingToolError(
            "A program is captured with nsys, and nsys was not found.",
            "Install Nsight Systems, or name it with --nsys or NSYSPROF_NSYS; torch's own profiler cannot be put "
            "around a program from outside.",
        )
    return found


def _default_folder(plan: ProgramPlan, identity: RankIdentity | None) -> Path:
    from nsysprof.capture.folder import dated_folder
    from nsysprof.capture.rank import job_token, names_a_job

    if identity is None:
        return dated_folder()
    if not names_a_job(os.environ):
        raise UsageError(
            f"{identity.world_size} ranks of a job need one folder, and nothing names the job.", "Give --out."
        )
    return Path("traces") / f"job-{job_token(os.environ, list(plan.argv), identity.world_size)}"


def _prepare(plan: ProgramPlan, folder: Path, identity: RankIdentity | None, *, force: bool) -> None:
    from nsysprof.capture.folder import RANKS, prepare_folder
    from nsysprof.capture.rank import job_token
    from nsysprof.capture.rank_record import join_folder
    from nsysprof.output import output_error

    if identity is not None:
        job = job_token(os.environ, list(plan.argv), identity.world_size)
        join_folder(folder, identity, job, force=force)
        return
    prepare_folder(folder, force=force)
    if plan.per_rank:
        try:
            (folder / RANKS).mkdir()
        except OSError as error:
            raise output_error(folder, error) from error


def _print_plan(plan: ProgramPlan, folder: Path, nsys: Path, identity: RankIdentity | None, as_json: bool) -> None:
    from nsysprof.capture.folder import NSYS_REPORT
    from nsysprof.capture.nsys import profile_argv
    from nsysprof.capture.rank_record import report_of

    report = report_of(folder, identity.rank if identity else 0) if identity or plan.per_rank else folder / NSYS_REPORT
    program = ["WORKER"] if plan.per_rank else list(plan.argv)
    argv = profile_argv(nsys, report.with_suffix(""), program, plan.profile_options)
    if as_json:
        typer.echo(
            json.dumps({"program": list(plan.argv), "out": str(folder), "per_rank": plan.per_rank, "nsys": argv})
        )
        return
    import shlex

    each = "each worker of" if plan.per_rank else ""
    typer.echo(f"{each} {shlex.join(plan.argv)}, into {folder}".strip())
    typer.echo(f"  {shlex.join(argv)}")


def _inspect(trace_path: Path) -> list[Note]:
    """What a trace says of its own recording."""
    from nsysprof.analysis.recording import recording_notes
    from nsysprof.trace.open import open_trace
    from nsysprof.trace.recorded import read_recorded

    with open_trace(trace_path) as trace:
        return recording_notes(read_recorded(trace))


def _print_json(captured: CapturedProgram, folder: Path) -> None:
    manifest = captured.manifest.to_json()
    keys = ("program", "ranks", "complete", "notes")
    typer.echo(json.dumps({"folder": str(folder), **{key: manifest[key] for key in keys}}, indent=1))


def _print_end(captured: CapturedProgram, folder: Path) -> None:
    """On stderr, since stdout is the program's."""
    manifest = captured.manifest
    assert manifest.program is not None
    seconds = captured.ended.duration_ns / 1e9
    code = captured.ended.exit_code
    _say("")
    how = "did not start" if code is None else f"ended with exit code {code}"
    _say(f"the program {'was ended with the recording' if captured.ended.ended_by_us else how} after {seconds:.1f} s")
    for note in manifest.notes:
        _say(f"{note.severity.value}: {note.text}" + (f" -> {note.next_step}" if note.next_step else ""))
    sizes = sum(path.stat().st_size for path in captured.traces)
    ranks = manifest.program.ranks
    what = ""
    if ranks:
        traced = sum(rank.trace is not None for rank in ranks)
        so_far = " so far" if traced < ranks[0].world_size and not manifest.complete else ""
        what = f"traces of {traced} of {ranks[0].world_size} ranks{so_far}, "
    size = f"{what}{format_bytes(sizes)}); next: nsysprof analyze {folder}" if captured.traces else f"{what}no trace)"
    _say(f"capture in {folder} ({size}")


def _end(captured: CapturedProgram, folder: Path) -> None:
    """Leave with the program's exit status; what else went wrong counts where the program says 0."""
    ended = captured.ended
    if ended.refused:
        raise UsageError(f"The program could not be started: {ended.refused}.", "See that it may be run.")
    if ended.interrupted is not None:
        raise InterruptedCaptureError(
            f"Interrupted; what was recorded is kept in {folder}.", f"nsysprof analyze {folder} reads what is there."
        )
    if ended.exit_code and not ended.ended_by_us:
        if captured.failure is not None:
            _say(f"{captured.failure.text} -> {captured.failure.next_step}")
        raise typer.Exit(ended.exit_code)
    if captured.failure is not None:
        raise captured.failure
    lost = [note for note in captured.notes if note.severity is Severity.ERROR]
    if lost:
        raise DataLossError(lost[0].text, lost[0].next_step)


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _silent(_text: str) -> None:
    """Of ranks that are not the first, and of --json."""
