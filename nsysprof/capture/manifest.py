"""Write and read the manifest of a capture folder: the task, the machine, the commands that ran, and notes."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from nsysprof.attention.range_name import RangeKey
from nsysprof.attention.shape import Case
from nsysprof.capture.environment import check_environment
from nsysprof.capture.rank import rank_name
from nsysprof.errors import TraceError
from nsysprof.files.plain_file import VERSION, FileHeader, encode_json, json_value, read_json, write_whole
from nsysprof.notes import Note
from nsysprof.nsight.run_tool import Step
from nsysprof.results.checks import MissingSource
from nsysprof.results.column_registry.csv_table import format_cell

# The version of the format. 1: the first.
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
RESULTS = "results.csv"
NSYS_TRACE = "nsys.sqlite"
RANGES_ALONE = "ranges_alone.sqlite"  # a second recording, of ranges and nothing else
TORCH_TRACE = "torch.sqlite"


Rank = Annotated[int, Meta(ge=0, lt=10**7)]
Text = Annotated[str, Meta(max_length=100_000)]


@dataclass(frozen=True)
class RankTrace:
    """The result of recording one rank."""

    rank: Rank
    local_rank: Rank | None
    world_size: Annotated[int, Meta(ge=1, le=10**7)]
    # The same for all ranks of one host.
    host_token: Text
    # The path of the trace, relative to the capture folder; None when there is no trace.
    trace: Text | None = None
    report: Text | None = None
    # The exit code: 128 + n for signal n; None while the rank runs, or when it was lost.
    exit_code: int | None = None
    # The launcher's environment variables.
    variables: dict[str, str] = field(default_factory=dict)
    # How many times torchrun had restarted it before.
    attempt: int = 0


@dataclass(frozen=True)
class Program:
    """The program that a capture ran."""

    argv: tuple[str, ...]
    # The same as in RankTrace.
    exit_code: int | None = None
    ranks: tuple[RankTrace, ...] = ()


@dataclass
class Manifest:
    """The description of a capture. It is written again after each step, so that an interruption loses nothing."""

    cases: tuple[Case, ...]
    range_keys: tuple[str, ...]
    profiler: str
    traced_calls: int
    method: str
    created_utc: str
    complete: bool = False
    environment: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    # What was requested but could not be recorded.
    missing: list[MissingSource] = field(default_factory=list)
    # The program, for a capture of a program (which has no cases); None for a grid.
    program: Program | None = None

    def add_missing(self, source: MissingSource, note: Note) -> None:
        """Add something that could not be recorded, and the note that says why."""
        self.missing.append(source)
        self.notes.append(note)

    def to_json(self) -> dict[str, Any]:
        """Return the content of manifest.json."""
        return dict(json_value(_file_of(self)))


class _Program(Struct):
    """The program as it is stored in the file, where the ranks are separate."""

    argv: tuple[str, ...] = ()
    exit_code: int | None = None


class _ManifestFile(FileHeader, kw_only=True):
    """The content of manifest.json."""

    created_utc: Text
    complete: bool
    kind: Literal["grid", "program"] = "grid"
    profiler: Text
    method: Text
    traced_calls: Annotated[int, Meta(ge=0, le=10**9)]
    range_keys: tuple[RangeKey, ...]
    cases: tuple[Case, ...]
    environment: dict[str, Any]
    steps: list[Step]
    notes: list[Note]
    missing: tuple[MissingSource, ...] = ()
    # Only for a program; a bundle leaves both out.
    program: _Program | UnsetType = UNSET
    ranks: tuple[RankTrace, ...] | UnsetType = UNSET

    def __post_init__(self) -> None:
        check_environment(self.environment)


def _file_of(manifest: Manifest) -> _ManifestFile:
    program = manifest.program
    return _ManifestFile(
        format_version=FORMAT_VERSION,
        nsysprof_version=VERSION,
        created_utc=manifest.created_utc,
        complete=manifest.complete,
        kind="grid" if program is None else "program",
        profiler=manifest.profiler,
        method=manifest.method,
        traced_calls=manifest.traced_calls,
        range_keys=manifest.range_keys,
        cases=manifest.cases,
        environment=manifest.environment,
        steps=manifest.steps,
        notes=manifest.notes,
        missing=tuple(dict.fromkeys(manifest.missing)),
        program=UNSET if program is None else _Program(program.argv, program.exit_code),
        ranks=UNSET if program is None else program.ranks,
    )


def program_manifest(argv: tuple[str, ...], environment: dict[str, Any] | None = None) -> Manifest:
    """Return the manifest of a recording of a program that begins now."""
    return Manifest(
        cases=(),
        range_keys=(),
        profiler="nsys",
        traced_calls=0,
        method="",
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        program=Program(argv),
        environment={} if environment is None else environment,
    )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write manifest.json. Raises OutputError."""
    write_whole(folder / MANIFEST, encode_json(_file_of(manifest)))


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a capture. Raises TraceError when it is missing, not ours, or of a newer format."""
    path, advice = folder / MANIFEST, "Give the trace inside the folder instead."
    file = read_json(path, _ManifestFile, kind="a capture's manifest", advice=advice, newest=FORMAT_VERSION)
    ranks = file.ranks or ()
    for index, rank in enumerate(ranks):
        own = f"ranks/{rank_name(rank.rank)}"
        if {rank.trace, rank.report} - {None, f"{own}.sqlite", f"{own}.nsys-rep"}:
            text = f"{path} is not a capture's manifest: ranks[{index}] names a file of another rank."
            raise TraceError(text, advice)
    program = file.program or _Program()
    return Manifest(
        cases=file.cases,
        range_keys=file.range_keys,
        profiler=file.profiler,
        traced_calls=file.traced_calls,
        method=file.method,
        created_utc=file.created_utc,
        complete=file.complete,
        environment=file.environment,
        steps=file.steps,
        notes=file.notes,
        missing=list(file.missing),
        program=Program(program.argv, program.exit_code, ranks) if file.kind == "program" else None,
    )


def write_results(folder: Path, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    """Write results.csv with one row per case. Unknown values are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([format_cell(row.get(name)) for name in columns] for row in rows)
    write_whole(folder / RESULTS, (text.getvalue()).encode())
