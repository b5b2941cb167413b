"""Define what a process reports about the policy that it ran with."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class PolicyUse(Struct, frozen=True):
    """Which backends the attention calls of one process, or of several together, got."""

    calls: int = 0
    left: int = 0
    # How many forms of calls torch.compile traced with a rule, however often they ran afterwards.
    compiled: int = 0
    # The largest relative error of the checks of first calls, by tensor: out, dq, dk, dv.
    errors: dict[str, float | None] = {}
    # Why calls, or all calls, were left to torch.
    reasons: tuple[str, ...] = ()

    @property
    def was_refused(self) -> bool:
        """Return whether the policy was never in force, so that no call was counted."""
        return bool(self.reasons) and not self.calls and not self.left and not self.compiled


def add_uses(uses: Iterable[PolicyUse]) -> PolicyUse:
    """Return the sum over these processes."""
    calls = left = compiled = 0
    errors: dict[str, float | None] = {}
    reasons: list[str] = []
    for use in uses:
        calls, left, compiled = calls + use.calls, left + use.left, compiled + use.compiled
        for name, error in use.errors.items():
            known = errors.get(name)
            errors[name] = error if known is None else max(known, error or 0.0)
        reasons += use.reasons
    return PolicyUse(calls, left, compiled, errors, tuple(dict.fromkeys(reasons)))
