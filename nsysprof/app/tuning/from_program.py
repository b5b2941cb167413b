"""Tune for a program: tune its shapes instead of a grid, share the budget by their time, and compute the saving."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nsysprof.analysis.attention_tuning.choose_shapes import ChosenShapes, choose_shapes
from nsysprof.app.tuning.read_attention import read_captured_attention
from nsysprof.attention.case import Case, make_case
from nsysprof.attention.policy_file import AUTO
from nsysprof.environment import collect_gpus
from nsysprof.errors import UsageError
from nsysprof.results.optimization import CapturedAttention

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class ProgramShapes:
    """The attention that a program ran, and which of its shapes are tuned."""

    captured: CapturedAttention
    chosen: ChosenShapes


def read_program_shapes(source: Path, device: str) -> ProgramShapes:
    """Return what the program in a capture or analysis ran. Raises UsageError where it cannot be tuned here.

    device: where the tuning measures, "cuda" or "cpu".
    """
    captured = read_captured_attention(source)
    _check_machine(captured, device)
    chosen = choose_shapes(captured.uses)
    if not chosen.chosen:
        reasons = "; ".join(f"{each.calls:,} calls: {each.reason}" for each in chosen.refused)
        raise UsageError(
            f"None of the attention in {source} can be tuned: {reasons}.",
            "Change the program as these reasons suggest.",
        )
    return ProgramShapes(captured, chosen)


def cases_of(shapes: ProgramShapes, backends: Sequence[str]) -> tuple[Case, ...]:
    """Return the cases to measure, with torch's own choice among the backends."""
    names = tuple(dict.fromkeys((AUTO, *backends)))
    return tuple(make_case(backend, use.shape) for use in shapes.chosen.chosen for backend in names)


def _check_machine(captured: CapturedAttention, device: str) -> None:
    if captured.gpu_name is None:
        return
    if device == "cpu" and "NVIDIA" in captured.gpu_name:
        raise UsageError(
            f"The program ran on {captured.gpu_name}, and this tuning would measure on the CPU.",
            "Tune on the machine of the program.",
        )
    if device == "cuda":
        here = {str(gpu["name"]) for gpu in collect_gpus()}
        if here and captured.gpu_name not in here:
            raise UsageError(
                f"The program ran on {captured.gpu_name}, and this machine has {', '.join(sorted(here))}.",
                "Tune on the machine of the program, or capture it here.",
            )
