"""Make notes: remarks for the reader of a result, which every output format prints.

A note is made from the registry in notes.toml, which has its severity, text and next step. The code that makes the note
gives the facts. Code must not make decisions by a note: it decides by the fact, and makes the note from it. A `Loss` is
such a fact: something that should have been recorded is missing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from nsysprof.plain_text import plain_lines


class Severity(StrEnum):
    """How much a note changes the meaning of the numbers."""

    INFO = "info"  # a fact about the method
    WARNING = "warning"  # some number is unknown or imprecise
    ERROR = "error"  # data is missing: counts cannot be trusted


@dataclass(frozen=True)
class Note:
    """One remark about a result."""

    # Stable and easy to search for, in kebab-case (`launches-without-kernels`).
    code: str
    severity: Severity
    # What was observed, with numbers.
    text: str
    # What the reader can do; empty when there is nothing to do.
    next_step: str = ""

    def __post_init__(self) -> None:
        """Clean the texts, because names from a trace appear in notes and notes appear on terminals."""
        object.__setattr__(self, "text", plain_lines(self.text))
        object.__setattr__(self, "next_step", plain_lines(self.next_step))


@dataclass(frozen=True)
class Loss:
    """Data that should have been recorded and is missing, so that counts cannot be trusted.

    A loss is a fact, by which code may decide. Its note only tells the reader.

    anywhere: what may be missing at any time of the recording, in words; "" where the loss is confined.
    buffer: what the buffer was for that overflowed: "counters" or "records"; "" where none is known to.
    """

    note: Note
    anywhere: str = ""
    buffer: str = ""


Remark = Note | Loss


class Remarks(NamedTuple):
    """Notes about a result, and the losses that some of them describe."""

    notes: tuple[Note, ...]
    losses: tuple[Loss, ...]


def split_losses(remarks: Iterable[Remark]) -> Remarks:
    """Return the notes of all remarks in order, and the losses among them."""
    kept = tuple(remarks)
    notes = tuple(each.note if isinstance(each, Loss) else each for each in kept)
    return Remarks(notes, tuple(each for each in kept if isinstance(each, Loss)))


@dataclass(frozen=True)
class NoteKind:
    """One entry of the registry."""

    code: str
    # Distinguishes the texts of one code; empty for the first.
    variant: str
    # The section of the documentation that lists it.
    page: str
    # The usual severity first. Code that makes a note with another one must say so.
    severities: tuple[Severity, ...]
    # Templates for str.format.
    text: str
    next_step: str
    # The sentence in the documentation; for a code with variants, only one of them has it.
    meaning: str


def make_note(code: str, variant: str = "", /, *, severity: Severity | None = None, **facts: Any) -> Note:
    """Return a note of the registry with these facts filled in.

    Raises KeyError for a note or a fact that the registry does not contain, and ValueError for a severity that it does
    not allow.

    severity: the severity, where it is not the usual one.
    """
    kind = registry()[code, variant]
    chosen = kind.severities[0] if severity is None else severity
    if chosen not in kind.severities:
        raise ValueError(f"a note {code} is never of severity {chosen}")
    return Note(code, chosen, kind.text.format(**facts), kind.next_step.format(**facts))


def make_loss(code: str, variant: str = "", /, *, anywhere: str = "", **facts: Any) -> Loss:
    """Return a loss with its note, whose severity is error. Raises the same errors as make_note.

    anywhere: what may be missing at any time of the recording, in words; "" where the loss is confined.
    """
    return Loss(make_note(code, variant, severity=Severity.ERROR, **facts), anywhere)


@cache
def registry() -> dict[tuple[str, str], NoteKind]:
    """Return every kind of note by its code and variant, in the order of notes.toml."""
    data = tomllib.loads((files("nsysprof") / "notes.toml").read_text(encoding="utf-8"))
    kinds = [
        NoteKind(
            code=entry["code"],
            variant=entry.get("variant", ""),
            page=entry["page"],
            severities=tuple(Severity(each) for each in entry["severity"]),
            text=entry["text"].strip(),
            next_step=entry.get("next_step", "").strip(),
            meaning=entry.get("meaning", ""),
        )
        for entry in data["note"]
    ]
    return {(kind.code, kind.variant): kind for kind in kinds}
