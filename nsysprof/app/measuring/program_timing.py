"""Define the requests that time a program with two settings in turn, and what a setting is."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from nsysprof.app.inputs import options
from nsysprof.app.inputs.option import Option, TypedForm
from nsysprof.attention.policy_file import read_policy
from nsysprof.capture.user_program.policy_environment import POLICY, REMEDIES, policy_environment
from nsysprof.errors import UsageError

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
    """A program that is run with two settings in turn, and how to find its steps and values.

    processes: the number of turns.
    step_pattern, step_range, value_pattern, warmup_steps: as in TimedProgram; empty patterns are None there.
    value_tolerance_pct: how far the values of both sides may differ (percent of the value).
    margin_pct: as in CompareRequest.
    """

    argv: Annotated[tuple[str, ...], options.program_argument("Run this program on both sides in turn.")]
    processes: options.Processes = 3
    step_pattern: Annotated[str, replace(options.STEP_PATTERN, panel=options.PROGRAM)] = ""
    step_range: Annotated[
        str,
        Option(
            "An NVTX range of torch that begins, and whose whole name matches this regular expression, ends a step.",
            panel=options.PROGRAM,
        ),
    ] = ""
    value_pattern: Annotated[
        str,
        Option(
            "The first group of this regular expression is a value that both sides must share, e.g. the loss.",
            panel=options.PROGRAM,
        ),
    ] = ""
    value_tolerance_pct: Annotated[
        float, Option("How much values may differ, in percent.", ("--value-tolerance",), options.PROGRAM, min=0)
    ] = 1.0
    warmup_steps: Annotated[
        int, Option("Number of steps at the beginning that do not count.", panel=options.PROGRAM, min=0)
    ] = 2
    margin_pct: options.Margin = None


@dataclass(frozen=True)
class ProgramBenchRequest(ProgramTiming):
    """A program and its two sides.

    budget_s: once two turns have been run, no turn begins that would not end within this time (s).
    fail_on: as in CompareRequest.
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

    tries: more settings to try; each is run as one side of a bench.
    captured: a capture of the program with its attention; None to make one.
    allow_precision: whether remedies that compute in bf16 are tried too.
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
        Option(
            "Also try bf16 autocast, whose results are those of eight bits of mantissa.",
            ("--allow-precision",),
            options.MEASUREMENT,
        ),
    ] = False
    stdout_to_stderr: bool = False
    nsys: options.Nsys = None
    out: Annotated[Path | None, options.out_option("Folder. Default: traces/optimize-DATE-TIME.")] = None
    force: options.Force = False
    resume: options.Resume = False
