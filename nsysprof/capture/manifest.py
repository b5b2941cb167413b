"""The manifest of a capture folder: what was asked, on what, which steps ran, and what to know about the result."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from nsysprof import __version__
from nsysprof.capture.rank import rank_name
from nsysprof.case import Case
from nsysprof.errors import TraceError
from nsysprof.notes import Note
from nsysprof.output import write_whole
from nsysprof.samples import Samples

# History of the format. 1: first.
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
SAMPLES = "samples.json"
RESULTS = "results.csv"
NSYS_TRACE = "nsys.sqlite"
TORCH_TRACE = "torch.sqlite"


@dataclass(frozen=True)
class Step:
    """One program that ran: its command line, exit code (None: killed or not ended) and duration."""

    name: str
    argv: tuple[str, ...]
    exit_code: int | None
    duration_ns: int


@dataclass(frozen=True)
class RankTrace:
    """What became of one rank. Paths are relative to the capture folder; None where there is no such file.

    host_token: equal for ranks of one host. exit_code: 128 + n for signal n; None while it runs or when it was lost.
    variables: what its launcher said. attempt: how often torchrun had started it anew.
    """

    rank: int
    local_rank: int | None
    world_size: int
    host_token: str
    trace: str | None = None
    report: str | None = None
    exit_code: int | None = None
    variables: dict[str, str] = field(default_factory=dict)
    attempt: int = 0


@dataclass(frozen=True)
class Program:
    """What a capture of a program ran. exit_code: as RankTrace has it."""

    argv: tuple[str, ...]
    exit_code: int | None = None
    ranks: tuple[RankTrace, ...] = ()


@dataclass
class Manifest:
    """Grows while the capture runs and is rewritten after each step, so that an interruption loses nothing.

    program: of a capture of a program, which has no cases; None for a grid.
    """

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
    program: Program | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "format_version": FORMAT_VERSION,
            "nsysprof_version": __version__,
            "created_utc": self.created_utc,
            "complete": self.complete,
            "kind": "grid" if self.program is None else "program",
            "profiler": self.profiler,
            "method": self.method,
            "traced_calls": self.traced_calls,
            "range_keys": list(self.range_keys),
            "cases": [case.to_json() for case in self.cases],
            "environment": self.environment,
            "steps": [
                {"name": s.name, "argv": list(s.argv), "exit_code": s.exit_code, "duration_ns": s.duration_ns}
                for s in self.steps
            ],
            "notes": [note.to_json() for note in self.notes],
            **({} if self.program is None else _program_json(self.program)),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Manifest:
        return Manifest(
            cases=tuple(Case.from_json(cell) for cell in data["cases"]),
            range_keys=tuple(data["range_keys"]),
            profiler=data["profiler"],
            traced_calls=data["traced_calls"],
            method=data["method"],
            created_utc=data["created_utc"],
            complete=data["complete"],
            environment=data["environment"],
            steps=[Step(s["name"], tuple(s["argv"]), s["exit_code"], s["duration_ns"]) for s in data["steps"]],
            notes=[Note.from_json(note) for note in data["notes"]],
            program=_read_program(data) if data.get("kind") == "program" else None,
        )


def _program_json(program: Program) -> dict[str, Any]:
    return {
        "program": {"argv": list(program.argv), "exit_code": program.exit_code},
        "ranks": [asdict(rank) for rank in program.ranks],
    }


def _read_program(data: dict[str, Any]) -> Program:
    """A bundle leaves the program and its ranks out."""
    program = data.get("program", {})
    known = {each.name for each in fields(RankTrace)}
    ranks = [RankTrace(**{key: value for key, value in rank.items() if key in known}) for rank in data.get("ranks", [])]
    for rank in ranks:
        if {rank.trace, rank.report} - {
            None,
            f"ranks/{rank_name(rank.rank)}.sqlite",
            f"ranks/{rank_name(rank.rank)}.nsys-rep",
        }:
            raise ValueError(f"rank {rank.rank} names a file that is none of its own")
    return Program(tuple(program.get("argv", ())), program.get("exit_code"), tuple(ranks))


def write_manifest(folder: Path, manifest: Manifest) -> None:
    write_whole(folder / MANIFEST, (json.dumps(manifest.to_json(), indent=1, ensure_ascii=False) + "\n").encode())


def read_manifest(folder: Path) -> Manifest:
    """Raises TraceError when the manifest is missing, not ours, or of a newer format."""
    path = folder / MANIFEST
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format_version"] > FORMAT_VERSION:
            raise TraceError(
                f"{path} was written by a newer nsysprof ({data.get('nsysprof_version')}).",
                "Update nsysprof.",
            )
        return Manifest.from_json(data)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TraceError(
            f"{path} is not a capture's manifest: {error}.", "Give the trace inside the folder instead."
        ) from error


def write_samples(folder: Path, samples: dict[str, Samples]) -> None:
    """All raw samples by range name."""
    data = {"format_version": FORMAT_VERSION, "samples": {name: s.to_json() for name, s in samples.items()}}
    write_whole(folder / SAMPLES, (json.dumps(data, indent=1) + "\n").encode())


def write_results(folder: Path, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    """One row a case; unknown is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: "" if row.get(key) is None else row[key] for key in columns})
    write_whole(folder / RESULTS, (text.getvalue()).encode())
