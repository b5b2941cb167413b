"""Explain what nsys reports about a recording: each kind of message gets a code and a next step."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from nsysprof.notes import Remark, Severity, make_loss, make_note
from nsysprof.trace.schema import KERNEL, Tables

# Values of ENUM_DIAGNOSTIC_SEVERITY_LEVEL: 1 info, 2 warning, 3 error, 4 verbose.
_WARNING, _ERROR = 2, 3
_MOST_OF_A_KIND = 5
_SHOWN, _READ = 300, 4_000  # the longest message that is shown, in characters
_IMPORT_FAILED = re.compile(r"error when processing events|exterior index", re.IGNORECASE)
_REASON = re.compile(r"cannot find|exterior index|exception|\bwhat\(\)", re.IGNORECASE)
_KINDS = (
    ("driver-newer-than-nsys", re.compile(r"driver.*not supported|not supported.*driver", re.IGNORECASE)),
    ("sampling-overflow", re.compile(r"overflow|GPU Metrics.*(dropp|lost|missing)", re.IGNORECASE)),
    ("events-lost", re.compile(r"not all .*collected|\b(dropped|lost|incomplete|missing|truncated)\b", re.IGNORECASE)),
    ("collection-failed", re.compile(r"\bfailed\b|\bfailure\b|cannot|could not|unable to", re.IGNORECASE)),
)
# What nsys says of its own full buffers: something is lost, whatever severity it gives that.
COUNTERS, RECORDS = "counters", "records"
_OVERFLOWS = (
    (COUNTERS, re.compile(r"GPU Metrics.*(overflow|dropp|\blost\b)", re.IGNORECASE)),
    (RECORDS, re.compile(r"CUPTI dropped [1-9]|n.t allocate CUPTI buffers|CUPTI buffer allocation limit")),
)
# Messages that apply to every process, whichever process nsys names.
_OF_ALL = (_IMPORT_FAILED, *(pattern for _, pattern in _KINDS[:2]))
# nsys says this about a helper process without CUDA too. It matters only when nothing was recorded.
_NOT_STARTED = re.compile(r"might have not been started", re.IGNORECASE)
# A single slash between two words belongs to nsys' text (IP/TCP). A path begins with a slash or has several.
_PATH = re.compile(r"(?<![\w/\\])(?:[A-Za-z]:)?[/\\][^\s'\"]+|[\w.~-]+(?:[/\\][\w.~-]+){2,}")
_COUNT = re.compile(r"Number of (CUPTI events produced|CUDA events collected):\s*([0-9]{1,15})")
# nsys always leaves out some hundreds of calls per process, and up to a third of the records of a sound trace.
_FREE_EVENTS, _LEAST_SHARE = 1_000, 0.5

# What may be missing anywhere where nsys lost events.
_EVENTS_LOST = "nsys lost events"


def read_diagnostics(tables: Tables, *, lacks_work: bool) -> list[Remark]:
    """Return the messages of nsys that change what the numbers mean, without paths; at most five of a kind.

    Losses in a process without CUDA do not count against processes with CUDA.

    lacks_work: whether the events themselves show that some of them are missing.
    """
    return explain_messages(
        tables.diagnostics, tables.helper_diagnostics, has_kernels=KERNEL in tables.recorded, lacks_work=lacks_work
    )


def explain_messages(
    messages: list[tuple[int, str]],
    of_helpers: list[tuple[int, str]] | None = None,
    *,
    has_kernels: bool,
    is_strict: bool = False,
    lacks_work: bool = False,
) -> list[Remark]:
    """Return what read_diagnostics returns, for messages given as pairs of nsys' severity and text.

    of_helpers: messages about processes that use no CUDA. Only those that hold for every process count.
    is_strict: whether a full buffer is a loss also where nsys only warns of it.
    lacks_work: whether the events themselves show that some of them are missing.
    """
    of_all = [each for each in of_helpers or () if any(kind.search(each[1][:_READ]) for kind in _OF_ALL)]
    messages = [*messages, *of_all]
    kinds: dict[str, list[Remark]] = {}
    for code, remark in dict.fromkeys(_explain(messages, has_kernels, is_strict)):
        kinds.setdefault(code, []).append(remark)
    if lacks_work or "events-lost" in kinds:
        for code, remark in _counted(messages):
            kinds.setdefault(code, []).append(remark)
    return [remark for of_kind in kinds.values() for remark in of_kind[:_MOST_OF_A_KIND]]


def _explain(messages: list[tuple[int, str]], has_kernels: bool, is_strict: bool) -> Iterator[tuple[str, Remark]]:
    """Yield the code and the remark of each message that matters; one that nsys calls an error is a loss."""
    for severity, text in messages:
        lines = [line.strip() for line in text[:_READ].splitlines() if line.strip()] or [""]
        if any(_IMPORT_FAILED.search(line) for line in lines):
            reason = next((line for line in lines[1:] if _REASON.search(line)), "")
            said = _shown(f"{lines[0]} {reason}".strip())
            yield "import-failed", make_loss("import-failed", anywhere="nsys could not import all events", said=said)
            continue
        # The reason may be some lines below.
        found = next(
            ((code, line) for code, pattern in _KINDS for line in lines if pattern.search(line[:_SHOWN])), None
        )
        if found is not None:
            code, line = found
            said = _shown(line if line == lines[0] else f"{lines[0]} {line}")
            buffer = next((kind for kind, pattern in _OVERFLOWS if pattern.search(line)), "")
            if severity == _ERROR or (is_strict and buffer):
                anywhere = _EVENTS_LOST if code == "events-lost" else ""
                yield code, replace(make_loss(code, anywhere=anywhere, said=said), buffer=buffer)
            else:
                yield code, make_note(code, severity=Severity.WARNING, said=said)
        elif severity == _ERROR:
            yield "nsys-diagnostic", make_loss("nsys-diagnostic", said=_shown(lines[0]))
        elif severity == _WARNING and _NOT_STARTED.search(lines[0]) and not has_kernels:
            said = _shown(lines[0])
            note = make_note("collection-failed", "not-started", severity=Severity.WARNING, said=said)
            yield "collection-failed", note


def _counted(messages: list[tuple[int, str]]) -> Iterator[tuple[str, Remark]]:
    """Yield a remark when far fewer events arrived than CUPTI produced, whatever severity nsys gives that.

    nsys drops the calls that it does not trace, so the counts alone prove nothing: JAX's programs have three events
    produced for each one collected, and lack none. They only tell how much is missing where something is.
    """
    counts = {"CUPTI events produced": 0, "CUDA events collected": 0}
    for _, text in messages:
        for what, number in _COUNT.findall(text[:_READ]):
            counts[what] = int(number)  # of the process so far: the last one holds
    produced, collected = counts.values()
    if collected and produced - collected > _FREE_EVENTS and collected < _LEAST_SHARE * produced:
        yield (
            "events-lost",
            make_loss("events-lost", "counted", anywhere=_EVENTS_LOST, produced=produced, collected=collected),
        )


def _shown(text: str) -> str:
    """Return a message without paths, cut where it is long."""
    cut = text[:_SHOWN] + ("…" if len(text) > _SHOWN else "")
    return _PATH.sub("<path>", cut)
