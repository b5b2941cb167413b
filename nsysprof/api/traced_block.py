"""Record a block of a test with the embedded profiler, and assert what it launched, ran, moved and allocated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nsysprof.api.frames import open_trace, summarize
from nsysprof.app.inputs.options import parse_size
from nsysprof.errors import NsysprofError, UsageError
from nsysprof.files.plain_file import scratch_folder
from nsysprof.results.analysis import Analysis
from nsysprof.results.column_registry.analysis_columns import RANGES
from nsysprof.results.column_registry.column import Dtype
from nsysprof.results.findings import CODES, MEMORY_CODES

_WAIT = re.compile(r"(cuda|cu)(Device|Stream|Event|Ctx|Thread)Synchronize")


class UnknownNumberError(Exception):
    """The number that an assertion needs is unknown on this machine or in this trace; the text says why."""


@dataclass
class TracedBlock:
    """What a block did; known once it has ended. None is unknown, and `reason` says why."""

    name: str
    # "kernel", or "operator" on a machine without a GPU, where launches and kernels are torch's leaf operators.
    work_kind: str = "kernel"
    # Launches of kernels and graphs; a replay of a graph is one launch.
    launches: int | None = None
    kernels: int | None = None
    # How often each kernel ran.
    kernel_names: dict[str, int] = field(default_factory=dict)
    # Bytes that copies, and that fills, moved on the device.
    copied_bytes: int | None = None
    filled_bytes: int | None = None
    # The most that torch's allocator held in addition to what it held before the block.
    peak_bytes: int | None = None
    # The time in which any kernel, copy or fill ran.
    busy_ns: int | None = None
    # How often the block waited for the GPU, without the wait at its end.
    syncs: int | None = None
    # The codes of what analyze finds (see docs/causes.md).
    findings: tuple[str, ...] | None = None
    reason: str = "the block has not ended"

    def assert_launches(
        self, exactly: int | None = None, *, at_most: int | None = None, at_least: int | None = None
    ) -> None:
        """Assert the number of launches of kernels and graphs. One replay of a graph is one launch."""
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
        """Assert how many kernels ran, which texts appear in a kernel's name (`ran`), and which do not (`not_ran`)."""
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

    def assert_syncs(
        self, exactly: int | None = None, *, at_most: int | None = None, at_least: int | None = None
    ) -> None:
        """Assert how often the block waited for the GPU: cudaStreamSynchronize and the like, as .item() causes it."""
        __tracebackhide__ = True
        self._check("waits for the GPU", self.syncs, exactly, at_most, at_least)

    def assert_no_finding(self, *codes: str) -> None:
        """Assert that analyze finds none of these in the block; without a code, that it finds nothing at all."""
        __tracebackhide__ = True
        unknown = [code for code in codes if code not in CODES]
        if unknown:
            is_of_memory = unknown[0] in MEMORY_CODES
            what = "is about torch's memory, which a block does not record" if is_of_memory else "is not known"
            # pytest shows the text alone.
            raise UsageError(f"The finding {unknown[0]!r} {what}. Codes here: {', '.join(CODES)}.")
        if self.findings is None:
            raise UnknownNumberError(self.reason)
        found = [code for code in self.findings if not codes or code in codes]
        if found:
            raise AssertionError(f"found {', '.join(found)}{self._list()}")

    def assert_bytes(self, *, at_most: int | str) -> None:
        """Assert the bytes copied and set, together. at_most: bytes, or a text such as "64MiB"."""
        __tracebackhide__ = True
        moved = (
            None if self.copied_bytes is None or self.filled_bytes is None else self.copied_bytes + self.filled_bytes
        )
        self._check_size("bytes copied and set", moved, at_most)

    def assert_vram(self, *, at_most: int | str) -> None:
        """Assert the peak of memory beyond what was held before the block. at_most: bytes, or a text like "64MiB"."""
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
            raise AssertionError(
                f"{have:,} {what}, expected at most {at_most if isinstance(at_most, str) else f'{limit:,}'}"
            )

    def _list(self) -> str:
        names = sorted(self.kernel_names.items(), key=lambda item: -item[1])
        lines = [f"\n  {count:>6,} x {name[:150]}" for name, count in names[:20]]
        return ":" + "".join(lines) if lines else ": nothing ran"


@contextmanager
def trace_block(name: str, device: str) -> Iterator[TracedBlock]:
    """Profile the block and yield what it did. Raises UnknownNumberError where there is no GPU to profile.

    device: "auto", "cuda" or "cpu".
    """
    recorder = _recorder()
    if device not in ("auto", "cuda", "cpu"):
        raise UsageError(f"Unknown device '{device}'.", "Known: auto, cuda, cpu.")
    if device == "cuda" and not recorder.has_gpu():
        raise UnknownNumberError("there is no GPU here")
    block = TracedBlock(name)
    if recorder.is_under_nsys():
        block.reason = f"nsys records this process; its trace has the range {name}"
        with recorder.mark_block(name):
            yield block
        return
    settled = ("cuda" if recorder.has_gpu() else "cpu") if device == "auto" else device
    with scratch_folder() as folder:
        path = folder / "block.sqlite"
        with recorder.record_block(path, name, settled):
            yield block
        _fill(block, path)


def _recorder() -> Any:
    try:
        from nsysprof.workload.recording.torch_trace import has_gpu, is_under_nsys, mark_block, record_block
    except ImportError as error:
        raise UnknownNumberError(f"torch is not available ({error}): pip install 'nsysprof[torch]'") from error
    return SimpleNamespace(
        has_gpu=has_gpu, is_under_nsys=is_under_nsys, mark_block=mark_block, record_block=record_block
    )


def _fill(block: TracedBlock, path: Path) -> None:
    """Fill in the block's numbers. What the profiler lost makes them unknown."""
    try:
        with open_trace(path) as trace:
            analysis = summarize(trace)
    except NsysprofError as error:
        block.reason = error.text
        return
    block.work_kind = analysis.trace.work_kind
    lost = [loss.note.text for loss in analysis.losses]
    mine = analysis.ranges[(analysis.ranges["range"] == block.name) & (analysis.ranges["style"] == "StartEnd")]
    if lost or len(mine) == 0:
        block.reason = lost[0] if lost else "the profiler recorded no range"
        return
    known = mine.iloc[0].dropna()
    numbers = {name: int(known[name]) for name in RANGES.of_dtype(Dtype.INTEGER) if name in known}
    on_gpu = block.work_kind == "kernel"
    block.reason = "the trace does not say" if on_gpu else "on the CPU, only operators are recorded, and no copies"
    block.launches, block.kernels = numbers.get("launch_count"), numbers.get("kernel_count")
    block.busy_ns, block.peak_bytes = numbers.get("gpu_busy_ns"), numbers.get("peak_vram_bytes")
    if on_gpu:
        block.syncs = _count_syncs(analysis, block.name)
        block.findings = None if analysis.findings is None else tuple(item.code for item in analysis.findings.items)
        block.copied_bytes, block.filled_bytes = numbers.get("memcpy_bytes"), numbers.get("memset_bytes")
    inside = analysis.range_kernels
    inside = inside[(inside["range"] == block.name) & (inside["style"] == "StartEnd")]
    block.kernel_names = {
        str(name): int(count) for name, count in zip(inside["name"], inside["instances"], strict=True)
    }


def _count_syncs(analysis: Analysis, name: str) -> int:
    """Return how many calls in the range waited for the GPU, without the wait with which the recording ends."""
    ranges, calls = analysis.timeline.nvtx, analysis.timeline.api
    mine = ranges[(ranges["name"] == name) & (ranges["style"] == "StartEnd")].iloc[0]
    inside = calls[(calls["start_ns"] >= mine["start_ns"]) & (calls["end_ns"] <= mine["end_ns"])]
    names = inside.sort_values("start_ns", kind="stable")["name"].astype(str)
    waits = [bool(_WAIT.match(each)) for each in names]
    own = bool(waits) and waits[-1] and names.iloc[-1].startswith("cudaDeviceSynchronize")
    return sum(waits) - int(own)
