"""Store what each rank reports to the others in the capture folder: ranks/rank00003.json beside its trace.

The ranks of one job start and end at any time, on several hosts, and write into one folder. So each rank writes only
its own files: rank00003.claim while it runs, which prevents other processes from being rank 3, and rank00003.json at
its end. Only the first and the last rank make the manifest from these, so that ten thousand ranks do not each read all
others.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nsysprof.capture.folder import RANKS
from nsysprof.capture.manifest import Manifest, RankTrace
from nsysprof.capture.measured_process import LOGS, WORK
from nsysprof.capture.rank import RankIdentity, host_token, rank_name
from nsysprof.capture.user_program.program_plan import ProgramPlan
from nsysprof.errors import OutputError
from nsysprof.files.plain_file import decode_json, encode_json, output_error, write_whole
from nsysprof.notes import Note, make_note
from nsysprof.nsight.run_tool import Step
from nsysprof.results.checks import MissingSource
from nsysprof.results.power_samples import power_beside

_CLAIM, _RECORD = ".claim", ".json"


@dataclass(frozen=True)
class RankRecord:
    """The record of one rank of the job `job`."""

    job: str
    # The `nsysprof capture` that started the rank, and must also finish it.
    starter: int
    trace: RankTrace
    # Whether its program and nsys have ended.
    recorded: bool = False
    # Whether its trace has been exported too.
    ended: bool = False
    # Whether something outside ended it.
    interrupted: bool = False
    steps: tuple[Step, ...] = ()
    notes: tuple[Note, ...] = ()
    missing: tuple[MissingSource, ...] = ()
    # The environment of its host.
    environment: dict[str, Any] = field(default_factory=dict)


def report_of(folder: Path, rank: int) -> Path:
    return folder / RANKS / f"{rank_name(rank)}.nsys-rep"


def trace_of(folder: Path, rank: int) -> Path:
    return folder / RANKS / f"{rank_name(rank)}.sqlite"


def power_of(folder: Path, rank: int) -> Path:
    """Return the samples of the energy of the GPUs on a rank's host, beside its trace."""
    return power_beside(trace_of(folder, rank))


def logs_of(folder: Path, rank: int) -> tuple[Path, Path, Path]:
    """Return the logs of a rank: stdout, stderr and nsys."""
    name = rank_name(rank)
    logs = folder / LOGS
    return logs / f"{name}.stdout.log", logs / f"{name}.stderr.log", logs / f"{name}.nsys.log"


def has_rank(folder: Path, rank: int) -> bool:
    """Return whether a folder has a record of a rank from any run."""
    return any(_path(folder, rank, kind).exists() for kind in (_CLAIM, _RECORD))


def has_all_ranks(folder: Path, identity: RankIdentity, plan: ProgramPlan) -> bool:
    """Return whether all ranks that should be recorded have ended, as seen by the process `identity`.

    A process that starts a launcher is one of `world_size`, each with as many workers as this one.
    """
    own = 1
    if plan.per_rank and not plan.ranks:
        own = sum(record.starter == identity.rank for record in read_records(folder))
    return own > 0 and count_ended(folder) >= (len(plan.ranks) or identity.world_size * own)


def prepare_rank(folder: Path, rank: int, *, again: bool) -> None:
    """Create the folders that a rank needs in its job's folder. Raises OutputError where they cannot be written.

    again: whether to remove the files of an earlier attempt of the rank.
    """
    try:
        if again:
            remove_rank(folder, rank)
        for name in (LOGS, WORK, RANKS):
            (folder / name).mkdir(parents=True, exist_ok=True)
        probe = folder / WORK / f"probe-{rank}"
        probe.write_bytes(b"\0" * 65536)  # shows a full disk now
        probe.unlink()
    except OSError as error:
        raise output_error(folder, error) from error


def claim_rank(folder: Path, identity: RankIdentity, job: str, starter: int, attempt: int = 0) -> RankRecord:
    """Claim the rank's place in the folder, and return its record. Raises OutputError when the place is taken.

    Files of an earlier attempt of torchrun are moved to ranks/attempt0 and so on.
    """
    rank = identity.rank
    trace = RankTrace(
        rank, identity.local_rank, identity.world_size, host_token(job), variables=identity.variables, attempt=attempt
    )
    record, path = RankRecord(job, starter, trace), _path(folder, rank, _CLAIM)
    try:
        earlier = _read_rank(folder, rank)
        if earlier is not None and earlier.job == job and earlier.trace.attempt < attempt:
            _set_aside(folder, rank, earlier.trace.attempt)
        elif _path(folder, rank, _RECORD).exists():
            raise FileExistsError
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        raise OutputError(
            f"{folder} already has a rank {rank}: either from an older capture, or because two processes claim to be "
            f"rank {rank}.",
            "Give --force to replace an older capture, or another --out. Check the launcher's rank variables.",
        ) from None
    except OSError as error:
        raise output_error(path, error) from error
    write_record(folder, record)
    return record


def write_record(folder: Path, record: RankRecord) -> None:
    """Write a rank's record. It replaces the rank's claim once the rank has ended."""
    rank = record.trace.rank
    path = _path(folder, rank, _RECORD if record.ended else _CLAIM)
    write_whole(path, encode_json(record))
    if record.ended:
        _path(folder, rank, _CLAIM).unlink(missing_ok=True)


def read_records(folder: Path) -> list[RankRecord]:
    """Return the records of every job, by rank. A claim that is still being written is left out."""
    names = {path.stem for kind in (_RECORD, _CLAIM) for path in (folder / RANKS).glob(f"rank*{kind}")}
    ranks = sorted(int(name[4:]) for name in names if name[4:].isdigit())
    return [record for rank in ranks if (record := _read_rank(folder, rank)) is not None]


def count_ended(folder: Path) -> int:
    """Return how many ranks have ended, judged by the names of their files."""
    return sum(1 for _ in (folder / RANKS).glob(f"rank*{_RECORD}"))


def remove_rank(folder: Path, rank: int) -> None:
    """Remove all files that an older capture left for a rank."""
    for path in _files(folder, rank):
        path.unlink(missing_ok=True)


def with_files(folder: Path, record: RankRecord) -> RankRecord:
    """Return the record with the paths of the report and the trace, as far as they exist."""
    rank = record.trace.rank
    paths: dict[str, Any] = {
        key: str(path.relative_to(folder)) if path.is_file() and path.stat().st_size else None
        for key, path in (("trace", trace_of(folder, rank)), ("report", report_of(folder, rank)))
    }
    return replace(record, trace=replace(record.trace, **paths))


def merge_manifest(own: Manifest, records: list[RankRecord], asked: tuple[int, ...]) -> Manifest:
    """Return `own` with the steps, notes and exit codes of all ranks.

    The manifest is complete once every rank has ended without being killed and has its trace.

    asked: the ranks that should be recorded; empty for all.
    """
    ranks = tuple(record.trace for record in records)
    codes = [rank.exit_code for rank in ranks]
    failed = next((code for code in codes if code), None)
    program = own.program
    assert program is not None
    if program.exit_code is None and (failed is not None or None not in codes):
        program = replace(program, exit_code=failed or 0)
    expected = len(asked) or max(rank.world_size for rank in ranks)
    environments = [record.environment for record in records if record.environment]
    steps = [replace(step, name=f"{step.name} of rank {r.trace.rank}") for r in records for step in r.steps]
    return replace(
        own,
        complete=own.complete and len(records) >= expected and all(map(_is_whole, records)),
        environment=environments[0] if environments else own.environment,
        steps=[*own.steps, *steps],
        notes=list(dict.fromkeys([*own.notes, *(n for r in records for n in r.notes), *_mixed(environments)])),
        missing=list(dict.fromkeys([*own.missing, *(source for r in records for source in r.missing)])),
        program=replace(program, ranks=ranks),
    )


def _is_whole(record: RankRecord) -> bool:
    rank = record.trace
    return record.ended and not record.interrupted and rank.trace is not None and rank.exit_code is not None


def _mixed(environments: list[dict[str, Any]]) -> list[Note]:
    kinds = {environment.get("comparable_hash") for environment in environments}
    if len(kinds) < 2:
        return []
    return [make_note("mixed-machines", kinds=len(kinds))]


def _path(folder: Path, rank: int, kind: str) -> Path:
    return folder / RANKS / f"{rank_name(rank)}{kind}"


def _files(folder: Path, rank: int) -> tuple[Path, ...]:
    own = (_path(folder, rank, _CLAIM), _path(folder, rank, _RECORD))
    return (*own, report_of(folder, rank), trace_of(folder, rank), power_of(folder, rank), *logs_of(folder, rank))


def _read_rank(folder: Path, rank: int) -> RankRecord | None:
    return _read(_path(folder, rank, _RECORD)) or _read(_path(folder, rank, _CLAIM))


def _read(path: Path) -> RankRecord | None:
    try:
        return decode_json(path.read_bytes(), RankRecord)
    except (OSError, ValueError):
        return None


def _set_aside(folder: Path, rank: int, attempt: int) -> None:
    target = folder / RANKS / f"attempt{attempt}"
    target.mkdir(exist_ok=True)
    for path in _files(folder, rank):
        if path.exists():
            path.rename(target / path.name)
