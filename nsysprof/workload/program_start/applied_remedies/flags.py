"""Set torch's flags after the program's own settings, and note each line of the program that sets one."""

from __future__ import annotations

from typing import Any

from ..watched_program.module_places import find_place
from .remedy import AppliedRemedy


class FlagSettings:
    """What the program sets by itself, and what is set in its place: wanted names a flag and its value.

    The flags are matmul (as set_float32_matmul_precision), cudnn.allow_tf32 and cudnn.benchmark.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.wanted: dict[str, Any] = {}
        # Each setting of the program: the flag, the value, and the line.
        self.settings: list[tuple[str, Any, str]] = []

    def begin(self) -> None:
        """Watch every way in which a program sets these flags, and set what is wanted."""
        torch, note = self._torch, self._note
        self._set_precision = torch.set_float32_matmul_precision

        def set_float32_matmul_precision(precision: str) -> None:
            note("matmul", precision)
            self._set_precision(self.wanted.get("matmul", precision))

        torch.set_float32_matmul_precision = set_float32_matmul_precision
        self._watch_matmul(type(torch.backends.cuda.matmul))
        self._watch_properties(torch.backends.ContextProp, type(torch.backends.cudnn))
        self.enforce()

    def _watch_matmul(self, kind: Any) -> None:
        original = kind.__setattr__

        def __setattr__(module: Any, name: str, value: Any) -> None:
            if name not in ("allow_tf32", "fp32_precision"):
                original(module, name, value)
                return
            self._note("matmul", ("high" if value else "highest") if name == "allow_tf32" else value)
            if "matmul" in self.wanted:
                self.enforce()
            else:
                original(module, name, value)

        kind.__setattr__ = __setattr__

    def _watch_properties(self, kind: Any, cudnn: Any) -> None:
        names = {id(value): name for owner in cudnn.__mro__ for name, value in vars(owner).items()}
        original = kind.__set__

        def __set__(prop: Any, module: Any, value: Any) -> None:
            name = names.get(id(prop), "")
            flag = f"cudnn.{name}"
            if name in ("allow_tf32", "benchmark", "deterministic"):
                self._note(flag, value)
            original(prop, module, self.wanted.get(flag, value))

        kind.__set__ = __set__

    def _note(self, flag: str, value: Any) -> None:
        setting = (flag, value, find_place(self._torch))
        if setting not in self.settings and len(self.settings) < 100:
            self.settings.append(setting)

    def enforce(self) -> None:
        """Set what is wanted, past the functions that note the program's settings."""
        if "matmul" in self.wanted:
            self._set_precision(self.wanted["matmul"])
        if "cudnn.allow_tf32" in self.wanted:
            self._torch._C._set_cudnn_allow_tf32(self.wanted["cudnn.allow_tf32"])
        if "cudnn.benchmark" in self.wanted:
            self._torch._C._set_cudnn_benchmark(self.wanted["cudnn.benchmark"])

    def read(self) -> dict[str, Any]:
        """Return the flags as they are now."""
        torch = self._torch
        try:
            matmul = torch.get_float32_matmul_precision()
        except RuntimeError:  # the program mixes torch's older and newer names for it
            matmul = str(torch.backends.cuda.matmul.fp32_precision)
        return {
            "matmul": matmul,
            "cudnn.allow_tf32": bool(torch._C._get_cudnn_allow_tf32()),
            "cudnn.benchmark": bool(torch._C._get_cudnn_benchmark()),
        }


class _Flags(AppliedRemedy):
    """A remedy that is a set of flags."""

    wanted: dict[str, Any] = {}  # noqa: RUF012 - a table of the class

    def __init__(self, torch: Any, option: str, settings: FlagSettings) -> None:
        super().__init__(torch, option)
        self._settings = settings
        settings.wanted.update(self.wanted)

    def is_in_force(self) -> bool:
        flags = self._settings.read()
        return all(flags[name] == value for name, value in self.wanted.items())

    def evidence(self) -> str:
        self.replaced = [
            f"{flag} = {value} at {place}"
            for flag, value, place in self._settings.settings
            if flag in self.wanted and value != self.wanted[flag]
        ]
        flags = self._settings.read()
        return ", ".join(f"{name} is {flags[name]}" for name in self.wanted)


class Tf32(_Flags):
    """Matrix products and convolutions of fp32 in TF32."""

    wanted = {"matmul": "high", "cudnn.allow_tf32": True}  # noqa: RUF012 - a table of the class


class CudnnBenchmark(_Flags):
    """cuDNN times its algorithms for each new shape."""

    wanted = {"cudnn.benchmark": True}  # noqa: RUF012 - a table of the class
