"""Stacks of a capture are read by the clock of the trace, and damaged files are refused."""

import json
import sqlite3
from pathlib import Path

import pytest

from nsysprof.app.trace_analysis.assemble import read_stacks
from nsysprof.errors import TraceError
from tests.builders.build_trace import TID, TraceBuilder
from tests.trace.table_readers.test_native_stacks import trace_with_stacks

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
        # The recorder's own frame, between torch's and the program's, is neither's.
        "stacks": [
            [STACK[0], ["/v/nsysprof/workload/program_start/stack_sampler.py", 60, "call"], STACK[1]],
            STACK[:1],
        ],
        "samples": [[EPOCH_NS + 9, 80, 0], [EPOCH_NS + 4, 77, 1]],
        "waits": [[EPOCH_NS + 5, 77, 0]],
    }
    folder = capture(tmp_path / "run", data)
    found = read_stacks(folder, folder / "nsys.sqlite")
    assert found is not None
    assert found.time_ns.tolist() == [4, 9]
    assert found.thread.tolist() == [(77 << 24) | 77, (77 << 24) | 80]
    assert [found.lines[line] if line >= 0 else None for line in found.line] == [None, "/w/train.py:7"]
    assert found.waits is not None
    assert (found.waits.time_ns.tolist(), found.waits.line.tolist()) == ([5], [0])


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
    builder = TraceBuilder()
    builder.launch(1, 1)
    assert read_stacks(tmp_path, builder.write(tmp_path / "nsys.sqlite")) is None


def test_native_stacks_name_the_programs_own_function_or_the_operator_of_torch(tmp_path: Path) -> None:
    path = trace_with_stacks(tmp_path / "t.sqlite")
    found = read_stacks(path, path)
    assert found is not None
    assert (found.lines, found.time_ns.tolist()) == (("main (train)",), [550, 550])
    assert found.thread.tolist() == [TID & ((1 << 48) - 1)] * 2
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE StringIds SET value = '/v/torch/lib/libtorch_cpu.so' WHERE value = '/w/train'")
        name = "at::_ops::_local_scalar_dense::call(at::Tensor const&)"
        connection.execute("UPDATE StringIds SET value = ? WHERE value = 'main'", (name,))
    found = read_stacks(path, path)
    assert found is not None
    assert found.lines == ("aten::_local_scalar_dense",)


def test_samples_of_python_come_with_the_native_stacks_of_the_same_trace(tmp_path: Path) -> None:
    data = {"format_version": 1, "process": 77, "stacks": [STACK], "samples": [[EPOCH_NS + 9, 80, 0]]}
    folder = capture(tmp_path / "run", data)
    found = read_stacks(folder, trace_with_stacks(tmp_path / "t.sqlite", epoch_ns=EPOCH_NS))
    assert found is not None
    assert found.native is not None
    assert (found.lines, found.native.lines) == (("/w/train.py:7",), ("main (train)",))
