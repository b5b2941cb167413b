"""Ranges around ranges: a small file can say as much of them as the square of its size, and is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysprof.analysis.attribution import attribute
from nsysprof.analysis.busy_time import work_ledger
from nsysprof.analysis.idle_time import ledger
from nsysprof.analysis.ranges.range_work import launched_work
from nsysprof.app.analyze import analyze_trace
from nsysprof.errors import TraceForeignError
from tests.builders.build_trace import TraceBuilder


def nested(path: Path, count: int) -> Path:
    """Return a trace whose ranges all hold every launch, each under a name of its own."""
    builder = TraceBuilder("2025.3")
    for number in range(count):
        builder.range(number, 4_000 * count - number, f"range {number}")
        builder.launch(1_000 * number + 2 * count, number + 1, name=f"kernel{number}")
    return builder.write(path)


def test_more_ranges_around_each_launch_than_any_program_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """8,000 of them, in a megabyte, took more than ten minutes and 4 GB of tables."""
    path = nested(tmp_path / "t.sqlite", 40)
    assert len(analyze_trace(path).range_kernels) == 40 * 40
    monkeypatch.setattr(attribute, "FREE_PAIRS", 0)
    monkeypatch.setattr(attribute, "MOST_AROUND", 39)
    with pytest.raises(TraceForeignError, match="More than 39 ranges"):
        analyze_trace(path)


def test_more_kernels_by_range_than_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = nested(tmp_path / "t.sqlite", 40)
    monkeypatch.setattr(attribute, "_FREE_ROWS", 0)
    with pytest.raises(TraceForeignError, match="many times as many as the trace"):
        analyze_trace(path)


def on_devices(path: Path, devices: int, ranges: int, kinds: int) -> Path:
    """Return a trace whose ranges all hold the launches of all devices, each under a name of its own."""
    builder = TraceBuilder("2025.3")
    kernels = [(device, kind) for device in range(devices) for kind in range(kinds)]
    for number in range(devices):
        builder.gpu(number, cuda=number)
    for number, (device, kind) in enumerate(kernels, 1):
        builder.launch(1_000_000 + 1_000 * number, number, name=KINDS[kind], device=device)
    for number in range(ranges):
        builder.range(number, 1_000_000_000 - number, chr(97 + number // 26) + chr(97 + number % 26))
    return builder.write(path)


KINDS = ("gemm", "softmax", "elementwise_kernel", "reduce_kernel", "copy_kernel", "fft", "layer_norm", "flash_fwd")


@pytest.mark.parametrize(
    ("of_devices", "limit"),
    [
        ((30, 30, 1), "_MOST_BY_NAME"),
        ((30, 30, 1), "_MOST_BY_INSTANCE"),
        ((8, 16, 8), "_MOST_ROWS"),
    ],
)
def test_more_ranges_by_device_than_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_devices: tuple[int, ...], limit: str
) -> None:
    """A file of 5 MB, with 1,000 GPUs and 50,000 ranges, took 10 GB."""
    path = on_devices(tmp_path / "t.sqlite", *of_devices)
    assert len(analyze_trace(path).idle.devices) == of_devices[0]
    monkeypatch.setattr(attribute, "_FREE_ROWS", 0)
    for module, name in ((ledger, "_MOST_BY_NAME"), (ledger, "_MOST_BY_INSTANCE"), (work_ledger, "_MOST_ROWS")):
        if name != limit:
            monkeypatch.setattr(module, name, 1 << 20)
    monkeypatch.setattr(launched_work, "_MOST_PAIRS", 1 << 20)
    with pytest.raises(TraceForeignError, match="many times as many as the trace"):
        analyze_trace(path)


def test_more_steps_by_device_than_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """200 steps on each of 1,000 devices of which few work in each."""
    builder = TraceBuilder("2025.3")
    for number in range(20):
        builder.gpu(number, cuda=number)
    for number in range(100):
        builder.launch(1_000 * number, number + 1, device=number % 20)
        builder.range(1_000 * number, 1_000 * number + 900, f"step{number}")
    path = builder.write(tmp_path / "t.sqlite")
    assert analyze_trace(path).step_times is not None
    monkeypatch.setattr(attribute, "_FREE_ROWS", 0)
    monkeypatch.setattr(ledger, "_MOST_BY_INSTANCE", 1 << 20)
    with pytest.raises(TraceForeignError, match="would have 2,000 rows"):
        analyze_trace(path)


def test_ranges_with_open_ends_are_cut_alike_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges that end inside a call: each call is looked at, a portion at a time."""
    builder = TraceBuilder("2025.3")
    for number in range(30):
        builder.range(7 * number, 7 * number + 151, f"range {number}")
        builder.launch(20 * number, number + 1)
    path = builder.write(tmp_path / "t.sqlite")
    whole = analyze_trace(path).ranges
    monkeypatch.setattr(attribute, "_PAIRS_AT_ONCE", 5)
    assert analyze_trace(path).ranges.equals(whole)
