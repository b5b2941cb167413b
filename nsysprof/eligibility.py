"""What `explain` asks and is answered: the files between the command and the process that has torch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nsysprof.attention_call import AttentionCall
from nsysprof.constraints import Constraint


@dataclass(frozen=True)
class Question:
    """Whether `backend` takes `call`, and what runs when it is asked to."""

    backend: str
    call: AttentionCall


@dataclass(frozen=True)
class EligibilityJob:
    """All questions of one command. device: cuda or cpu. events_path: JSON lines that the process answers with."""

    questions: tuple[Question, ...]
    device: str
    events_path: str

    def write(self, path: Path) -> None:
        questions = [{"backend": each.backend, "call": each.call.to_json()} for each in self.questions]
        data = {"questions": questions, "device": self.device, "events_path": self.events_path}
        path.write_text(json.dumps(data, indent=1), encoding="utf-8")

    @staticmethod
    def read(path: Path) -> EligibilityJob:
        data = json.loads(path.read_text(encoding="utf-8"))
        questions = tuple(
            Question(each["backend"], AttentionCall.from_json(each["call"])) for each in data["questions"]
        )
        return EligibilityJob(questions, data["device"], data["events_path"])


@dataclass(frozen=True)
class Ran:
    """What one call really ran, by torch's profiler.

    status: ok, out_of_memory, error, timeout, crashed or not_run; all but ok have a reason. family: flash, efficient,
    cudnn, math or other; None when unknown. operator: torch's own name of the path it took. kernels: name, count and
    total_ns of each; on the CPU none, the operator is all there is to see. as_asked: whether the family is the
    backend's (of auto: the predicted one); None when unknown.
    """

    status: str
    reason: str = ""
    family: str | None = None
    operator: str | None = None
    kernels: tuple[dict[str, Any], ...] = ()
    as_asked: bool | None = None


@dataclass(frozen=True)
class Answer:
    """What is known of one question.

    eligible: None when it cannot be known here; reason says why, also of a refusal. constraints: each that failed.
    nearest: calls that pass. built: whether this torch has the backend; supported: whether this GPU's architecture has;
    both None when unknown. predicted: of auto alone, the backend that torch says it will pick.
    """

    backend: str
    eligible: bool | None
    reason: str = ""
    constraints: tuple[Constraint, ...] = ()
    nearest: tuple[AttentionCall, ...] = ()
    built: bool | None = None
    supported: bool | None = None
    predicted: str | None = None
    ran: Ran = field(default_factory=lambda: Ran("not_run"))

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        data["nearest"] = [each.to_json() for each in self.nearest]
        return data

    @staticmethod
    def from_json(data: dict[str, Any]) -> Answer:
        fields = dict(data)
        fields["constraints"] = tuple(Constraint.from_json(each) for each in fields["constraints"])
        fields["nearest"] = tuple(AttentionCall.from_json(each) for each in fields["nearest"])
        ran = dict(fields.pop("ran"))
        return Answer(**fields, ran=Ran(**{**ran, "kernels": tuple(ran["kernels"])}))
