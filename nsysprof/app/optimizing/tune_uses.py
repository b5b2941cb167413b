"""Tune the shapes that a program uses, by `tune --from`, and write one policy of those with a winner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from nsysprof.app.progress import Progress
from nsysprof.app.tune import TuneRequest, tune
from nsysprof.attention.policy_file import AUTO, PolicyFile, PolicyRule, read_policy, write_policy
from nsysprof.attention.shape import Shape
from nsysprof.errors import InterruptedCaptureError, NsysprofError
from nsysprof.results.programs.optimization import AttentionUse, TunedUse

if TYPE_CHECKING:
    from nsysprof.results.programs.program_gain import ProgramGain, ShapeRatio

POLICY, SAMPLES = "policy.json", "samples.json"
# The shortest search (s): the measured process has to import torch first.
_LEAST_S = 15.0
# An older search is read again even where no time is left to go on with it (s).
_SHORTEST_S = 1.0
_WINS = ("winner", "between")


@dataclass(frozen=True)
class TunedProgram:
    """What tuning found.

    policy: the file with the rules that won; None where none did.
    saved_pct: how much shorter the time of all kernels should be (percent); None where shares are unknown.
    ratios: the time of the winning backends relative to torch's own choice.
    remarks: what was not tuned and why, and why the search ended.
    """

    tuned: tuple[TunedUse, ...] = ()
    uses: tuple[AttentionUse, ...] = ()
    policy: Path | None = None
    saved_pct: float | None = None
    ratios: tuple[ShapeRatio, ...] = ()
    remarks: tuple[str, ...] = ()


def tune_uses(
    uses: Sequence[AttentionUse], source: Path, folder: Path, budget_s: float, progress: Progress, *, resume: bool
) -> TunedProgram:
    """Time the backends for the program's shapes within the budget, and write a policy of what won to `folder`.

    source: the analysis of the program. If tuning is impossible, that is a remark and not an error.
    """
    search = folder / "search"
    goes_on = resume and (search / SAMPLES).is_file()
    if budget_s < _LEAST_S and not goes_on:
        return TunedProgram(uses=_untuned(uses, {}), remarks=("No time was left for tuning: give a larger --budget.",))
    from nsysprof.analysis.sampling.tune import failed_shapes

    request = TuneRequest(
        source=source, budget_s=max(budget_s, _SHORTEST_S), warmup_seconds=0.2, out=search, force=True, figures=False,
        resume=goes_on, case_timeout_s=max(20.0, budget_s),
        command="nsysprof optimize",
    )  # fmt: skip
    try:
        result = tune(request, progress)
    except InterruptedCaptureError:
        raise
    except NsysprofError as error:
        # the page may be shared, so it must not hold private paths
        said = error.text.replace(str(source), "The capture")
        return TunedProgram(uses=_untuned(uses, {}), remarks=(said,))
    if isinstance(result.failure, InterruptedCaptureError):
        raise result.failure
    path, gain = result.tuning.policy, result.tuning.program
    failed = {shape.key_without_layout(): why for shape, why in failed_shapes(result.results.table).items()}
    if path is None:
        said = "Nothing could be measured." if result.failure is None else result.failure.text
        return TunedProgram(uses=_untuned(uses, {}, failed), remarks=(said,))
    policy = read_policy(path)
    rules = {rule.key_without_layout(): rule for rule in policy.rules}
    remarks = (*_remarks(gain), *([result.told] if result.told else []))
    return TunedProgram(
        tuple(_told(uses, rules)),
        _untuned(uses, rules, failed),
        _write(policy, folder),
        None if gain is None else gain.saved_pct,
        () if gain is None else gain.ratios,
        remarks,
    )


def _untuned(
    uses: Sequence[AttentionUse], rules: Mapping[Shape, PolicyRule], failed: Mapping[Shape, str] = MappingProxyType({})
) -> tuple[AttentionUse, ...]:
    """Return the uses, with a reason for each one that has no rule. failed: why nothing could be measured."""
    found = []
    for use in uses:
        key = None if use.shape is None else use.shape.key_without_layout()
        if use.not_tuned or (key is not None and key in rules):
            found.append(use)
        else:
            why = failed.get(key) if key is not None else None
            found.append(replace(use, not_tuned=why or "it was not tuned"))
    return tuple(found)


def _told(uses: Sequence[AttentionUse], rules: dict[Shape, PolicyRule]) -> list[TunedUse]:
    found = []
    for use in uses:
        rule = None if use.shape is None else rules.get(use.shape.key_without_layout())
        if rule is not None and use.shape is not None:
            found.append(
                TunedUse(use.site, use.shape, rule.backend, rule.why, rule.over_auto, use.share_pct, _won(rule))
            )
    return found


def _won(rule: PolicyRule) -> bool:
    return rule.why in _WINS and rule.backend != AUTO and (rule.over_auto is None or rule.over_auto > 1.0)


def _write(policy: PolicyFile, folder: Path) -> Path | None:
    """Write the rules that won. For the other shapes the policy says that they were measured and left to torch."""
    if not any(_won(rule) for rule in policy.rules):
        return None
    rules = tuple(rule if _won(rule) else _left_to_torch(rule) for rule in policy.rules)
    write_policy(folder / POLICY, replace(policy, rules=rules))
    return folder / POLICY


def _left_to_torch(rule: PolicyRule) -> PolicyRule:
    from msgspec.structs import replace as changed

    return changed(rule, backend=AUTO, median_ns=None, over_auto=None)


def _remarks(gain: ProgramGain | None) -> tuple[str, ...]:
    return () if gain is None else (gain.text, *gain.refused)
