"""Decide which rules of a tuning won, so that a policy changes nothing else of the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from nsysprof.attention.policy_file import AUTO, PolicyFile, PolicyRule
from nsysprof.attention.shape import Shape
from nsysprof.results.optimization import BETWEEN, AttentionUse, TunedUse

_WINS = ("winner", BETWEEN)


def name_untuned(
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
    found = []
    for use in uses:
        key = None if use.shape is None else use.shape.key_without_layout()
        rule = None if key is None else rules.get(key)
        if rule is not None and key is not None and use.shape is not None and not use.not_tuned:
            found.append(
                TunedUse(
                    use.site, use.shape, rule.backend, rule.why, rule.over_auto, use.share_pct, has_won(rule),
                    search_ended, launch_shares.get(key),
                )
            )  # fmt: skip
    return found


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
    from msgspec.structs import replace as changed

    return changed(rule, backend=AUTO, median_ns=None, over_auto=None)
