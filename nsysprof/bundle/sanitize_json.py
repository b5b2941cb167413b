"""Clean our own JSON and CSV files: keep only the files of a folder, and of each only the fields, that are listed here.

A JSON field or a CSV column that is not listed is dropped with its value. To add a file, add a line to MEMBERS.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from nsysprof.bundle.name_tokens import REDACTED, NameTokens, Redactor
from nsysprof.bundle.secret_values import CREDENTIAL, is_public

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
