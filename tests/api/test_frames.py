import gzip
import subprocess
import sys

import pandas as pd
import pytest

import nsysprof
from nsysprof.errors import UsageError
from tests.builders.build_trace import OTHER_TID, PID, TID, TraceBuilder


@pytest.fixture
def opened(tmp_path):
    builder = TraceBuilder()
    builder.launch(10, 1, name="gemm")
    builder.launch(20, 2, tid=OTHER_TID)
    builder.call(20, 30, 2, event_class=67)
    builder.kernel(300, 310, None, "orphan", node=4)
    builder.copy(400, 410, 3, 64)
    builder.fill(500, 510, 4, 32)
    builder.range(0, None, "open")
    builder.allocate(0, 1, 4096)
    with nsysprof.open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        yield trace


def test_kernels_are_rows_with_names_and_na_for_what_is_unknown(opened):
    kernels = nsysprof.read_kernels(opened)
    assert kernels["name"].tolist() == ["gemm(int)", "kernel(int)", "orphan(int)"]
    assert kernels["category"].tolist() == ["gemm", "other", "other"]
    assert kernels["duration_ns"].tolist() == [50, 50, 10]
    assert kernels["correlation_id"].isna().tolist() == [False, False, True]
    assert kernels["graph_node_id"].tolist()[2] == 4
    assert kernels["grid_x"].isna().all(), "the trace has no such column"
    assert kernels["global_pid"].tolist() == [PID] * 3


def test_calls_come_without_the_backtraces_that_repeat_them(opened):
    calls = nsysprof.read_calls(opened)
    assert calls[["start_ns", "global_tid"]].to_numpy().tolist() == [[10, TID], [20, OTHER_TID]]
    assert calls["name"].tolist() == ["cudaLaunchKernel_v7000"] * 2


def test_other_tables(opened):
    assert nsysprof.read_copies(opened)[["bytes", "copy_kind"]].to_numpy().tolist() == [[64, 1]]
    assert nsysprof.read_fills(opened)["bytes"].tolist() == [32]
    assert nsysprof.read_memory(opened)[["bytes", "operation"]].to_numpy().tolist() == [[4096, 0]]
    ranges = nsysprof.read_ranges(opened)
    assert ranges["name"].tolist() == ["open"]
    assert ranges["end_ns"].isna().all()


def test_the_summary_is_the_command_lines(opened):
    analysis = nsysprof.summarize(opened)
    assert isinstance(analysis, nsysprof.Analysis)
    assert analysis.totals.kernel_count == 3
    assert "open-ranges" in {note.code for note in analysis.notes}


def test_absent_tables_have_columns_and_no_rows(tmp_path):
    builder = TraceBuilder()
    builder.fact("EXPORT_PRODUCT_VERSION", "2024.2.3", "META_DATA_EXPORT")
    readers = (nsysprof.read_kernels, nsysprof.read_calls, nsysprof.read_copies, nsysprof.read_fills,
               nsysprof.read_ranges, nsysprof.read_memory)  # fmt: skip
    with nsysprof.open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        for read in readers:
            table = read(trace)
            assert isinstance(table, pd.DataFrame)
            assert len(table) == 0
            assert len(table.columns) > 5
        assert not trace.has("CUPTI_ACTIVITY_KIND_KERNEL")


def test_what_the_command_line_takes_opens_too(tmp_path):
    builder = TraceBuilder()
    builder.launch(10, 1)
    plain = builder.write(tmp_path / "t.sqlite")
    (tmp_path / "t.sqlite.gz").write_bytes(gzip.compress(plain.read_bytes()))
    with nsysprof.open_trace(str(tmp_path / "t.sqlite.gz")) as trace:
        assert len(nsysprof.read_kernels(trace)) == 1
    with pytest.raises(nsysprof.NsysprofError) as caught, nsysprof.open_trace(tmp_path / "none.sqlite"):
        pass
    assert caught.value.next_step


def test_the_help_loads_nothing_heavy():
    heavy = {"pandas", "numpy", "email", "nsysprof.results.comparison", "nsysprof.attention.shape"}
    code = f"import sys, nsysprof.cli; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, nsysprof; assert not {'pandas', 'numpy', 'torch'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(AttributeError):
        nsysprof.nothing  # noqa: B018


def test_a_range_is_summed_up_alone(opened):
    whole = nsysprof.summarize(opened)
    row = whole.ranges.iloc[0]
    part = nsysprof.summarize(opened, range=row["range"])
    assert part.totals.kernel_count == row["kernel_count"] + row["adopted_kernel_count"] == 2
    assert set(part.ranges["range"]) == {row["range"]}
    with pytest.raises(UsageError, match="has no range"):
        nsysprof.summarize(opened, range="nowhere")
