"""Define a remedy that works inside a program: when it acts, and how it shows that it took effect."""

from __future__ import annotations

from typing import Any


class AppliedRemedy:
    """One remedy while the program runs. Each does its work in one of the methods below.

    option: what stands behind the = of its name, such as reduce-overhead; empty for none.
    """

    def __init__(self, torch: Any, option: str) -> None:
        self.torch, self.option = torch, option
        # The lines of the program whose setting this remedy replaces, with the setting as text.
        self.replaced: list[str] = []
        # Why there is nothing to change; empty where there is something, or where that is not known yet.
        self.why_not = ""

    def begin(self) -> None:
        """Act right after the import of torch."""

    def on_module(self, module: Any) -> None:
        """Act before the first call of an outermost module."""

    def on_optimizer(self, optimizer: Any) -> None:
        """Act before the first step of an optimizer."""

    def before_step(self) -> None:
        """Act before each step of an optimizer."""

    def after_step(self) -> None:
        """Act after each step of an optimizer."""

    def on_warm(self) -> None:
        """Act once after the third step."""

    def is_in_force(self) -> bool:
        """Return whether it is in force now, read back from where it acts."""
        return False

    def evidence(self) -> str:
        """Return what shows that it is in force, or what is there instead."""
        return ""
