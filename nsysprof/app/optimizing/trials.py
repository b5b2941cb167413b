"""List what is worth trying on a whole program: the policy, settings that its trace suggests, and the user's own."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nsysprof.analysis.attention_tuning.program_attention import ProgramFacts
from nsysprof.app.measuring.program_request import ProgramSide, parse_program_side
from nsysprof.app.optimizing.remedies import Circumstances, Remedy, read_remedies, why_not
from nsysprof.app.optimizing.tune_uses import TunedProgram
from nsysprof.results.program_runs import NotTried, PredictedGain, ProgramTraits

# The variables of torch's allocator; a newer torch reads the first of them before the second.
_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


@dataclass(frozen=True)
class Trial:
    """Something to try on the whole program.

    setting, paste, predicted: as in Attempt.
    """

    name: str
    why: str
    side: ProgramSide
    setting: str
    paste: str
    predicted: PredictedGain | None = None
    # As in Remedy; empty for what the user asked for.
    kind: str = ""
    precision: str = ""
    changes: str = ""
    edit: str = ""
    start_s: float = 0.0
    after: tuple[str, ...] = ()


def list_trials(
    facts: ProgramFacts,
    tuning: TunedProgram,
    policy_name: str,
    predicted: PredictedGain | None,
    tries: Sequence[str],
    around: Circumstances | None = None,
) -> list[Trial]:
    """Return what to try, in order: the policy, remedies by what they should save, and what the user asked for.

    policy_name: the path under which the user finds the policy.
    predicted: what the policy should save.
    tries: settings that the user asked for.
    around: what decides which remedies can be tried; None where nothing is known of the program's traits.
    """
    found = []
    if tuning.policy is not None:
        found.append(
            Trial(
                "the policy",
                "another backend won for shapes of this program",
                ProgramSide(policy=tuning.policy),
                f"nsysprof run --policy {shlex.quote(policy_name)} -- PROGRAM",
                f'import nsysprof\n\nwith nsysprof.policy("{policy_name}"):\n    ...  # the training or serving loop',
                predicted,
                kind="policy",
                precision="same",
            )
        )
    return [*found, *_of_table(facts, around or circumstances(facts)), *_wanted(tries)]


def circumstances(
    facts: ProgramFacts,
    traits: ProgramTraits | None = None,
    argv: Sequence[str] = (),
    steps_ns: int = 0,
    *,
    allow_precision: bool = False,
) -> Circumstances:
    """Return what decides which remedies can be tried. steps_ns: the time of all steps of the run with these traits."""
    return Circumstances(
        traits, argv, facts.findings, facts.libraries, steps_ns, allow_precision, facts.fp32_share_pct, os.environ
    )


def list_not_tried(around: Circumstances) -> list[NotTried]:
    """Return the remedies that the program cannot use, with the reason."""
    reasons = {remedy.title: why_not(remedy, around) for remedy in read_remedies().values()}
    return [NotTried(title, reason) for title, reason in reasons.items() if reason]


def _of_table(facts: ProgramFacts, around: Circumstances) -> list[Trial]:
    """Return the remedies that the program can use, what should save the most first."""
    possible = [remedy for remedy in read_remedies().values() if not why_not(remedy, around)]
    trials = [(_expected_pct(remedy, facts), trial) for remedy in possible if (trial := _trial(remedy, facts, around))]
    return [trial for _, trial in sorted(trials, key=lambda pair: -pair[0])]


def _gain(remedy: Remedy, facts: ProgramFacts) -> PredictedGain | None:
    """Return the largest gain that a finding predicts which the remedy answers."""
    gains = [gain for code in remedy.answers if (gain := facts.findings.get(code)) is not None]
    return max(gains, key=lambda gain: gain.pct, default=None)


def _expected_pct(remedy: Remedy, facts: ProgramFacts) -> float:
    gain = _gain(remedy, facts)
    if gain is not None:
        return gain.pct
    if remedy.name == "tf32" and facts.fp32_share_pct:
        return min(remedy.usual_pct, facts.fp32_share_pct)
    return remedy.usual_pct


def _trial(remedy: Remedy, facts: ProgramFacts, around: Circumstances) -> Trial | None:
    codes = [code for code in remedy.answers if code in facts.findings]
    why = f"it answers {', '.join(codes)}" if codes else "the program leaves it open"
    if remedy.name == "tf32" and facts.fp32_share_pct:
        why = f"{facts.fp32_share_pct:.0f} % of the time of all kernels are matrix products in plain fp32"
    side = remedy.side()
    setting = f"nsysprof run --remedies {','.join(side.remedies)} -- PROGRAM" if side.remedies else ""
    if remedy.name == "expandable-segments":
        allocator = _with_expandable_segments(around.environment or os.environ)
        if allocator is None:
            return None
        side, setting = ProgramSide((allocator,)), "=".join(allocator)
    elif side.variables and not side.variables[0][0].startswith("NSYSPROF_"):
        setting = " ".join(f"{name}={value}" for name, value in side.variables)
    elif side.arguments:
        setting = f"PROGRAM {shlex.join(side.arguments)}"
    return Trial(
        remedy.title, why, side, setting, remedy.paste(), _gain(remedy, facts), remedy.kind, remedy.precision,
        remedy.changes, remedy.edit, remedy.start_s if _uses_gpu(around) else 0.0, remedy.after,
    )  # fmt: skip


def _with_expandable_segments(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the variable of torch's allocator with expandable segments added to what the user has set in it.

    None where the user has chosen them, or another allocator that has none.
    """
    name = next((name for name in _ALLOCATOR if environment.get(name)), _ALLOCATOR[-1])
    present = environment.get(name, "")
    if "expandable_segments" in present or "cudaMallocAsync" in present:
        return None
    return name, ",".join(filter(None, (present, "expandable_segments:True")))


def _uses_gpu(around: Circumstances) -> bool:
    """Return whether compilations take as long as those for a GPU."""
    return around.traits is not None and any(module["device"] == "cuda" for module in around.traits.modules)


def _wanted(tries: Sequence[str]) -> list[Trial]:
    """Return what the user asked to try in addition to what findings suggest."""
    return [
        Trial(
            f"attempt {number}",
            "it was asked for with --try",
            parse_program_side(text),
            text,
            "",
        )
        for number, text in enumerate(tries, 1)
    ]
