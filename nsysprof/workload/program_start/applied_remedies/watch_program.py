"""Apply the remedies that NSYSPROF_REMEDIES names, and write what took effect and what the program does by itself.

It needs only torch, because it runs in the program's own Python. NSYSPROF_REMEDIES_FOLDER is the folder for PID.json;
without it nothing is written. NSYSPROF_SEED seeds random numbers at the import of torch. NSYSPROF_END_STEPS and
NSYSPROF_END_S end a program, as sys.exit(0) does, after so many steps, or after so many seconds and twelve steps.
A step is one of the first optimizer, or else a call of the outermost module.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from ..step_watch import EndedSteps
from ..watched_program.after_import import attempt
from ..watched_program.module_places import find_place
from ..watched_program.process_file import write_json
from .flags import CudnnBenchmark, FlagSettings, Tf32
from .modules import Autocast, ChannelsLast, Compile, Liger, Rounded, describe_module
from .outer_modules import OuterModules
from .remedy import AppliedRemedy
from .training import Buckets, FreeGradients, FrozenGarbage, FusedOptimizer, GarbageTime, Loader, Made, NoSync
from .value_samples import ValueSampler, seed_all

WANTED, FOLDER, SEED = "NSYSPROF_REMEDIES", "NSYSPROF_REMEDIES_FOLDER", "NSYSPROF_SEED"
END_STEPS, END_S = "NSYSPROF_END_STEPS", "NSYSPROF_END_S"
# Whether these are there decides what can be tried.
_LIBRARIES = ("transformers", "diffusers", "vllm", "liger_kernel", "flash_attn")
# The order in which remedies change a module: what replaces layers first, what compiles them last.
_ORDER = ("liger", "channels_last", "autocast", "compile")
# After so many steps the program is warm, and flags are read back for the first time.
_WARM_STEPS = 3
# A program that takes too long is not ended before so many steps: with fewer, nothing could be compared.
_LEAST_STEPS = 12


class ProgramWatch:
    """The remedies of this process, and what was seen of it."""

    def __init__(self, torch: Any, wanted: str) -> None:
        self.torch, self.began = torch, time.monotonic()
        # Whether anything is measured; otherwise remedies are only applied.
        self.measures = bool(os.environ.get(FOLDER))
        self.flags, self.made = FlagSettings(torch), Made(torch)
        self.samples, self.garbage = ValueSampler(torch), GarbageTime()
        self.calls = EndedSteps(torch)
        self.optimizer_steps = self.outer_calls = 0
        self.modules: list[dict[str, Any]] = []
        self.optimizers: list[dict[str, Any]] = []
        self._stepped: list[int] = []
        self.ended_early = False
        self._flags_when_warm: dict[str, Any] = {}
        # The remedies by name, those that fail with the reason, and whether each was in force after the warm-up.
        self.remedies: dict[str, AppliedRemedy] = {}
        self.problems: dict[str, str] = {}
        self._in_force: dict[str, bool] = {}
        for name in filter(None, wanted.split(",")):
            self._guard(name, lambda name=name: self._add(name))  # type: ignore[misc]

    def _add(self, name: str) -> None:
        kind, _, option = name.partition("=")
        makers: dict[str, Callable[[], AppliedRemedy]] = {
            "tf32": lambda: Tf32(self.torch, option, self.flags),
            "cudnn_benchmark": lambda: CudnnBenchmark(self.torch, option, self.flags),
            "compile": lambda: Compile(self.torch, option),
            "channels_last": lambda: ChannelsLast(self.torch, option),
            "autocast": lambda: Autocast(self.torch, option),
            "liger": lambda: Liger(self.torch, option),
            "rounded": lambda: Rounded(self.torch, option),
            "optimizer": lambda: FusedOptimizer(self.torch, option, self.made),
            "free_gradients": lambda: FreeGradients(self.torch, option, self.made),
            "loader": lambda: Loader(self.torch, option, self.made),
            "ddp_buckets": lambda: Buckets(self.torch, option, self.made),
            "ddp_no_sync": lambda: NoSync(self.torch, option),
            "freeze_garbage": lambda: FrozenGarbage(self.torch, option),
        }
        if kind not in makers:
            raise ValueError(f"there is no remedy {kind}")
        self.remedies[name] = makers[kind]()

    def begin(self) -> None:
        """Apply what acts at the import of torch, and watch the program."""
        seed = os.environ.get(SEED)
        if seed:
            seed_all(self.torch, int(seed))
        self.flags.begin()
        self.made.begin()
        if self.measures:
            self.samples.begin()
        for name, remedy in self.remedies.items():
            self._guard(name, remedy.begin)
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        register_optimizer_step_pre_hook(lambda optimizer, _arguments, _named: self._before_step(optimizer))
        register_optimizer_step_post_hook(lambda optimizer, _arguments, _named: self._after_step(optimizer))
        OuterModules(self.torch, self._first_call, self._called).begin()

    def _guard(self, name: str, action: Callable[[], None]) -> None:
        """Do what a remedy does. One that fails is noted, and the program runs on."""
        try:
            action()
        except Exception as error:  # noqa: BLE001
            self.problems.setdefault(name, f"{type(error).__name__}: {error}"[:300])

    def _first_call(self, module: Any) -> None:
        place = find_place(self.torch)
        self._guard("", lambda: self.modules.append(describe_module(self.torch, module, place)))
        for name, remedy in sorted(self.remedies.items(), key=_turn_of):
            self._guard(name, lambda remedy=remedy: remedy.on_module(module))  # type: ignore[misc]

    def _called(self, _module: Any, output: Any) -> None:
        self.outer_calls += 1
        if self.optimizer_steps:
            return
        if self.measures:
            self._guard("", lambda: self.samples.take_output(output))
            self.calls.mark()
        if not self.torch.is_grad_enabled():
            self._stepped_once(self.outer_calls)

    def _before_step(self, optimizer: Any) -> None:
        for name, remedy in self.remedies.items():
            self._guard(name, remedy.before_step)
        if id(optimizer) in self._stepped:
            return
        self._stepped.append(id(optimizer))
        if len(self._stepped) == 1 and self.measures:
            self._guard("", lambda: self.samples.before_step(optimizer))
        self._guard("", lambda: self.optimizers.append(self._describe(optimizer)))
        for name, remedy in self.remedies.items():
            self._guard(name, lambda remedy=remedy: remedy.on_optimizer(optimizer))  # type: ignore[misc]

    def _describe(self, optimizer: Any) -> dict[str, Any]:
        first = optimizer.param_groups[0]
        parameters = [item for group in optimizer.param_groups for item in group["params"]]
        return {
            "kind": type(optimizer).__name__,
            "place": self.made.places.get(optimizer, ""),
            "device": parameters[0].device.type if parameters else "",
            "fused": first.get("fused"),
            "foreach": first.get("foreach"),
            "has_fused": "fused" in first,
            "has_foreach": "foreach" in first,
            "tensors": len(parameters),
        }

    def _after_step(self, optimizer: Any) -> None:
        for name, remedy in self.remedies.items():
            self._guard(name, remedy.after_step)
        if not self._stepped or id(optimizer) != self._stepped[0]:
            return
        self.optimizer_steps += 1
        if self.measures:
            self._guard("", lambda: self.samples.after_step(optimizer))
        self._stepped_once(self.optimizer_steps)

    def _stepped_once(self, steps: int) -> None:
        if steps == _WARM_STEPS:
            self._flags_when_warm = self.flags.read()
            for name, remedy in self.remedies.items():
                self._guard(name, remedy.on_warm)
                self._guard(name, lambda name=name, remedy=remedy: self._look(name, remedy))  # type: ignore[misc]
            if self.measures:
                self.garbage.begin()
        limit, seconds = os.environ.get(END_STEPS), os.environ.get(END_S)
        is_late = seconds and steps >= _LEAST_STEPS and time.monotonic() - self.began >= float(seconds)
        if is_late or (limit and steps >= int(limit)):
            self.ended_early = True
            sys.exit(0)

    def _look(self, name: str, remedy: AppliedRemedy) -> None:
        self._in_force[name] = remedy.is_in_force()

    def to_json(self) -> dict[str, Any]:
        """Return everything that was seen. Waits for the GPU."""
        steps = self.optimizer_steps or self.outer_calls
        data: dict[str, Any] = {
            "process": os.getpid(),
            "rank": os.environ.get("RANK", "0"),
            "optimizer_steps": self.optimizer_steps,
            "outer_calls": self.outer_calls,
            "ended_early": self.ended_early,
            "remedies": self.effects(),
            "problem": self.problems.get("", ""),
            "flags": self._flags_when_warm or self.flags.read(),
            "settings": [[flag, str(value), place] for flag, value, place in self.flags.settings],
            "modules": self.modules[:20],
            "optimizers": self.optimizers[:20],
            "loaders": self.made.loaders[:20],
            "wrapped": self.made.wrapped[:20],
            "zeroing": self.made.zeroing[:20],
            "garbage_ns": self.garbage.spent_ns if steps > _WARM_STEPS else None,
            "libraries": [name for name in _LIBRARIES if name in sys.modules],
            "installed": [name for name in _LIBRARIES if _is_installed(name)],
            "expandable": _has_expandable_segments(self.torch),
            "attention_backend": _diffusers_backend(),
        }
        if not self.optimizer_steps:
            data["calls_ns"] = self.calls.durations_ns()
        data["samples"] = self.samples.to_json()
        return data

    def effects(self) -> list[dict[str, Any]]:
        """Return whether each remedy is in force, and what shows it."""
        return [self._effect(name) for name in {**self.remedies, **self.problems} if name]

    def tell_lost(self) -> None:
        """Print which remedies are not in force at the end, and why."""
        for effect in self.effects():
            if not effect["took_effect"]:
                print(f"nsysprof remedies: {effect['name']} is not in force: {effect['evidence']}", file=sys.stderr)  # noqa: T201

    def _effect(self, name: str) -> dict[str, Any]:
        """Return whether a remedy was in force after the warm-up and is at the end, and what shows it."""
        problem = self.problems.get(name, "")
        if name not in self.remedies:
            return {"name": name, "took_effect": False, "evidence": problem, "replaced": []}
        remedy = self.remedies[name]
        evidence = remedy.evidence()
        in_force = remedy.is_in_force() and self._in_force.get(name, True)
        if not in_force:
            evidence = problem or remedy.why_not or f"{evidence}: the program undoes it"
        return {"name": name, "took_effect": in_force, "evidence": evidence, "replaced": remedy.replaced[:10]}


def _turn_of(item: tuple[str, AppliedRemedy]) -> int:
    kind = item[0].partition("=")[0]
    return _ORDER.index(kind) if kind in _ORDER else -1


def _is_installed(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _has_expandable_segments(torch: Any) -> bool | None:
    """Return whether torch's allocator on the GPU has them; None without a GPU in use."""
    if not torch.cuda.is_initialized():
        return None
    return any(segment.get("is_expandable") for segment in torch.cuda.memory_snapshot())


def _diffusers_backend() -> str | None:
    """Return which backend diffusers takes for its attention; None without diffusers."""
    dispatch = sys.modules.get("diffusers.models.attention_dispatch")
    registry = getattr(dispatch, "_AttentionBackendRegistry", None)
    if registry is None:
        return None
    active = registry.get_active_backend()[0]
    return str(getattr(active, "value", active))


def begin(torch: Any) -> None:
    """Begin in a process that has just imported torch."""
    watch, process = ProgramWatch(torch, os.environ.get(WANTED, "")), os.getpid()
    watch.begin()
    atexit.register(lambda: _write(watch, process) if watch.measures else _tell(watch, process))


def _tell(watch: ProgramWatch, process: int) -> None:
    if os.getpid() == process and (watch.outer_calls or watch.optimizer_steps):
        watch.tell_lost()


def _write(watch: ProgramWatch, process: int) -> None:
    if os.getpid() != process:  # a fork of the process that is watched
        return
    path = os.path.join(os.environ[FOLDER], f"remedies-{process}.json")  # noqa: PTH118
    attempt(lambda: write_json(path, watch.to_json()), "what the remedies did is not known")
