"""Follow the first optimizer of a program that takes a step: its steps are the program's.

A second optimizer (of a GAN) belongs to the steps of the first. It needs only torch, because it runs in the program's
own Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class FirstOptimizer:
    """Calls `ended` after each step of the first optimizer."""

    def __init__(self, ended: Callable[[], Any]) -> None:
        self._ended = ended
        self._number: int | None = None

    @property
    def is_known(self) -> bool:
        """Return whether an optimizer took a step."""
        return self._number is not None

    def watch(self) -> bool:
        """Follow the program's optimizers from now on. Return whether this torch tells of their steps."""
        try:
            from torch.optim.optimizer import register_optimizer_step_post_hook
        except ImportError:  # torch before 2.0
            return False
        register_optimizer_step_post_hook(lambda optimizer, _arguments, _named: self.take(optimizer))
        return True

    def take(self, optimizer: Any) -> None:
        """Note a step of an optimizer."""
        if self._number is None:
            self._number = id(optimizer)
        if id(optimizer) == self._number:
            self._ended()

    def forget(self) -> None:
        """Follow the next optimizer that takes a step, in a fork of the process."""
        self._number = None
