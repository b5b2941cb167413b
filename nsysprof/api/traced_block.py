"""A block of a test under the embedded profiler: what it launched, ran, moved and allocated, and assertions on that."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nsysprof.errors import NsysprofError, UsageError
from nsysprof.units import format_bytes, format_count

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(B|KB|MB|GB|KiB|MiB|GiB)")
_COUNTED = ("_count", "_ns", "_bytes")
_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class UnknownNumberError(Exception):
    """An assertion on a number that this machine or trace does not tell; the text says why."""


@dataclass
class TracedBlock:
    """Filled when the block ends; None is unknown, and `reason` says why.

    work_kind: "kernel", or "operator" on a machine without a GPU, where launches and kernels are torch's leaf
    operators. kernel_names: how often each ran. copied_bytes, filled_bytes: by copies and fills of the device.
    peak_bytes: the most that torch's allocator held beyond what it held before. busy_ns: time in which any kernel,
    copy or fill ran.
    """

    name: str
    work_kind: str = "kernel"
    launches: int | None = None
    kernels: int | None = None
    kernel_names: dict[str, int] = field(default_factory=dict)
    copied_bytes: int | None = None
    filled_bytes: int | None = None
    peak_bytes: int | None = None
    busy_ns: int | None = None
    reason: str = "the block has not ended"

    def assert_launches(
        self, exactly: int | None = None, *, at_most: int | None = None, at_least: int | None = None
    ) -> None:
        """Of kernels and graphs; one replay of a graph is one launch."""
        __tracebackhide__ = True
        self._check("launches", self.launches, exactly, at_most, at_least)

    def assert_kernels(
        self,
        exactly: int | None = None,
        *,
        at_most: int | None = None,
        at_least: int | None = None,
        ran: str | Sequence[str] = (),
        not_ran: str | Sequence[str] = (),
    ) -> None:
        """How many ran; and of each text in `ran` that it is in a kernel's name, of those in `not_ran` that in none."""
        __tracebackhide__ = True
        if (exactly, at_most, at_least) != (None, None, None):
            self._check("kernels", self.kernels, exactly, at_most, at_least)
        if self.kernels is None:
            raise UnknownNumberError(self.reason)
        for text in (ran,) if isinstance(ran, str) else ran:
            if not any(text in name for name in self.kernel_names):
                raise AssertionError(f"no kernel has {text!r} in its name{self._list()}")
        for text in (not_ran,) if isinstance(not_ran, str) else not_ran:
            found = [name for name in self.kernel_names if text in name]
            if found:
                raise AssertionError(f"{found[0]!r} ran, which has {text!r} in its name{self._list()}")

    def assert_bytes(self, *, at_most: int | str) -> None:
        """Copied and set together; a number, or a text such as "64MiB"."""
        __tracebackhide__ = True
        moved = (
            None if self.copied_bytes is None or self.filled_bytes is None else self.copied_bytes + self.filled_bytes
        )
        self._check_size("bytes copied and set", moved, at_most)

    def assert_vram(self, *, at_most: int | str) -> None:
        """The peak beyond what was held before the block; a number, or a text such as "64MiB"."""
        __tracebackhide__ = True
        self._check_size("bytes of memory at the peak", self.peak_bytes, at_most)

    def _check(
        self, what: str, have: int | None, exactly: int | None, at_most: int | None, at_least: int | None
    ) -> None:
        __tracebackhide__ = True
        if (exactly, at_most, at_least) == (None, None, None):
            raise UsageError(f"An assertion on {what} needs a number.", "Give exactly, at_most or at_least.")
        if have is None:
            raise UnknownNumberError(self.reason)
        low = exactly if at_least is None else at_least
        high = exactly if at_most is None else at_most
        if (low is not None and have < low) or (high is not None and have > high):
            wanted = f"{low}" if low == high else " ".join(
                [*([f"at least {low}"] if low is not None else []), *([f"at most {high}"] if high is not None else [])]
            )  # fmt: skip
            kind = " (operators of torch, on the CPU)" if self.work_kind == "operator" else ""
            raise AssertionError(f"{have} {what}{kind}, expected {wanted}{self._list()}")

    def _check_size(self, what: str, have: int | None, at_most: int | str) -> None:
        __tracebackhide__ = True
        limit = parse_size(at_most) if isinstance(at_most, str) else at_most
        if have is None:
            raise UnknownNumberError(self.reason)
        if have > limit:
            raise AssertionError(f"{have:,} {what} ({format_bytes(have)}), expected at most {format_bytes(limit)}")

    def _list(self) -> str:
        names = sorted(self.kernel_names.items(), key=lambda item: -item[1])
        lines = [f"\n  {format_count(count):>6} x {name[:150]}" for name, count in names[:20]]
        return ":" + "".join(lines) if lines else ": nothing ran"


def parse_size(text: str) -> int:
    """Bytes of a text such as "64MiB". Raises UsageError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"'{text}' is no size.", f"Give a number with one of {', '.join(_SIZES)}.")
    return int(float(match[1]) * _SIZES[match[2]])


@contextmanager
def trace_block(name: str, device: str) -> Iterator[TracedBlock]:
    """Profile the block. device: "auto", "cuda" or "cpu". Raises UnknownNumberError for a GPU that is not there."""
    recorder = _recorder()
    if device not in ("auto", "cuda", "cpu"):
        raise UsageError(f"Unknown device '{device}'.", "Known: auto, cuda, cpu.")
    if device == "cuda" and not recorder.has_gpu():
        raise UnknownNumberError("no GPU here")
    block = TracedBlock(name)
    if recorder.is_under_nsys():
        block.reason = f"nsys records this process; its trace has the range {name}"
        with recorder.mark_block(name):
            yield block
        return
    settled = ("cuda" if recorder.has_gpu() else "cpu") if device == "auto" else device
    with tempfile.TemporaryDirectory(prefix="nsysprof-") as folder:
        path = Path(folder) / "block.sqlite"
        with recorder.record_block(path, name, settled):
            yield block
        _fill(block, path)


def _recorder() -> Any:
    try:
        from nsysprof.workload.record_block import has_gpu, is_under_nsys, mark_block, record_block
    except ImportError as error:
        raise UnknownNumberError(f"torch is not here ({error}): pip install 'nsysprof[torch]'") from error
    return SimpleNamespace(
        has_gpu=has_gpu, is_under_nsys=is_under_nsys, mark_block=mark_block, record_block=record_block
    )


def _fill(block: TracedBlock, path: Path) -> None:
    """Reads the block's numbers. What the profiler lost makes them unknown."""
    from nsysprof.api.open import open_trace
    from nsysprof.api.summary import summarize

    try:
        with open_trace(path) as trace:
            analysis = summarize(trace)
    except NsysprofError as error:
        block.reason = error.text
        return
    block.work_kind = analysis.trace.work_kind
    lost = [note.text for note in analysis.notes if note.severity == "error"]
    mine = analysis.ranges[(analysis.ranges["range"] == block.name) & (analysis.ranges["style"] == "StartEnd")]
    if lost or len(mine) == 0:
        block.reason = lost[0] if lost else "the profiler recorded no range"
        return
    numbers = {name: int(number) for name, number in mine.iloc[0].dropna().items() if str(name).endswith(_COUNTED)}
    on_gpu = block.work_kind == "kernel"
    block.reason = "the trace does not tell" if on_gpu else "operators of the CPU are recorded, and no copies"
    block.launches, block.kernels = numbers.get("launch_count"), numbers.get("kernel_count")
    block.busy_ns, block.peak_bytes = numbers.get("gpu_busy_ns"), numbers.get("peak_vram_bytes")
    if on_gpu:
        block.copied_bytes, block.filled_bytes = numbers.get("memcpy_bytes"), numbers.get("memset_bytes")
    inside = analysis.range_kernels
    inside = inside[(inside["range"] == block.name) & (inside["style"] == "StartEnd")]
    block.kernel_names = {
        str(name): int(count) for name, count in zip(inside["name"], inside["instances"], strict=True)
    }
