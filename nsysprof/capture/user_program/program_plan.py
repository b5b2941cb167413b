"""Define ProgramPlan: how a user's program is recorded, decided before it runs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsysprof.errors import UsageError

NO_RANGE, PROFILER_API, NVTX_RANGE = "none", "cudaProfilerApi", "nvtx:"
# nsysprof sets these options itself: with other values the folder would not hold what the manifest says.
_RESERVED = (
    "--output", "--force-overwrite", "--export", "--session-new", "--start-later", "--capture-range", "--nvtx-capture",
    "--capture-range-end", "--delay", "--duration", "--stats", "--trace",
)  # fmt: skip
# Launchers that can start this command once per rank. With torch's launcher, nsysprof can reach the workers itself.
_RANK_STARTERS = ("srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "jsrun", "aprun", "flux")
_TORCH_LAUNCHERS = ("torchrun", "accelerate", "torchx")
_TORCH_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")


# With --stacks, calls of CUDA that take longer than this (ns) have the stack of native functions that led to them. nsys
# takes none while it samples no processor.
NATIVE_STACKS_NS = 80_000
# In a list of kinds of calls, nsys (2024.2 and 2025.3) applies only the last one, so all kinds are requested.
NATIVE_STACKS = ("--sample=process-tree", f"--cudabacktrace=all:{NATIVE_STACKS_NS}")

# The APIs that nsys records unless others are given. Of the OS runtime, only calls that last long (ns), since a program
# may make millions of short ones. nsysprof does not read their stacks; the longest threshold leaves out nearly all.
USUAL_TRACE = "cuda,nvtx,osrt"
LONG_OS_CALL_NS = 100_000
OS_CALL_OPTIONS = (f"--osrt-threshold={LONG_OS_CALL_NS}", f"--osrt-backtrace-threshold={2**31 - 1}")

# The kind of trace that a probe uses where CUDA is traced only in software.
SOFTWARE_TRACE = "cuda-sw,nvtx"


def software_trace(apis: str) -> str:
    """Return the APIs with CUDA traced only in software."""
    return ",".join("cuda-sw" if api == "cuda" else api for api in apis.split(","))


# What a Python program can record about itself.
RECORDED_KINDS = ("memory", "stacks", "attention", "operators", "layers")


@dataclass(frozen=True)
class ProgramPlan:
    """How a program is recorded."""

    argv: tuple[str, ...]
    # Whether each worker of torch's launcher gets its own trace. Otherwise all processes here share one.
    per_rank: bool = False
    # The APIs that nsys records.
    trace: str = USUAL_TRACE
    # The capture range: "none", "cudaProfilerApi" or "nvtx:NAME[@DOMAIN]".
    capture_range: str = NO_RANGE
    # The recording begins after delay_s and lasts duration_s (s); 0 means until the end.
    delay_s: int = 0
    duration_s: int = 0
    # Whether the program is ended together with the recording.
    end_program: bool = False
    # The rate at which counters are sampled (Hz); 0: never.
    gpu_metrics_hz: int = 0
    # Whether torch's CUDA allocator records who allocates.
    memory: bool = False
    # Whether Python's stacks are sampled, and native stacks are recorded in slow calls.
    stacks: bool = False
    # Whether each call of attention becomes a range.
    attention: bool = False
    # Whether the operators of a few steps are recorded, with their shapes.
    operators: bool = False
    # Whether each call of a module of torch becomes a range; how many parts their paths may have (0: any, None:
    # as many as take little time), and the regular expression that their paths match (empty: all).
    layers: bool = False
    layer_depth: int | None = None
    layer_pattern: str = ""
    # The ranks to record; empty: all.
    ranks: tuple[int, ...] = ()
    # With torch's own profiler: how many steps to skip, and how many to record: of the optimizer, or calls of the
    # outermost module (0: no limit).
    skip_steps: int = 0
    steps: int = 0
    forward_steps: int = 0
    # Further options for nsys. An option of the same name replaces ours.
    nsys_options: tuple[str, ...] = ()
    # Options that a probe of this machine chose, because the usual ones lose data.
    settled: tuple[str, ...] = ()
    # Options that replace all others, because the others lost data here.
    less: tuple[str, ...] = ()
    # Whether the options of nsys are tried out first where nothing is known about this machine.
    probe: bool = True
    # How much nsys may write while it records (bytes); 0: as much as fits on the disk.
    max_bytes: int = 0
    # Whether nsys' own reports stay beside the traces.
    keep_report: bool = True
    # Whether to run the program once more with only its ranges recorded, and once without a profiler, to measure what
    # recording costs; None: only the latter, and only if the program is short.
    measure_cost: bool | None = None
    # Whether the rates that the GPU reaches are measured after the program.
    ceilings: bool = False
    # Whether the program runs again under ncu, and for how long at most (s).
    counters: bool = False
    counters_budget_s: int = 60
    # Whether the energy that the GPUs use is sampled.
    power: bool = False
    # Whether to record again with fewer options where data was lost; None: only if the program ends by itself and soon.
    retry: bool | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether the recording should cover all of the program's CUDA work."""
        has_cuda = any(api.startswith("cuda") for api in self.trace.split(","))
        return has_cuda and self.capture_range == NO_RANGE and not self.delay_s and not self.duration_s

    @property
    def session_options(self) -> tuple[str, ...]:
        """Return the options for a session of nsys that records on request."""
        return (*self.settled, *self._trace_options, *self.nsys_options)

    @property
    def _trace_options(self) -> tuple[str, ...]:
        software = f"--trace={SOFTWARE_TRACE}" in self.settled
        of_os = OS_CALL_OPTIONS if "osrt" in self.trace.split(",") else ()
        return (f"--trace={software_trace(self.trace) if software else self.trace}", *of_os)

    @property
    def profile_options(self) -> tuple[str, ...]:
        """Return the options for `nsys profile`, without those for GPU metrics."""
        options = [*self._trace_options]
        if self.capture_range != NO_RANGE:
            kind, _, name = self.capture_range.partition(":")
            options += [f"--capture-range={kind}", *([f"--nvtx-capture={name}"] if name else [])]
            options += [f"--capture-range-end={'stop-shutdown' if self.end_program else 'stop'}"]
        if self.delay_s:
            options.append(f"--delay={self.delay_s}")
        if self.duration_s:
            options.append(f"--duration={self.duration_s}")
        native = NATIVE_STACKS if self.stacks else ()
        return (*self.settled, *options, *native, *self.nsys_options, *self.less)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables that the recording needs in the program."""
        of_range = {"NSYS_NVTX_PROFILER_REGISTER_ONLY": "0"} if self.capture_range.startswith(NVTX_RANGE) else {}
        return of_range | self.layer_environment

    @property
    def layer_environment(self) -> dict[str, str]:
        """Return the environment variables that say which layers are recorded."""
        if not self.layers:
            return {}
        return {
            "NSYSPROF_LAYERS_DEPTH": "" if self.layer_depth is None else str(self.layer_depth),
            "NSYSPROF_LAYERS_PATTERN": self.layer_pattern,
        }

    @property
    def recorded_kinds(self) -> tuple[str, ...]:
        """Return what a Python program records about itself."""
        return tuple(kind for kind in RECORDED_KINDS if getattr(self, kind))

    def is_recorded(self, rank: int) -> bool:
        return not self.ranks or rank in self.ranks


def plan_program(argv: Sequence[str], *, per_rank: bool, **numbers: Any) -> ProgramPlan:
    """Return the plan, after the checks that are possible before the program runs. Raises UsageError."""
    plan = ProgramPlan(tuple(argv), per_rank, **numbers)
    _check_range(plan.capture_range)
    if plan.end_program and not plan.duration_s and plan.capture_range == NO_RANGE:
        raise UsageError(
            "--end-program ends the program when the recording ends, but this recording has no end.",
            "Give --duration or --capture-range.",
        )
    if (plan.layer_depth is not None or plan.layer_pattern) and not plan.layers:
        raise UsageError("--layer-depth and --layer-pattern are for --layers.", "Give --layers too.")
    try:
        re.compile(plan.layer_pattern)
    except re.error as error:
        raise UsageError(
            f"--layer-pattern {plan.layer_pattern!r} is not a regular expression: {error}.",
            "Give e.g. 'layers.[0-3].mlp'.",
        ) from None
    if not re.fullmatch(r"[a-z0-9-]+(,[a-z0-9-]+)*", plan.trace):
        raise UsageError(
            f"--trace {plan.trace!r} is not a list of APIs.", "Give e.g. cuda,nvtx,osrt; see nsys profile --help."
        )
    for option in plan.nsys_options:
        name = option.partition("=")[0]
        if not re.fullmatch(r"--[a-z][a-z-]*", name):
            raise UsageError(
                f"--nsys-option {option!r} is not a valid option.", "Give e.g. --nsys-option=--sample=process-tree."
            )
        if name in _RESERVED:
            raise UsageError(
                f"--nsys-option {option!r}: nsysprof sets {name} itself.", "Use nsysprof's own option for this."
            )
    if per_rank:
        _check_launcher(list(argv))
    return plan


def is_torch_launcher(argv: Sequence[str]) -> bool:
    """Return whether the command starts workers through torch's launcher, as far as the command shows."""
    names = [Path(word).name for word in argv]
    return names[0] in _TORCH_LAUNCHERS or any(
        word == "-m" and after in _TORCH_MODULES for word, after in itertools.pairwise(argv)
    )


def _check_range(capture_range: str) -> None:
    if capture_range in (NO_RANGE, PROFILER_API):
        return
    if not capture_range.startswith(NVTX_RANGE) or len(capture_range) == len(NVTX_RANGE):
        raise UsageError(
            f"Unknown --capture-range '{capture_range}'.", "Known: cudaProfilerApi, nvtx:NAME, nvtx:NAME@DOMAIN."
        )


def _check_launcher(argv: list[str]) -> None:
    """Raise UsageError, before the program runs, when the launcher's workers could not be reached."""
    name = Path(argv[0]).name
    instead = "Start nsysprof once per rank: {} nsysprof capture --out FOLDER -- PROGRAM."
    if name in _RANK_STARTERS:
        raise UsageError(f"{name} starts ranks that nsysprof cannot reach from outside.", instead.format(f"{name} ..."))
    if name == "deepspeed":
        raise UsageError("deepspeed starts its own ranks.", instead.format("deepspeed --no_python ..."))
    if is_torch_launcher(argv) and {"--no-python", "--no_python", "--run-path", "--run_path"} & set(argv):
        raise UsageError(
            "--per-rank reaches torchrun's workers through the Python that torchrun starts, but this command starts no "
            "Python.",
            instead.format("torchrun --no-python ..."),
        )
