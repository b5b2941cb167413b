"""Our own JSON and CSV files, less every field that is not on the list: see nsysprof.bundle.members."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from typing import Any

from nsysprof.bundle.members import ENVIRONMENT_KEYS, JSON_KEYS, MAPS, Member, Role
from nsysprof.bundle.name_tokens import NameTokens
from nsysprof.bundle.redact import REDACTED, Redactor
from nsysprof.bundle.secret_values import CREDENTIAL, is_public

_NUMBER = re.compile(r"|[+-]?(\d[\d,]*)?(\.\d+)?(e[+-]?\d+)?|nan|inf|n/a|true|false", re.IGNORECASE)
_HEADER = re.compile(r"[\w .%/:()\[\]<>+*-]{1,120}")
_NUMBERS_OF_THE_MACHINE = frozenset({"process id", "pid", "thread id", "tid", "port"})
# Of command lines: options of nsys, Python and ours, with values that are no paths and name nothing.
_ARGUMENT = re.compile(
    r"-{1,2}[a-z][a-z-]*(=(true|false|all|none|node|graph|sqlite|stop|[a-z]{1,8}(,[a-z]{1,8}){1,5}|\d{1,9}))?"
    r"|(python[\d.]*|nsys|ncu|profile|export|nsysprof(\.[a-z_]+)*)(\.exe)?|(timed|traced)-(nsys|torch|none)\.json"
    r"|(--output=)?(nsys|torch)(\.sqlite|\.nsys-rep)?"
)
_ARGUMENT_TOKEN = "<argument>"


class FileCleaner:
    """Cleans the files of one folder; `left_out` says, by file, which fields were dropped.

    secrets: values to replace wherever they stand.
    """

    def __init__(self, secrets: Iterable[str], names: NameTokens) -> None:
        self._redactor = Redactor(secrets)
        self._names = names
        self.left_out: dict[str, set[str]] = {}

    def json(self, file: str, data: Any) -> Any:
        """A copy of JSON data with the fields that are on the list."""
        return self._clean(file, data)

    def csv(self, member: Member, text: str) -> str:
        """The columns that are on the list; of others, where the member allows it, those that hold numbers alone."""
        rows = list(csv.reader(io.StringIO(text)))
        if not rows:
            return ""
        kept = [i for i, name in enumerate(rows[0]) if self._keeps_column(member, name, i, rows[1:])]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([rows[0][i] for i in kept])
        for row in rows[1:]:
            writer.writerow([self._cell(member, rows[0][i], row[i]) if i < len(row) else "" for i in kept])
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

    def _cell(self, member: Member, column: str, cell: str) -> str:
        if column not in member.texts:
            return cell
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
        """Paths become their last part where names are kept, and a token otherwise."""
        named = self._names.text(text)
        return self._redactor.redact_to_names(named) if self._names.keep else self._redactor.redact(named)

    def _argv(self, argv: Any) -> list[str]:
        """A command line. What is no option of a profiler or of ours may be anything, and becomes a token.

        What follows an option that is named like a credential goes even where names are kept.
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


# Who and where, in any spelling of ours or of another version: worth a name when it is dropped, and worth a search.
_PRIVATE_FIELDS_WORDS = (
    "hostname host host_name node user username user_name home cwd working_dir uuid gpu_uuid serial pci_bus_id"
)
_PRIVATE_FIELDS = frozenset(_PRIVATE_FIELDS_WORDS.split())


def _known_or_blank(name: str) -> str:
    """A field's name, unless that itself might tell something."""
    return name if name in _PRIVATE_FIELDS else "of another name"


def private_values(data: Any) -> Iterator[str]:
    """The texts in fields that are named like a host, a user or a folder: nothing of the bundle may hold them."""
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
    """The texts that an environment shares on purpose, e.g. the GPU's name: a variable of that value is no secret."""
    environment = data.get("environment") if isinstance(data, dict) else None
    if isinstance(environment, dict):
        yield from (text for key in ENVIRONMENT_KEYS for text in _texts(environment.get(key)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
