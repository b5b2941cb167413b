"""Define the questions and answers of `explain`, as files between the command and the process that loads torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nsysprof.attention.attention_call import AttentionCall
from nsysprof.attention.constraints import Constraint
from nsysprof.files.json_file import encode_json, read_json


@dataclass(frozen=True)
class EligibilityQuestion:
    """The question whether `backend` takes `call`, and what it runs."""

    backend: str
    call: AttentionCall


@dataclass(frozen=True)
class EligibilityJob:
    """All questions of one command."""

    questions: tuple[EligibilityQuestion, ...]
    # cuda or cpu.
    device: str
    # The file of JSON lines in which the process answers.
    events_path: str

    def write(self, path: Path) -> None:
        path.write_bytes(encode_json(self))

    @staticmethod
    def read(path: Path) -> EligibilityJob:
        return read_json(path, EligibilityJob, kind="a job of explain", advice="Run explain again.")


@dataclass(frozen=True)
class Ran:
    """What one call really ran, as torch's profiler shows it."""

    # ok, out_of_memory, error, timeout, crashed or not_run. All but ok have a reason.
    status: str
    reason: str = ""
    # flash, efficient, cudnn, math or other; None when unknown.
    family: str | None = None
    # Torch's own name of the path that it took.
    operator: str | None = None
    # The name, count and total_ns of each kernel; empty on the CPU, where only the operator can be seen.
    kernels: tuple[dict[str, Any], ...] = ()
    # Whether the family is the backend's own (for auto: the predicted one); None when unknown.
    as_asked: bool | None = None


@dataclass(frozen=True)
class EligibilityAnswer:
    """What is known about one question."""

    backend: str
    # None when it cannot be known here.
    eligible: bool | None
    # Why it is refused or cannot be known.
    reason: str = ""
    # Each constraint that failed.
    constraints: tuple[Constraint, ...] = ()
    # Similar calls that pass.
    nearest: tuple[AttentionCall, ...] = ()
    # Whether this torch has the backend, and whether this GPU's architecture supports it; None when unknown.
    built: bool | None = None
    supported: bool | None = None
    # Only for auto: the backend that torch says it will pick.
    predicted: str | None = None
    ran: Ran = field(default_factory=lambda: Ran("not_run"))
