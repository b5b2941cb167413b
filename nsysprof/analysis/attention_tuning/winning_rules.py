"""Decide which rules of a tuning won, so that a policy changes nothing else of the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import msgspec
import pandas as pd
from msgspec.structs import replace as changed

from nsysprof.analysis.attention_tuning.choose_shapes import ChosenShapes, shape_of_use, why_not
from nsysprof.analysis.sampling.tune import OPEN, Choice
from nsysprof.attention.policy_file import AUTO, PolicyFile, PolicyRule
from nsysprof.attention.shape import Shape, shape_of_row
from nsysprof.results.program_runs import BETWEEN, AttentionUse, CapturedAttention, TunedUse

_WINS = ("winner", BETWEEN)


def name_untuned(
    uses: Sequence[AttentionUse], rules: Mapping[Shape, PolicyRule], failed: Mapping[Shape, str] = MappingProxyType({})
) -> tuple[AttentionUse, ...]:
    """Return the uses, with a reason for each one that has no rule. failed: why nothing could be measured."""
    named_uses = []
    for use in uses:
        key = None if use.shape is None else use.shape.key_without_layout()
        if use.not_tuned or (key is not None and key in rules):
            named_uses.append(use)
        else:
            why = failed.get(key) if key is not None else None
            named_uses.append(replace(use, not_tuned=why or "it was not tuned"))
    return tuple(named_uses)


def join_rules(
    uses: Sequence[AttentionUse],
    rules: Mapping[Shape, PolicyRule],
    launch_shares: Mapping[Shape, float] = MappingProxyType({}),
    *,
    search_ended: bool = False,
) -> list[TunedUse]:
    """Return what tuning found for each use that has a rule, and whether its rule won.

    launch_shares: as of TunedUse, by shape without its layout.
    """
    tuned = []
    for use in uses:
        key = None if use.shape is None else use.shape.key_without_layout()
        rule = None if key is None else rules.get(key)
        if rule is not None and key is not None and use.shape is not None and not use.not_tuned:
            tuned.append(
                TunedUse(
                    use.site, use.shape, rule.backend, rule.why, rule.over_auto, use.share_pct, has_won(rule),
                    search_ended, launch_shares.get(key),
                )
            )  # fmt: skip
    return tuned


def has_won(rule: PolicyRule) -> bool:
    """Return whether another backend than torch's choice won, or both neighbours of the shape agree on one."""
    return rule.why in _WINS and rule.backend != AUTO and (rule.over_auto is None or rule.over_auto > 1.0)


def keep_winners(policy: PolicyFile) -> PolicyFile | None:
    """Return the policy with the rules that won, or None where none did.

    For the other shapes it says that they were measured and left to torch.
    """
    if not any(has_won(rule) for rule in policy.rules):
        return None
    rules = tuple(rule if has_won(rule) else _left_to_torch(rule) for rule in policy.rules)
    return replace(policy, rules=rules)


def _left_to_torch(rule: PolicyRule) -> PolicyRule:

    return changed(rule, backend=AUTO, median_ns=None, over_auto=None)


# The reason for leaving a shape to torch when torch's own choice is already the best backend.
OWN = "own choice"


def fill_groups(chosen: ChosenShapes, choices: Sequence[Choice]) -> list[Choice]:
    """Return the choices, with shapes between two tuned ones added where both have the same backend."""
    by_shape: dict[Shape, Choice] = {choice.shape: choice for choice in choices}
    filled = list(choices)
    for use in chosen.chosen:
        last, first = by_shape.get(use.shape), by_shape.get(use.between[0]) if use.between else None
        if last is None or first is None or last.backend != first.backend:
            continue
        filled += [Choice(shape, last.backend, "between", None, None) for shape in use.between if shape not in by_shape]
    return filled


def settle_own_choices(captured: CapturedAttention, choices: Sequence[Choice], winners: pd.DataFrame) -> list[Choice]:
    """Return the choices, with a shape settled where only the backend that torch chose is left beside torch's choice.

    Both are the same kernels, so no number of measurements can distinguish them.
    """
    ran: dict[Shape, set[str]] = {}
    for use in captured.uses:
        if use.row["backend_ran"] and use.row["pass"] == "fwd" and not why_not(use.row):
            ran.setdefault(_bare(shape_of_use(use.row, "fwd")), set()).add(str(use.row["backend_ran"]))
    left = {
        shape_of_row(row): {row["backend"], *filter(None, str(row["tied"]).split(", "))}
        for row in winners.to_dict("records")
    }
    return [
        replace(choice, why=OWN)
        if choice.why == OPEN
        and len(own := ran.get(_bare(choice.shape), set())) == 1
        and left.get(choice.shape, {""}) <= {AUTO, *own}
        else choice
        for choice in choices
    ]


def _bare(shape: Shape) -> Shape:
    return msgspec.structs.replace(shape, pass_="fwd", layout="bhsd")
