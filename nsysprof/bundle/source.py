"""Read what the user wants to share: a capture, a bench or a plain trace, with its files and its secrets."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from nsysprof.bundle.name_tokens import REDACTED, NameTokens, Redactor
from nsysprof.bundle.operator_file import OPERATOR_FILE, clean_operators, operator_file_name
from nsysprof.bundle.secret_values import CREDENTIAL, collect_secrets, is_public, machine_secrets
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


_NUMBER = re.compile(r"|[+-]?(\d[\d,]*)?(\.\d+)?(e[+-]?\d+)?|nan|inf|n/a|true|false", re.IGNORECASE)
_HEADER = re.compile(r"[\w .%/:()\[\]<>+*-]{1,120}")
_NUMBERS_OF_THE_MACHINE = frozenset({"process id", "pid", "thread id", "tid", "port"})
# Options in command lines of nsys, Python and nsysprof whose values are neither paths nor names.
_ARGUMENT = re.compile(
    r"-{1,2}[a-z][a-z-]*(=(true|false|all|none|node|graph|sqlite|stop|[a-z]{1,8}(,[a-z]{1,8}){1,5}|\d{1,9}))?"
    r"|(python[\d.]*|nsys|ncu|profile|export|nsysprof(\.[a-z_]+)*)(\.exe)?|(timed|traced)-(nsys|torch|none)\.json"
    r"|(--output=)?(nsys|torch)(\.sqlite|\.nsys-rep)?"
)
_ARGUMENT_TOKEN = "<argument>"
# Texts that may come from an exception of any library. A message from a private backend belongs to its author.
_MESSAGES = frozenset({"reason", "graph_reason", "why"})
_MESSAGE_TOKEN = "<message of a backend of one's own>"


class Role(Enum):
    """What the texts in a column are, which decides how they are cleaned."""

    TEXT = "a message of ours or of a library"  # paths, secrets and the user's backends are replaced
    KERNEL = "the name of a kernel"


@dataclass(frozen=True)
class Member:
    """A file of a folder. A CSV keeps its numbers, and the texts in the columns `texts`."""

    name: str
    texts: dict[str, Role] = field(default_factory=dict)
    # Whether columns that are not listed may hold numbers, because counters have too many names to list.
    any_number: bool = False


_CASE = (
    "range", "case", "backend", "dtype", "kv_dtype", "pass", "mask", "layout", "status", "reason", "graph_reason",
    "interval_of", "verdict", "dram_source", "limiter", "why",
)  # fmt: skip
MEMBERS: tuple[Member, ...] = (
    Member("manifest.json"),
    Member("samples.json"),
    Member("recording_cost.json"),
    Member("unrecorded.json"),
    Member("results.csv", dict.fromkeys(_CASE, Role.TEXT), any_number=True),
    Member(
        "counters.csv",
        {"kernel": Role.KERNEL} | dict.fromkeys(("run", "range", "grid", "block", "gpu"), Role.TEXT),
        any_number=True,
    ),
)
# The reason why a file of a capture is not in the bundle.
LEFT_BEHIND = {
    "logs": "what the programs printed",
    "nsys.nsys-rep": "holds the environment and command line, and cannot be cleaned",
    "ncu.ncu-rep": "holds the environment and command line, and cannot be cleaned",
    "ncu-traffic.ncu-rep": "holds the environment and command line, and cannot be cleaned",
    ".work": "belongs to a running capture",
}
OTHER_FILE = "not on the list of what a bundle may hold"

# What a measurement ran on, without host, user, folder or serial number.
_ENVIRONMENT_KEYS_WORDS = (
    "os python_version cpu_model cpu_count memory_bytes git_commit torch_version cuda_version device gpu_name "
    "gpu_memory_bytes compute_capability sdpa_flags tf32_matmul torch_threads cudnn_loaded_version cudnn_loaded_from "
    "cublas_loaded_version cublas_loaded_from gpu_count driver_version nsys_version ncu_version clocks comparable_hash "
    "cudnn_version triton_version nsysprof_version ceilings power_limit_w clocks_locked"
)
ENVIRONMENT_KEYS = frozenset(_ENVIRONMENT_KEYS_WORDS.split())
_FIELDS = (
    "backend seq kv_seq batch heads kv_heads head_dim dtype causal pass mask layout "
    "head_dim_v softcap sinks kv_dtype page_size approximate allow_error "
    "format_version created_utc complete profiler method traced_calls range_keys cases environment steps notes missing "
    "name argv exit_code program duration_ns code severity text next_step kind "
    "before during after samples sm_clock_mhz sm_clock_mhz_min sm_clock_mhz_max memory_clock_mhz temperature_c "
    "temperature_c_max power_w throttle_reasons unit values "
    "plan processes rounds sample_seconds warmup_seconds seed flush graph check copies case_timeout_s "
    "ceilings bytes_per_s l2_bytes_per_s link_bytes_per_s flops blocks "
    "cell process round status reason started_ns values_ns offsets_ns graph_ns "
    "other_caches_ns empty_ns sustained locked_clock_mhz "
    "graph_reason launch_share warmup_calls stable throttled peak_bytes errors case time_ns "
    "session alpha again_from least_samples input_bytes peak_reserved_bytes peak_beyond_inputs_bytes "
    "costs range instances plain_instances wall_med_ns plain_wall_med_ns slowdown slowdown_low slowdown_high "
    "is_distorted in_one_run steps_ns source"
)
JSON_KEYS = ENVIRONMENT_KEYS | frozenset(_FIELDS.split())
# Objects whose keys are data: ranges, dtypes, tensors, flags. Where the value is not an object, it is a plain field.
MAPS = frozenset({"samples", "flops", "errors", "sdpa_flags", "sm_clock_mhz"})


class FileCleaner:
    """Cleans the files of one folder; `left_out` says, by file, which fields were dropped.

    secrets: values to replace wherever they appear.
    """

    def __init__(self, secrets: Iterable[str], names: NameTokens) -> None:
        self._redactor = Redactor(secrets)
        self._names = names
        self.left_out: dict[str, set[str]] = {}

    def json(self, file: str, data: Any) -> Any:
        """Return a copy of JSON data with only the fields that are on the list."""
        return self._clean(file, self._without_messages(data))

    def _without_messages(self, data: Any) -> Any:
        """Return samples.json without the messages of the user's own backends."""
        if not isinstance(data, dict) or not isinstance(data.get("blocks"), list):
            return data
        plan: Any = data.get("plan") or {}
        blocks = []
        for block in data["blocks"]:
            try:
                backend = str(plan["cases"][block["cell"] // plan.get("copies", 1)]["backend"])
            except (TypeError, KeyError, IndexError, ZeroDivisionError, AttributeError):
                backend = ""
            messages = {key for key in _MESSAGES if isinstance(block, dict) and block.get(key)}
            is_own = self._names.is_own_backend(backend)
            blocks.append({**block, **dict.fromkeys(messages, _MESSAGE_TOKEN)} if messages and is_own else block)
        return {**data, "blocks": blocks}

    def csv(self, member: Member, text: str) -> str:
        """Return the columns on the list and, where the member allows it, other columns that hold only numbers."""
        rows = list(csv.reader(io.StringIO(text)))
        if not rows:
            return ""
        kept = [i for i, name in enumerate(rows[0]) if self._keeps_column(member, name, i, rows[1:])]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([rows[0][i] for i in kept])
        where = rows[0].index("backend") if "backend" in rows[0] else None
        for row in rows[1:]:
            is_own = where is not None and (where >= len(row) or self._names.is_own_backend(row[where]))
            writer.writerow([self._cell(member, rows[0][i], row[i], is_own) if i < len(row) else "" for i in kept])
        return out.getvalue()

    def _keeps_column(self, member: Member, name: str, index: int, rows: list[list[str]]) -> bool:
        if name in member.texts:
            return True
        if name.lower() in _NUMBERS_OF_THE_MACHINE:
            self._drop(member.name, name)
            return False
        numbers = all(_NUMBER.fullmatch(row[index]) for row in rows if index < len(row))
        if member.any_number and numbers and _HEADER.fullmatch(name) and self._text(name) == name:
            return True
        self._drop(member.name, f"column {index + 1}")
        return False

    def _cell(self, member: Member, column: str, cell: str, is_own: bool) -> str:
        if column not in member.texts:
            return cell
        if is_own and cell and column in _MESSAGES:
            return _MESSAGE_TOKEN
        if member.texts[column] is Role.KERNEL:
            return self._redactor.redact(self._names.kernel(cell)) if cell else cell
        return self._text(cell)

    def _clean(self, file: str, data: Any) -> Any:
        if isinstance(data, list | tuple):
            return [self._clean(file, item) for item in data]
        if isinstance(data, str):
            return self._text(data)
        if not isinstance(data, dict):
            return data
        kept: dict[str, Any] = {}
        for key, value in data.items():
            if key in MAPS and isinstance(value, dict):
                kept[key] = {self._text(str(name)): self._clean(file, item) for name, item in value.items()}
            elif key == "range" and isinstance(value, str):
                kept[key] = self._redactor.redact(self._names.range(value))
            elif key == "argv":
                kept[key] = self._argv(value)
            elif key == "environment" and isinstance(value, dict):
                for name in sorted(set(value) - ENVIRONMENT_KEYS):
                    self._drop(file, f"environment field {_known_or_blank(name)}")
                kept[key] = self._clean(file, {k: v for k, v in value.items() if k in ENVIRONMENT_KEYS})
            elif key in JSON_KEYS or key == "nsysprof_version":
                kept[key] = self._clean(file, value)
            else:
                self._drop(file, f"field {_known_or_blank(key)}")
        return kept

    def _text(self, text: str) -> str:
        """Return a text in which paths are cut to their last part where names are kept, and else become tokens."""
        named = self._names.text(text)
        return self._redactor.redact_to_names(named) if self._names.keep else self._redactor.redact(named)

    def _argv(self, argv: Any) -> list[str]:
        """Return a command line in which everything but options of a profiler or of nsysprof becomes a token.

        The value of an option with a name like a credential is replaced even where names are kept.
        """
        result: list[str] = []
        follows = False
        for argument in argv if isinstance(argv, list | tuple) else [argv]:
            text = self._redactor.redact_to_names(str(argument))
            name, equals, _ = text.partition("=")
            is_credential = bool(CREDENTIAL.search(name))
            if follows:
                result.append(REDACTED)
            elif is_credential and equals:
                result.append(f"{name if self._names.keep else _ARGUMENT_TOKEN}={REDACTED}")
            else:
                result.append(text if self._names.keep or _ARGUMENT.fullmatch(text) else _ARGUMENT_TOKEN)
            follows = is_credential and not equals and text.startswith("-") and not follows
        return result

    def _drop(self, file: str, what: str) -> None:
        self.left_out.setdefault(file, set()).add(what)


# Names of fields that identify a person or a machine, as spelled in any version. They are named when dropped, and
# searched for.
_PRIVATE_FIELDS_WORDS = (
    "hostname host host_name node user username user_name home cwd working_dir uuid gpu_uuid serial pci_bus_id"
)
_PRIVATE_FIELDS = frozenset(_PRIVATE_FIELDS_WORDS.split())


def _known_or_blank(name: str) -> str:
    """Return a field's name, or a placeholder where the name itself might be private."""
    return name if name in _PRIVATE_FIELDS else "of another name"


def private_values(data: Any) -> Iterator[str]:
    """Yield the texts in fields named like a host, a user or a folder. Nothing in the bundle may contain them."""
    if isinstance(data, dict):
        for key, value in data.items():
            if str(key).lower() in _PRIVATE_FIELDS or CREDENTIAL.search(str(key)):
                yield from (text for text in _texts(value) if not is_public(text))
            else:
                yield from private_values(value)
    elif isinstance(data, list):
        for item in data:
            yield from private_values(item)


def public_values(data: Any) -> Iterator[str]:
    """Yield the texts that an environment shares on purpose, e.g. the GPU's name, so that they are not secrets."""
    environment = data.get("environment") if isinstance(data, dict) else None
    if isinstance(environment, dict):
        yield from (text for key in ENVIRONMENT_KEYS for text in _texts(environment.get(key)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
