"""What nsys itself says of a recording, as notes: each kind with a code to test for and the next step."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nsysprof.notes import Note, Severity
from nsysprof.trace.schema import KERNEL, Tables

# ENUM_DIAGNOSTIC_SEVERITY_LEVEL: 1 info, 2 warning, 3 error, 4 verbose.
_WARNING, _ERROR = 2, 3
_MOST_OF_A_KIND = 5
_LENGTH = 300
_KINDS = (
    (
        "driver-newer-than-nsys", re.compile(r"driver.*not supported|not supported.*driver", re.IGNORECASE),
        "Kernels may be missing without another word: record with an nsys that is newer than the driver (nvidia-smi).",
    ),
    (
        "sampling-overflow", re.compile(r"overflow|GPU Metrics.*(dropp|lost|missing)", re.IGNORECASE),
        "Sample with a lower --gpu-metrics-frequency or --sampling-frequency, or trace less at once.",
    ),
    (
        "events-lost",
        re.compile(r"not all .*collected|\b(dropped|lost|incomplete|missing|truncated)\b", re.IGNORECASE),
        "Record a shorter part (--capture-range, --duration) or less (--trace), and let the program end itself.",
    ),
    (
        "collection-failed", re.compile(r"\bfailed\b|\bfailure\b|cannot|could not|unable to", re.IGNORECASE),
        "Read nsys' message: what it names was not recorded.",
    ),
)  # fmt: skip
# A helper process without CUDA makes nsys say this too; it means something only when nothing was recorded.
_NOT_STARTED = re.compile(r"might have not been started", re.IGNORECASE)


def diagnostic_notes(tables: Tables) -> list[Note]:
    """The messages of nsys that change what the numbers mean, without paths; at most five of a kind."""
    return notes_of_messages(tables.diagnostics, has_kernels=KERNEL in tables.recorded)


def notes_of_messages(messages: list[tuple[int, str]], *, has_kernels: bool) -> list[Note]:
    """As diagnostic_notes, of (severity, text)."""
    notes: dict[str, list[Note]] = {}
    for note in dict.fromkeys(_notes(messages, has_kernels)):
        notes.setdefault(note.code, []).append(note)
    return [note for of_kind in notes.values() for note in of_kind[:_MOST_OF_A_KIND]]


def _notes(messages: list[tuple[int, str]], has_kernels: bool) -> Iterator[Note]:
    for severity, text in messages:
        line = re.sub(r"(?:[A-Za-z]:)?[/\\][^\s'\"]+", "<path>", text.strip().split("\n")[0][:_LENGTH])
        kind = next(((code, step) for code, pattern, step in _KINDS if pattern.search(line)), None)
        level = Severity.ERROR if severity == _ERROR else Severity.WARNING
        if kind is not None:
            yield Note(kind[0], level, f"nsys says: {line}", kind[1])
        elif severity == _ERROR:
            yield Note("nsys-diagnostic", level, f"nsys says: {line}", "Record again once its cause is gone.")
        elif severity == _WARNING and _NOT_STARTED.search(line) and not has_kernels:
            yield Note("collection-failed", level, f"nsys says: {line}", "See that no other profiler runs.")
