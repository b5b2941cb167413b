"""Define the requests about a program: how to record it, and how to time it with two settings in turn."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

from nsysprof.app.inputs import options
from nsysprof.app.inputs.options import (
    LEAST_SECONDS,
    LONGEST_RECORDING_S,
    MOST_WATCHED_S,
    OR_ZERO,
    RANKS,
    Option,
    TypedForm,
)
from nsysprof.attention.policy_file import read_policy
from nsysprof.capture.user_program.policy_environment import POLICY, REMEDIES, policy_environment
from nsysprof.capture.user_program.program_plan import USUAL_TRACE
from nsysprof.errors import UsageError


@dataclass(frozen=True)
class ProgramRequest:
    """A program and how to record it; the options say what each field is. Numbers are as in ProgramPlan.

    stdout_to_stderr: whether to send the program's standard output to standard error.
    """

    PANEL: ClassVar = options.PROGRAM
    argv: Annotated[tuple[str, ...], options.program_argument("Record this program instead of measuring the grid.")]
    profiler: Annotated[str, options.PROFILER] = "auto"
    gpu_metrics: options.GpuMetrics = False
    gpu_metrics_frequency: options.GpuMetricsFrequency = 10_000
    per_rank: Annotated[bool, Option("Record each worker of torchrun or accelerate in its own trace.")] = False
    ranks: Annotated[tuple[int, ...], Option("Record only these ranks, e.g. 0,8-11.", form=RANKS)] = ()
    trace: Annotated[str, Option("The APIs for nsys to record.")] = USUAL_TRACE
    capture_range: Annotated[str, Option("Record only cudaProfilerApi, nvtx:NAME or nvtx:NAME@DOMAIN.")] = "none"
    delay_s: Annotated[int, Option("Seconds before the recording.", ("--delay",), min=0)] = 0
    duration_s: Annotated[
        int,
        Option(
            "Length of the recording in seconds. 0: to the program's end.",
            ("--duration",),
            min=0,
            old_names=("--seconds",),
        ),
    ] = 0
    end_program: Annotated[bool, Option("End the program with the recording.")] = False
    memory: Annotated[bool, Option("Record which line allocated torch's memory.")] = False
    stacks: Annotated[bool, Option("Sample stacks, so that findings name lines of code.")] = False
    attention: Annotated[bool, Option("Record each call of attention as a range.")] = False
    operators: Annotated[bool, Option("Record torch's operators and their shapes in a few steps.")] = False
    layers: Annotated[bool, Option("Record each module of torch as a range, forward and backward.")] = False
    layer_depth: Annotated[
        int | None,
        Option(
            "Parts that a module's path may have. 0: any. Default: half of a large model's modules, or all.",
            min=0,
            shows_default=False,
        ),
    ] = None
    layer_pattern: Annotated[str, Option("Record modules whose path matches this regular expression.")] = ""
    nsys_options: Annotated[
        tuple[str, ...],
        options.repeated_option(
            "An option for nsys profile, e.g. --nsys-option=--sample=process-tree.", "--nsys-option"
        ),
    ] = ()
    retry: Annotated[
        bool | None,
        Option(
            "Record again with fewer options if data was lost. Default: if the program took less than 120 s.",
            shows_default=False,
        ),
    ] = None
    probe: Annotated[bool, Option("Try nsys' options out once on this machine, if it has a GPU.")] = True
    measure_cost: Annotated[
        bool | None,
        Option(
            "Measure what recording costs, by further runs or while the program is held. Default: time the steps of a "
            "torch program that took less than 60 s on a GPU once more, without a profiler.",
            shows_default=False,
        ),
    ] = None
    ceilings: Annotated[bool, Option("Measure what this GPU reaches, for the floors of the work.")] = False
    counters: Annotated[bool, Option("Run the program again under ncu, to count each kernel that matters.")] = False
    counters_budget_s: Annotated[int, Option("Seconds that ncu may take.", ("--counters-budget",), min=1)] = 60
    power: Annotated[bool, Option("Sample the energy that GPUs use, for each range.")] = False
    max_bytes: Annotated[int, options.MAX_RECORDING] = 0
    keep_report: Annotated[bool, options.KEEP_REPORT] = True
    hold: Annotated[bool, Option("Record only when `nsysprof record` asks for it.")] = False
    keep: Annotated[int, replace(options.KEEP, form=OR_ZERO)] = 0
    skip_steps: Annotated[int, Option("Steps to skip (--profiler torch).", min=0)] = 0
    steps: Annotated[int, Option("Optimizer steps to record (--profiler torch).", ("--optimizer-steps",), min=0)] = 0
    forward_steps: Annotated[int, Option("Calls of the outermost module to record (--profiler torch).", min=0)] = 0
    stdout_to_stderr: bool = False
    nsys: options.Nsys = None
    ncu: options.Ncu = None
    out: Annotated[Path | None, options.out_option("Capture folder. Default: traces/DATE-TIME.")] = None
    force: options.Force = False

    @property
    def gpu_metrics_hz(self) -> int:
        """Return the rate at which counters are sampled (Hz); 0: never."""
        return self.gpu_metrics_frequency if self.gpu_metrics else 0


@dataclass(frozen=True)
class RecordRequest:
    """Which part of a held program to record.

    seconds, steps: how long to record: either of them, or both (then whichever is reached first).
    """

    folder: Annotated[
        Path | None,
        Option(
            "The folder of the held program. Default: your only held program.", is_argument=True, shows_default=False
        ),
    ] = None
    seconds: Annotated[
        float | None,
        Option(
            "Length of the recording in seconds.",
            ("--duration",),
            min=LEAST_SECONDS,
            max=LONGEST_RECORDING_S,
            shows_default=False,
            old_names=("--seconds",),
        ),
    ] = None
    steps: Annotated[int | None, Option("Record until this many steps have ended.", min=1, shows_default=False)] = None
    step_pattern: Annotated[str, options.STEP_PATTERN] = ""
    watch_s: Annotated[
        float,
        Option(
            "Seconds to watch the steps before and after, for comparison. 0: do not watch.",
            ("--watch",),
            min=0,
            max=MOST_WATCHED_S,
        ),
    ] = 5.0
    max_bytes: Annotated[int, options.MAX_RECORDING] = 0
    keep_report: Annotated[bool, options.KEEP_REPORT] = True


@dataclass(frozen=True)
class RunRequest:
    """A program, and the policy or the remedies that it runs with.

    stdout_to_stderr: whether to send the program's standard output to standard error.
    """

    argv: Annotated[tuple[str, ...], options.program_argument("The program to run.")]
    policy: Annotated[
        Path | None,
        Option("A policy.json of tune: the attention backends that were measured to be faster.", shows_default=False),
    ] = None
    remedies: Annotated[str, Option("Remedies that optimize has proven, e.g. tf32,compile.", shows_default=False)] = ""
    stdout_to_stderr: bool = False


_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class ProgramSide:
    """How one side of the program is run: with settings of its environment, and a policy."""

    variables: tuple[tuple[str, str], ...] = ()
    policy: Path | None = None
    # Remedies that nsysprof's start code applies, and arguments behind those of the program.
    remedies: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Return the side's name for people. It leaves out the values of settings, which may be secret."""
        names = [*(f"{name}=..." for name, _ in self.variables), *self.remedies, *self.arguments]
        return " ".join([*names, *([] if self.policy is None else [self.policy.name])]) or "as it is"

    def environment(self) -> dict[str, str]:
        """Return every variable of the program's environment.

        A policy in nsysprof's own environment applies to neither side.
        """
        own = {name: value for name, value in os.environ.items() if name != POLICY}
        found = {**own, **dict(self.variables)}
        if self.remedies:
            found[REMEDIES] = ",".join(self.remedies)
        return found if self.policy is None else {**found, **policy_environment(self.policy, found)}

    def joined(self, other: ProgramSide) -> ProgramSide:
        """Return a side with the settings of both."""
        return ProgramSide(
            (*self.variables, *other.variables),
            self.policy or other.policy,
            (*self.remedies, *other.remedies),
            (*self.arguments, *other.arguments),
        )


def parse_program_side(text: str) -> ProgramSide:
    """Return the side that `text` describes: settings NAME=VALUE and at most one policy.json.

    Raises UsageError for anything else.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"'{text}' is not a valid side: {error}.", "Close the quotation.") from error
    found = [_ASSIGNMENT.fullmatch(word) for word in words]
    variables = tuple((match[1], match[2]) for match in found if match is not None)
    rest = [word for word, match in zip(words, found, strict=True) if match is None]
    if len(rest) > 1 or any(not word.endswith(".json") for word in rest):
        raise UsageError(
            f"'{text}' is not a valid side of a program.",
            "Give settings NAME=VALUE and at most one policy.json. To use another Python, name it in the program's "
            "command.",
        )
    policy = Path(rest[0]) if rest else None
    if policy is not None:
        read_policy(policy)  # a damaged policy is refused before anything runs
    return ProgramSide(variables, policy)


_SIDE = TypedForm(str, lambda text, _: parse_program_side(text), lambda _: "")


@dataclass(frozen=True)
class ProgramTiming:
    """A program that is run with two settings in turn (`processes` turns), and how to find its steps and values."""

    PANEL: ClassVar = options.PROGRAM
    argv: Annotated[tuple[str, ...], options.program_argument("Run this program on both sides in turn.")]
    processes: options.Processes = 3
    step_pattern: Annotated[str, options.STEP_PATTERN] = ""
    step_range: Annotated[
        str,
        Option(
            "An NVTX range of torch that begins, and whose whole name matches this regular expression, ends a step."
        ),
    ] = ""
    value_pattern: Annotated[
        str, Option("The first group of this regular expression is a value that both sides must share, e.g. the loss.")
    ] = ""
    value_tolerance_pct: Annotated[
        float, Option("How much values may differ, in percent.", ("--value-tolerance",), min=0)
    ] = 1.0
    warmup_steps: Annotated[int, Option("Number of steps at the beginning that do not count.", min=0)] = 2
    margin_pct: options.Margin = None


@dataclass(frozen=True)
class ProgramBenchRequest(ProgramTiming):
    """A program and its two sides.

    budget_s: once two turns have been run, no turn begins that would not end within this time (s).
    """

    baseline: Annotated[ProgramSide, replace(options.BASELINE, form=_SIDE)] = ProgramSide()
    candidate: Annotated[ProgramSide, replace(options.CANDIDATE, form=_SIDE)] = ProgramSide()
    run_timeout_s: options.CaseTimeout = 3600.0
    budget_s: float = float("inf")
    fail_on: options.FailOn = ""
    out: Annotated[Path | None, options.out_option("Folder. Default: traces/bench-DATE-TIME.")] = None
    force: options.Force = False
    resume: options.Resume = False


@dataclass(frozen=True)
class OptimizeRequest(ProgramTiming):
    """A program, and the time that its optimization may take.

    stdout_to_stderr: whether to send the standard output of the recorded run to standard error.
    """

    argv: Annotated[tuple[str, ...], options.program_argument("The program to optimize.")]
    budget_s: options.Budget = 600.0
    tries: Annotated[
        tuple[str, ...],
        options.repeated_option(
            "Try these settings NAME=VALUE too; can be repeated.", "--try", panel=options.MEASUREMENT
        ),
    ] = ()
    captured: Annotated[
        Path | None,
        Option("Use this capture of the program, made with capture --attention.", ("--capture",), options.MEASUREMENT),
    ] = None
    allow_precision: Annotated[
        bool,
        Option("Also try bf16 autocast, whose results are those of eight bits of mantissa.", panel=options.MEASUREMENT),
    ] = False
    stdout_to_stderr: bool = False
    nsys: options.Nsys = None
    out: Annotated[Path | None, options.out_option("Folder. Default: traces/optimize-DATE-TIME.")] = None
    force: options.Force = False
    resume: options.Resume = False
