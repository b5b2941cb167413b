"""Read the table of remedies, and decide which of them a program could use."""

from __future__ import annotations

import functools
import os
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import msgspec

from nsysprof.app.measuring.program_request import ProgramSide
from nsysprof.results.program_runs import ProgramTraits

# From this share of the steps' time on (percent), Python's garbage collector is worth freezing.
LEAST_GARBAGE_PCT = 0.5
# From this share of all kernels' time (percent) on, matrix products in fp32 are worth trying with TF32.
LEAST_FP32_PCT = 5.0
# A loader gets so many workers at most, and half of the CPUs.
_MOST_WORKERS = 8


class Remedy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One remedy; the head of remedies.toml describes the fields."""

    name: str
    kind: str
    title: str
    switch: str = ""
    variables: dict[str, str] = {}
    arguments: tuple[str, ...] = ()
    answers: tuple[str, ...]
    needs: tuple[str, ...]
    usual_pct: float
    start_s: float = 0.0
    after: tuple[str, ...] = ()
    code: str
    edit: str
    changes: str
    unless: str
    precision: str

    def side(self) -> ProgramSide:
        """Return how the program is run with it."""
        switches = (self.switch.format(workers=loader_workers()),) if self.switch else ()
        return ProgramSide(tuple(self.variables.items()), None, switches, self.arguments)

    def paste(self, model: str = "model") -> str:
        """Return what to write in the program. model: its name for the outermost module."""
        return self.code.format(model=model, workers=loader_workers())


@functools.cache
def read_remedies() -> Mapping[str, Remedy]:
    """Return the table, by name."""
    data = tomllib.loads((files("nsysprof") / "app/optimizing/remedies.toml").read_text(encoding="utf-8"))
    return {name: msgspec.convert({"name": name, **fields}, Remedy) for name, fields in data.items()}


def loader_workers() -> int:
    """Return how many workers a loader without any gets."""
    return max(2, min(_MOST_WORKERS, (os.cpu_count() or 2) // 2))


@dataclass(frozen=True)
class Circumstances:
    """What decides whether a remedy can be tried: the program's traits, its findings, and what the user allows."""

    traits: ProgramTraits | None
    argv: Sequence[str] = ()
    findings: Collection[str] = ()
    libraries: Collection[str] = ()
    steps_ns: int = 0
    allow_precision: bool = False
    # The share of plain fp32 products in the time of all kernels (percent); None where the trace has no kernels.
    fp32_share_pct: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


def why_not(remedy: Remedy, around: Circumstances) -> str:
    """Return the first need of a remedy that the program does not meet, as text; empty where it meets all."""
    for need in remedy.needs:
        if need == "finding":
            if not {*remedy.answers} & {*around.findings}:
                return f"there is no finding {' or '.join(remedy.answers)}"
            continue
        text, is_met = _NEEDS[need]
        if not is_met(around):
            return text
    return ""


def _modules(around: Circumstances) -> Sequence[dict[str, object]]:
    return () if around.traits is None else around.traits.modules


def _optimizers(around: Circumstances) -> Sequence[dict[str, object]]:
    return () if around.traits is None else around.traits.optimizers


def _loaders(around: Circumstances) -> Sequence[dict[str, object]]:
    return () if around.traits is None else around.traits.loaders


def _uses_gpu(around: Circumstances) -> bool:
    if around.fp32_share_pct:  # the trace has kernels
        return True
    return any(item["device"] == "cuda" for item in (*_modules(around), *_optimizers(around)))


def _is_fp32(around: Circumstances) -> bool:
    if around.fp32_share_pct is not None and around.fp32_share_pct >= LEAST_FP32_PCT:
        return True
    return any(module["is_fp32"] and not module["is_autocast"] for module in _modules(around))


def _can_fuse(around: Circumstances) -> bool:
    return any(item["has_fused"] and not item["fused"] for item in _optimizers(around))


def _can_foreach(around: Circumstances) -> bool:
    # On a GPU torch takes foreach by itself, unless the program forbids it.
    return any(
        item["has_foreach"] and not item["foreach"] and (item["device"] != "cuda" or item["foreach"] is False)
        for item in _optimizers(around)
    )


def _flag(around: Circumstances, name: str) -> object:
    return None if around.traits is None else around.traits.flags.get(name)


def _collects(around: Circumstances) -> bool:
    spent = None if around.traits is None else around.traits.garbage_ns
    return bool(spent) and 100 * (spent or 0) >= LEAST_GARBAGE_PCT * around.steps_ns > 0


def _has_convolutions(around: Circumstances) -> bool:
    return any(_whole(module["convolutions"]) > _whole(module["channels_last"]) for module in _modules(around))


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _has_many_passes(around: Circumstances) -> bool:
    traits = around.traits
    return traits is not None and 0 < 2 * traits.optimizer_steps <= traits.outer_calls


def _is_vllm(around: Circumstances) -> bool:
    name = Path(around.argv[0]).name if around.argv else ""
    return name == "vllm" and "--attention-backend" not in around.argv


def _is_installed(name: str) -> Callable[[Circumstances], bool]:
    return lambda around: around.traits is not None and name in around.traits.installed


def _is_loaded(name: str) -> Callable[[Circumstances], bool]:
    return lambda around: name in around.libraries or (around.traits is not None and name in around.traits.libraries)


# Each need: what is missing where it is not met, and the test.
_NEEDS: Mapping[str, tuple[str, Callable[[Circumstances], bool]]] = {
    "gpu": ("the program's modules are not on a GPU", _uses_gpu),
    "fp32": ("the program does not compute in plain fp32", _is_fp32),
    "no-tf32": ("TF32 is on already", lambda around: _flag(around, "matmul") in ("highest", "ieee", None)),
    "precision": ("it lowers the precision to bf16: needs --allow-precision", lambda around: around.allow_precision),
    "module": ("no module with parameters is called from outside of any module", lambda around: bool(_modules(around))),
    "not-compiled": (
        "the program compiles its model by itself",
        lambda around: not any(module["is_compiled"] for module in _modules(around)),
    ),
    "convolution": ("the program has no nn.Conv2d in the common layout", _has_convolutions),
    "no-benchmark": ("cudnn.benchmark is on already", lambda around: not _flag(around, "cudnn.benchmark")),
    "can-fuse": ("no optimizer has a fused form that it does not use", _can_fuse),
    "can-foreach": ("no optimizer has a foreach form that it does not use", _can_foreach),
    "zeroing": ("zero_grad frees the gradients already", lambda around: bool(around.traits and around.traits.zeroing)),
    "loader-without-workers": (
        "there is no DataLoader without workers",
        lambda around: any(not loader["asked_workers"] for loader in _loaders(around)),
    ),
    "loader-not-pinned": (
        "there is no DataLoader without pinned memory",
        lambda around: any(not loader["is_pinned"] for loader in _loaders(around)),
    ),
    "ddp": ("the program has no DistributedDataParallel", lambda around: bool(around.traits and around.traits.wrapped)),
    "many-passes": ("each step of the optimizer has one pass of the model", _has_many_passes),
    "garbage": (f"Python's garbage collector takes less than {LEAST_GARBAGE_PCT:g} % of the steps", _collects),
    "transformers": ("the program does not use transformers", _is_loaded("transformers")),
    "diffusers": ("the program does not use diffusers", _is_loaded("diffusers")),
    "vllm-command": ("the command is not one of vLLM, or chooses its backend", _is_vllm),
    "liger_kernel": ("liger-kernel is not installed", _is_installed("liger_kernel")),
}
