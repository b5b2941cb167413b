"""Provide `with nsysprof.policy("policy.json"):`, by which torch's attention runs the tuned backend for each shape."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from types import TracebackType

from nsysprof.attention.policy_file import read_policy
from nsysprof.errors import PolicyError
from nsysprof.workload.applied_policy.apply_policy import (
    AppliedPolicy,
    begin_policy,
    end_policy,
    machine_differences,
)


class PolicyWarning(UserWarning):
    """A call, or every call, was left to torch's own choice. Each reason is reported once."""


class policy:
    """Makes torch.nn.functional.scaled_dot_product_attention run the backend tuned for each shape, within a block.

    A call uses a rule of the policy when all of these match: batch, heads of q and of k, the lengths of q and of k,
    head dimension, dtype (under autocast, the one that it casts to), is_causal, and whether there is a mask and
    its kind (bool or float). Its pass must match too: `fwd` without gradients, `fwdbwd` (else `bwd`) where a gradient
    is required. Calls with dropout never match. Shapes between the tuned ones are not guessed, because the fastest
    backend changes at sizes that only measuring finds.

    The first call of each form runs twice: with torch's own choice and with the backend. A backend whose output or
    gradients differ by more than rounding is not used for that form.

    Every other call is left to torch, with one PolicyWarning for each reason. So is a call that its backend refuses,
    and so are all calls on another GPU, torch or cuDNN than the policy's (with `strict`, they raise PolicyError
    instead).

    While a block lasts, the function in torch.nn.functional is replaced for all threads, and their calls launch one
    after the other. Of several open blocks, the one entered last counts. A TorchFunctionMode would also see functions
    that were imported before, but it is entered for every operator of a model.

    The attributes `calls` and `left` count the calls that ran as tuned and those that were left to torch.

    Raises PolicyError for a file that is not a policy, and ImportError without torch.

    source: the policy.json of `nsysprof tune`.
    strict: whether a policy from another machine is an error.
    """

    def __init__(self, source: str | os.PathLike[str], *, strict: bool = False) -> None:
        self._applied = AppliedPolicy(read_policy(Path(source)), _warn)
        self._strict = strict

    @property
    def calls(self) -> int:
        """Return how many calls ran as tuned."""
        return self._applied.calls

    @property
    def left(self) -> int:
        """Return how many calls were left to torch."""
        return self._applied.left

    def __enter__(self) -> policy:
        self._holds = self._holds_here()
        if self._holds:
            begin_policy(self._applied)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._holds:
            end_policy(self._applied)

    def _holds_here(self) -> bool:
        differences = machine_differences(self._applied.file)
        if not differences:
            return True
        text = f"The policy does not hold here: {'; '.join(differences)}. Every call is left to torch."
        if self._strict:
            raise PolicyError(text, "Tune again on this machine.")
        self._applied.say(text)
        return False


def _warn(text: str) -> None:
    warnings.warn(f"{text} This is reported once.", PolicyWarning, stacklevel=6)
