"""Read what the user wants to share: a capture, a bench or a plain trace, with its files and its secrets."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nsysprof.bundle.name_tokens import NameTokens
from nsysprof.bundle.operator_file import OPERATOR_FILE, clean_operators, operator_file_name
from nsysprof.bundle.sanitize_json import LEFT_BEHIND, MEMBERS, OTHER_FILE, FileCleaner, private_values, public_values
from nsysprof.bundle.secret_values import collect_secrets, machine_secrets
from nsysprof.errors import TraceError, UsageError
from nsysprof.files.folder_state import STATE, require_whole
from nsysprof.files.plain_file import output_error, plain_json
from nsysprof.trace.columns import refuse_shared_pages
from nsysprof.trace.inputs.bundle_file import CONTENTS, is_bundle
from nsysprof.trace.inputs.resolve_input import PACKED, resolve_input
from nsysprof.trace.open import Trace, open_trace

CAPTURE, BENCH, TRACE, RANKS = "capture", "bench", "trace", "ranks"
_MANIFEST = "manifest.json"
_UNREAD = "it is damaged or missing; nsysprof analyze says more"
_LARGEST = 256 << 20  # bytes of a JSON or CSV file


@dataclass(frozen=True)
class BundledRank:
    """One rank of a job."""

    # The name of its trace in the bundle, such as `rank00003.sqlite`.
    name: str
    rank: int | None
    world_size: int | None
    # A token for the host.
    host: str | None
    # The same as in BundleSource. It is None where the trace is missing or cannot be read; `reason` says why.
    trace: Path | None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the rank as bundle.json lists it, in the form of a capture's manifest."""
        trace = None if self.trace is None else self.name
        return {"rank": self.rank, "world_size": self.world_size, "host_token": self.host, "trace": trace}


@dataclass(frozen=True)
class BundleSource:
    """What is to be shared, and what must not be."""

    kind: str
    # The SQLite file, in a temporary folder where the user has the trace in another form; None without a trace.
    trace: Path | None
    # The files of the folder by name, as texts.
    texts: dict[str, str] = field(default_factory=dict)
    # Values that must not be in the bundle, and values that may.
    secrets: frozenset[str] = frozenset()
    public: frozenset[str] = frozenset()
    # Files of the folder that are not shared, with the reason.
    left_behind: dict[str, str] = field(default_factory=dict)
    # The traces of several ranks, instead of one trace.
    ranks: tuple[BundledRank, ...] = ()
    # The operators of each process, as texts of JSON.
    operators: dict[int, str] = field(default_factory=dict)

    @property
    def traces(self) -> tuple[Path, ...]:
        """Return all traces; of ranks, those that can be read."""
        one = () if self.trace is None else (self.trace,)
        return (*one, *(rank.trace for rank in self.ranks if rank.trace is not None))

    def data(self, name: str) -> Any:
        """Return a JSON member, or an empty object where there is none."""
        return json.loads(self.texts.get(name, "{}"))


def refuse_bundle(path: Path) -> None:
    """Raise UsageError for a path that is a bundle already."""
    if is_bundle(path) or (path.is_dir() and (path / CONTENTS).is_file()):
        raise UsageError(
            f"{path} is a bundle already.", "Share it as it is; nsysprof analyze reads it and compares its checksums."
        )


def read_ranks(path: Path, ranks: Sequence[BundledRank]) -> BundleSource:
    """Return a folder of several traces, and its files that are on the list. Raises TraceError for damaged ones."""
    texts = {_MANIFEST: _read(path / _MANIFEST)} if (path / _MANIFEST).is_file() else {}
    parsed = {name: _parse(path / name, text) for name, text in texts.items()}
    inside = {rank.trace.name for rank in ranks if rank.trace is not None}
    shared = {*texts, "ranks", *inside, *(f"{name}{suffix}" for name in inside for suffix in PACKED)}
    # The reason is in our own words, because an error's text names the folder.
    names = (
        "one trace" if rank.rank is None else f"the trace of rank {rank.rank}" for rank in ranks if rank.trace is None
    )
    unread = dict.fromkeys(names, _UNREAD)
    reports = {"ranks/*.nsys-rep": LEFT_BEHIND["nsys.nsys-rep"]} if (path / "ranks").is_dir() else {}
    return _with_secrets(
        BundleSource(
            RANKS,
            None,
            texts,
            frozenset(value for data in parsed.values() for value in private_values(data)),
            frozenset(value for data in parsed.values() for value in public_values(data)),
            {**dict(_left_behind(path, shared)), **reports, **unread},
            tuple(ranks),
        )
    )


def read_source(path: Path, nsys: Path | None, work_dir: Path) -> BundleSource:
    """Read the user's input. Raises UsageError for a bundle, and TraceError in the same cases as resolve_input."""
    refuse_bundle(path)
    if path.is_dir():
        require_whole(path)
    if not path.is_dir() or not any((path / name).is_file() for name in ("manifest.json", "samples.json")):
        return _with_secrets(BundleSource(TRACE, resolve_input(path, nsys, work_dir)))
    texts = {member.name: _read(path / member.name) for member in MEMBERS if (path / member.name).is_file()}
    is_capture = "manifest.json" in texts
    parsed = {name: _parse(path / name, text) for name, text in texts.items() if name.endswith(".json")}
    trace = None
    if is_capture and parsed["manifest.json"].get("profiler") != "none":
        trace = resolve_input(path, nsys, work_dir)
    operators = {} if trace is None else _operators(path)
    shared = {*texts, trace.name if trace else "", f"{trace.name}.xz" if trace else ""}
    shared |= set(map(operator_file_name, operators))
    return _with_secrets(
        BundleSource(
            CAPTURE if is_capture else BENCH,
            trace,
            texts,
            frozenset(value for data in parsed.values() for value in private_values(data)),
            frozenset(value for data in parsed.values() for value in public_values(data)),
            dict(_left_behind(path, shared)),
            operators=operators,
        )
    )


def _operators(folder: Path) -> dict[int, str]:
    names = {path: OPERATOR_FILE.fullmatch(path.name) for path in sorted(folder.glob("nsys.operators-*.json"))}
    texts = {int(name[1]): _read(path) for path, name in names.items() if name is not None}
    for process, text in texts.items():
        _parse(folder / operator_file_name(process), text)
    return texts


def write_operators(source: BundleSource, names: NameTokens, processes: Mapping[int, int], out: Path) -> list[Path]:
    """Write the cleaned operators of each process that the rebuilt trace has, and return the files.

    processes: the number of each process in the rebuilt trace, by the original one.
    """
    written = []
    for process, text in source.operators.items():
        if process not in processes:
            continue
        target = out / operator_file_name(processes[process])
        try:
            target.write_text(plain_json(clean_operators(json.loads(text), names), None), encoding="utf-8", newline="")
        except OSError as error:
            raise output_error(target, error) from error
        written.append(target)
    return written


def clean_texts(source: BundleSource, names: NameTokens, out: Path) -> tuple[dict[str, Path], dict[str, set[str]]]:
    """Write the folder's files to `out` without the fields that are not on the list.

    Return the files, and what was dropped from each.
    """
    cleaner = FileCleaner(source.secrets, names)
    for name in source.texts:
        if name.endswith(".json"):
            for backend in _backends(source.data(name)):
                names.backend(backend)
    written = {}
    for member in MEMBERS:
        if member.name not in source.texts:
            continue
        if member.name.endswith(".json"):
            # Without spaces where it is long: the samples of a bench are a million numbers.
            data = source.data(member.name)
            if source.ranks:
                data.pop("ranks", None)  # bundle.json lists them
            data = cleaner.json(member.name, data)
            indent = 1 if len(source.texts[member.name]) < 1 << 20 else None
            text = plain_json(data, indent)
        else:
            text = cleaner.csv(member, source.texts[member.name])
        target = out / member.name
        try:
            target.write_text(text, encoding="utf-8", newline="")
        except OSError as error:
            raise output_error(target, error) from error
        written[member.name] = target
    return written, cleaner.left_out


def _with_secrets(source: BundleSource) -> BundleSource:
    """Return the source with every private value that its trace and this machine contain."""
    secrets = source.secrets | machine_secrets()
    for path in source.traces:
        with open_trace(path) as trace:
            refuse_shared_pages(trace)
            secrets |= collect_secrets(trace.connection)
            source = _replace(source, public=source.public | _gpu_names(trace))
    return _replace(source, secrets=secrets - source.public)


def _replace(source: BundleSource, **changes: Any) -> BundleSource:

    return replace(source, **changes)


def _gpu_names(trace: Trace) -> frozenset[str]:
    """Return the GPUs' names. Clouds put them into the environment, but every report names them too."""
    names: set[str] = set()
    for table in ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU"):
        try:
            names |= {
                name for (name,) in trace.connection.execute(f"SELECT name FROM {table}") if isinstance(name, str)
            }
        except sqlite3.DatabaseError as error:
            trace.explain(error)
    return frozenset(names)


def _backends(data: Any) -> Iterator[str]:
    """Yield the backends of a manifest's or plan's cases, in their order."""
    if not isinstance(data, dict):
        return
    cases = data.get("cases") or (data.get("plan") or {}).get("cases") or []
    for case in cases if isinstance(cases, list) else []:
        if isinstance(case, dict) and isinstance(case.get("backend"), str):
            yield case["backend"]


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST:
            raise TraceError(f"{path} is larger than any file that nsysprof writes.", "Bundle the trace alone.")
        if path.exists() and not path.is_file():
            raise TraceError(f"{path} is not a plain file.", "Bundle the trace alone.")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}.", "Check the folder.") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path} is damaged: it is not UTF-8 text.", "Capture again, or bundle the trace.") from error


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path} is damaged: {error}.", "Capture again, or bundle the trace alone.") from error
    if not isinstance(data, dict):
        raise TraceError(f"{path} is damaged: it is not a JSON object.", "Capture again, or bundle the trace alone.")
    return data


def _left_behind(folder: Path, shared: set[str]) -> Iterator[tuple[str, str]]:
    """Yield what is not shared. Foreign files are counted and not named, because their names may be private."""
    others = 0
    for entry in sorted(folder.iterdir()):
        if entry.name in LEFT_BEHIND:
            yield entry.name, LEFT_BEHIND[entry.name]
        elif entry.name not in shared and entry.name not in _MADE_ANEW:
            others += 1
    if others:
        yield f"{others} other file{'s' if others > 1 else ''}", OTHER_FILE


# Files that bench and tune write from their samples. A bundle has its own, made from what is shared.
_MADE_ANEW_WORDS = (
    "report.md report.html report.json latency.png throughput.png scaling.png winners.png winners.csv results.json "
    "policy.json nsys.sqlite torch.sqlite"
)
_MADE_ANEW = frozenset((*_MADE_ANEW_WORDS.split(), STATE))
