"""Time the backends for each shape that a program calls, and make one policy of the shapes where one won."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec.structs import asdict

from nsysprof.app.inputs.grid import Grid
from nsysprof.app.progress import Progress
from nsysprof.app.tune import TuneRequest, tune
from nsysprof.attention.policy_file import AUTO, PolicyFile, PolicyRule, read_policy, write_policy
from nsysprof.attention.shape import Shape
from nsysprof.errors import InterruptedCaptureError, NsysprofError
from nsysprof.results.optimization import AttentionUse, TunedUse

POLICY = "policy.json"
# No shape gets less than this (s), and none more.
_LEAST_S, _MOST_S = 15.0, 120.0
# Below this part of all kernels' time a shape is not worth the search.
_LEAST_SHARE_PCT = 0.5
_MOST_SHAPES = 8


@dataclass(frozen=True)
class TunedProgram:
    """What tuning found. policy: the file with the rules that won; None where none did."""

    tuned: tuple[TunedUse, ...]
    uses: tuple[AttentionUse, ...]
    policy: Path | None
    # How much shorter the time of all kernels should be (percent); None where shares are unknown.
    predicted_pct: float | None


def tune_uses(uses: Sequence[AttentionUse], folder: Path, budget_s: float, progress: Progress) -> TunedProgram:
    """Time the backends for the shapes with the largest share within the budget, and write folder/policy.json.

    A shape that cannot be tuned says why; it takes no other shape's turn.
    """
    begun = time.monotonic()
    told: list[AttentionUse] = []
    tuned: list[TunedUse] = []
    found: list[PolicyFile] = []
    chosen = _choose(uses)
    for number, use in enumerate(uses):
        if number not in chosen or use.shape is None:
            told.append(replace(use, not_tuned=use.not_tuned or _why_not(use)))
            continue
        left = budget_s - (time.monotonic() - begun)
        share = max(_LEAST_S, min(_MOST_S, left / max(1, len(chosen) - len(tuned))))
        if left < _LEAST_S:
            told.append(replace(use, not_tuned="the budget was spent on shapes with a larger share"))
            continue
        progress.say(f"tune {use.shape.batch}x{use.shape.heads}x{use.shape.seq}x{use.shape.head_dim} {use.shape.pass_}")
        try:
            policy = _tune_one(use.shape, folder / f"shape{number}", share, progress)
        except InterruptedCaptureError:
            raise
        except NsysprofError as error:
            told.append(replace(use, not_tuned=error.text.rstrip(".")))
            continue
        told.append(use)
        found.append(policy)
        tuned += [_told(use, use.shape, rule) for rule in policy.rules]
    return TunedProgram(tuple(tuned), tuple(told), _write(found, folder), _predict(tuned))


def _choose(uses: Sequence[AttentionUse]) -> set[int]:
    possible = [number for number, use in enumerate(uses) if not use.not_tuned and not _is_grid_unfit(use)]
    worth = [number for number in possible if uses[number].share_pct is None or not _is_small(uses[number])]
    return set(worth[:_MOST_SHAPES])


def _is_small(use: AttentionUse) -> bool:
    return use.share_pct is not None and use.share_pct < _LEAST_SHARE_PCT


def _is_grid_unfit(use: AttentionUse) -> bool:
    shape = {} if use.shape is None else asdict(use.shape)
    if shape.get("kv_seq", shape.get("seq")) != shape.get("seq"):
        return True
    return shape.get("mask", "none") != "none" or bool(shape.get("dropout"))


def _why_not(use: AttentionUse) -> str:
    if _is_small(use):
        return f"its share is below {_LEAST_SHARE_PCT:g} %"
    if _is_grid_unfit(use):
        return "it has a mask, dropout, or keys of another length than queries"
    return f"only the {_MOST_SHAPES} shapes with the largest share are tuned"


def _tune_one(shape: Shape, folder: Path, budget_s: float, progress: Progress) -> PolicyFile:
    """Return what was found best for one shape; an earlier search of the same shape is kept."""
    path = folder / POLICY
    if path.is_file():
        return read_policy(path)
    grid = Grid(
        backends=(),
        seqs=(shape.seq,),
        batches=(shape.batch,),
        heads=(shape.heads,),
        kv_heads=() if shape.kv_heads == shape.heads else (shape.kv_heads,),
        head_dims=(shape.head_dim,),
        dtypes=(shape.dtype,),
        causals=(shape.causal,),
        passes=(shape.pass_,),
    )
    request = TuneRequest(
        grid, budget_s=budget_s, blocks=6, warmup_seconds=0.2, out=folder, force=True, figures=False,
        case_timeout_s=max(20.0, budget_s), command="nsysprof optimize",
    )  # fmt: skip
    result = tune(request, progress)
    if isinstance(result.failure, InterruptedCaptureError):
        raise result.failure
    if result.tuning.policy is None:
        raise result.failure or NsysprofError("No backend could be measured.")
    return read_policy(path)


def _told(use: AttentionUse, shape: Shape, rule: PolicyRule) -> TunedUse:
    return TunedUse(use.site, shape, rule.backend, rule.why, rule.over_auto, use.share_pct, _won(rule))


def _won(rule: PolicyRule) -> bool:
    return rule.why == "winner" and rule.backend != AUTO and (rule.over_auto or 0.0) > 1.0


def _write(found: Sequence[PolicyFile], folder: Path) -> Path | None:
    rules = {rule.shape: rule for policy in found for rule in policy.rules if _won(rule)}
    if not rules:
        return None
    # A call without a rule would be reported; a rule that leaves the choice to torch says that it was looked at.
    rest = {rule.shape: rule for policy in found for rule in policy.rules if not _won(rule)}
    autos = tuple(PolicyRule(AUTO, **asdict(shape), why=rule.why) for shape, rule in rest.items() if shape not in rules)
    write_policy(folder / POLICY, replace(found[0], rules=(*rules.values(), *autos)))
    return folder / POLICY


def _predict(tuned: Sequence[TunedUse]) -> float | None:
    """Return the part of all kernels' time that the policy should save (percent)."""
    won = [use for use in tuned if use.in_policy]
    if any(use.share_pct is None or use.over_auto is None for use in won):
        return None
    return sum((use.share_pct or 0.0) * (1 - 1 / (use.over_auto or 1.0)) for use in won)
