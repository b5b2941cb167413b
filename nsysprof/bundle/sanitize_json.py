"""Our own JSON and CSV without user, host and folders."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from typing import Any

from nsysprof.bundle.redact import REDACTED, Redactor

# Who and where, under any spelling: dropped with their values.
_DROPPED_KEYS = {"hostname", "host", "host_name", "node", "user", "username", "user_name", "home", "cwd"} | {
    *("working_dir", "uuid", "gpu_uuid", "serial", "pci_bus_id")
}
_CREDENTIAL = re.compile(r"token|secret|passw|credential|api[-_]?key|private[-_]?key", re.IGNORECASE)


def sanitize_json(data: Any, secrets: Iterable[str]) -> Any:
    """A copy of JSON data: private keys dropped, absolute paths reduced to their last component, secrets replaced."""
    return _sanitize(data, Redactor(secrets))


def sanitize_csv(text: str, secrets: Iterable[str]) -> str:
    """The same for each cell of a CSV; private columns are dropped."""
    redactor = Redactor(secrets)
    rows = list(csv.reader(io.StringIO(text)))
    if not rows:
        return text
    kept = [i for i, name in enumerate(rows[0]) if name.lower() not in _DROPPED_KEYS]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(
        [redactor.redact_to_names(row[i]) for i in kept if i < len(row)] for row in rows
    )
    return out.getvalue()


def _sanitize(data: Any, redactor: Redactor) -> Any:
    if isinstance(data, dict):
        return {
            redactor.redact_to_names(str(key)): (
                _sanitize_argv(value, redactor) if key == "argv" else _sanitize(value, redactor)
            )
            for key, value in data.items()
            if str(key).lower() not in _DROPPED_KEYS
        }
    if isinstance(data, list | tuple):
        return [_sanitize(item, redactor) for item in data]
    return redactor.redact_to_names(data) if isinstance(data, str) else data


def _sanitize_argv(argv: Any, redactor: Redactor) -> Any:
    """A command line; what follows an option that is named like a credential is replaced."""
    if not isinstance(argv, list | tuple):
        return _sanitize(argv, redactor)
    result: list[Any] = []
    follows = False
    for argument in argv:
        text = argument if isinstance(argument, str) else str(argument)
        name, equals, _ = text.partition("=")
        is_credential = bool(_CREDENTIAL.search(name))
        if follows:
            result.append(REDACTED)
        elif is_credential and equals:
            result.append(f"{redactor.redact_to_names(name)}={REDACTED}")
        else:
            result.append(redactor.redact_to_names(text))
        follows = is_credential and not equals and text.startswith("-") and not follows
    return result
