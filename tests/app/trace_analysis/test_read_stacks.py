"""Stacks of a capture are read by the clock of the trace, and damaged files are refused."""

import json
from pathlib import Path

import pytest

from nsysprof.app.trace_analysis.read_stacks import read_stacks
from nsysprof.errors import TraceError
from tests.builders.build_trace import TraceBuilder

EPOCH_NS = 1_790_000_000_000_000_000
STACK = [["/v/lib/python3.11/site-packages/torch/_tensor.py", 5, "item"], ["/w/train.py", 7, "step"]]


def capture(folder: Path, data: object) -> Path:
    folder.mkdir()
    builder = TraceBuilder()
    builder.row("TARGET_INFO_SESSION_START_TIME", "utcEpochNs INTEGER", (EPOCH_NS,))
    builder.launch(1, 1)
    builder.write(folder / "nsys.sqlite")
    (folder / "nsys.stacks-77.json").write_text(json.dumps(data))
    return folder


def test_samples_are_in_order_with_the_innermost_own_line(tmp_path: Path) -> None:
    data = {
        "format_version": 1,
        "process": 77,
        "stacks": [STACK, STACK[:1]],
        "samples": [[EPOCH_NS + 9, 80, 0], [EPOCH_NS + 4, 77, 1]],
    }
    folder = capture(tmp_path / "run", data)
    found = read_stacks(folder, folder / "nsys.sqlite")
    assert found is not None
    assert found.time_ns.tolist() == [4, 9]
    assert found.thread.tolist() == [(77 << 24) | 77, (77 << 24) | 80]
    assert [found.lines[line] if line >= 0 else None for line in found.line] == [None, "/w/train.py:7"]


@pytest.mark.parametrize(
    "data",
    [
        [],
        {"format_version": 1, "process": 77, "stacks": [], "samples": "x"},
        {"format_version": 1, "process": -1, "stacks": [], "samples": []},
        {"format_version": 1, "process": 77, "stacks": [["x"]], "samples": []},
        {"format_version": 1, "process": 77, "stacks": [], "samples": [[1 << 70, 1, 1]]},
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, data: object) -> None:
    folder = capture(tmp_path / "run", data)
    with pytest.raises(TraceError):
        read_stacks(folder, folder / "nsys.sqlite")


def test_a_folder_without_stacks(tmp_path: Path) -> None:
    assert read_stacks(tmp_path, tmp_path / "nsys.sqlite") is None
