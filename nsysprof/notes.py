"""Notes: what a reader of a result must know, as values that every output format prints."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How much a note changes what the numbers mean."""

    INFO = "info"  # a fact about the method
    WARNING = "warning"  # some number is unknown or imprecise
    ERROR = "error"  # data is missing: counts are not to be trusted


@dataclass(frozen=True)
class Note:
    """One remark.

    code: stable and greppable, kebab-case (`launches-without-kernels`).
    text: what was seen, with numbers.
    next_step: what the reader can do; empty when there is nothing to do.
    """

    code: str
    severity: Severity
    text: str
    next_step: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Note:
        return Note(data["code"], Severity(data["severity"]), data["text"], data.get("next_step", ""))
