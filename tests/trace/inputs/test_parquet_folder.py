import lzma
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from nsysprof.app.analyze import analyze_trace
from nsysprof.errors import MissingToolError, NsysprofError, TraceDamagedError, TraceForeignError
from nsysprof.trace.inputs.parquet_folder import convert_parquet_folder
from nsysprof.trace.inputs.resolve_input import resolve_input
from tests.builders.build_trace import PID, TID, TraceBuilder
from tests.builders.record_with_nsys import record_nvtx
from tests.trace.parquet_writer import write_parquet_folder

TRACES = sorted(
    path.name.removesuffix(".sqlite.xz") for path in (Path(__file__).parents[3] / "traces").glob("*.sqlite.xz")
)
# Calls and memory, two processes, nodes of a graph, two GPUs; the others have the same tables and are slow.
QUICK = ("mem", "mp", "graph_node", "two_gpus", "managed")
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL.parquet"


@pytest.fixture
def folder(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 100, "step")
    builder.launch(10, 1)
    return write_parquet_folder(builder.write(tmp_path / "t.sqlite"), tmp_path / "pq")


@pytest.fixture
def work(tmp_path):
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def comparable(analysis):
    """All that an analysis counted, without what the trace is called."""
    frames = {name: getattr(analysis, name) for name in ("kernels", "ranges", "range_kernels", "api", "memops")}
    return {name: frame.to_csv(index=False) for name, frame in frames.items()}, analysis.totals, analysis.coverage


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in TRACES]
)
def test_a_folder_gives_what_the_sqlite_of_the_same_report_gives(tmp_path, trace_path, work, name):
    trace = trace_path(name)
    made = resolve_input(write_parquet_folder(trace, tmp_path / "pq"), None, work)
    assert comparable(analyze_trace(made)) == comparable(analyze_trace(trace))


def test_real_folders_of_an_nsys(tmp_path, nsys, work):
    """nsys' own writer, on a report without a GPU: every range of it."""
    program = "import nvtx\nfor i in range(3):\n    nvtx.push_range(f'step {i % 2}'); nvtx.pop_range()"
    folder, trace = tmp_path / "pq", tmp_path / "t.sqlite"
    report, _ = record_nvtx(nsys, tmp_path, [sys.executable, "-c", program])
    for kind, target in (("parquetdir", folder), ("sqlite", trace)):
        argv = [nsys, "export", "--type", kind, "--output", target, report]
        subprocess.run(argv, check=True, capture_output=True, timeout=300)
    made = analyze_trace(resolve_input(folder, None, work))
    assert comparable(made) == comparable(analyze_trace(trace))


def test_process_ids_with_the_highest_bit_set_are_the_same_process(tmp_path, work):
    high = PID - 2**63  # what SQLite shows of an id above 2**63
    builder = TraceBuilder()
    builder.range(0, 100, "step", tid=high | 1)
    builder.launch(10, 1, tid=high | 1)
    made = resolve_input(write_parquet_folder(builder.write(tmp_path / "t.sqlite"), tmp_path / "pq"), None, work)
    analysis = analyze_trace(made)
    assert analysis.ranges.loc[0, "kernel_count"] == 1
    assert analysis.coverage.kernels == analysis.coverage.attributed_kernels == 1


def test_integers_beside_nulls_keep_every_digit(tmp_path, work):
    builder = TraceBuilder()
    start = 2**53 + 1  # a float would make it even
    builder.range(start, None, "open")
    builder.range(start, start + 2, "closed")
    made = resolve_input(write_parquet_folder(builder.write(tmp_path / "t.sqlite"), tmp_path / "pq"), None, work)
    ranges = analyze_trace(made).ranges.set_index("range")
    assert ranges.loc["closed", "wall_ns"] == 2


@pytest.mark.parametrize("keep", [0, 3, 4, 100, 0.5, 0.99])
def test_a_truncated_file_names_itself(folder, work, keep):
    data = (folder / KERNELS).read_bytes()
    (folder / KERNELS).write_bytes(data[: int(keep if keep > 1 or keep == 0 else keep * len(data))])
    with pytest.raises(TraceDamagedError, match="KERNEL.parquet is damaged") as caught:
        resolve_input(folder, None, work)
    assert "nsys export" in caught.value.next_step


def test_a_byte_changed_anywhere_is_an_error_of_ours_or_none(folder, work):
    data = (folder / KERNELS).read_bytes()
    for position in range(0, len(data), 37):
        (folder / KERNELS).write_bytes(data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :])
        try:
            resolve_input(folder, None, work)
        except NsysprofError as error:
            assert "\n" not in error.text
        (work / "parquet.sqlite").unlink()


def test_what_is_no_parquet_of_nsys(tmp_path, folder, work):
    (folder / KERNELS).write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n")
    with pytest.raises(TraceForeignError, match="git-lfs"):
        resolve_input(folder, None, work)
    (tmp_path / "other").mkdir()
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "other/part-0.parquet")
    with pytest.raises(TraceForeignError, match="none of them is a table of nsys"):
        resolve_input(tmp_path / "other", None, work)


def test_a_table_with_foreign_columns_is_refused_and_one_with_foreign_types_read_without_them(folder, work):
    parquet.write_table(pa.table({f"c{i}": [1] for i in range(3000)}), folder / KERNELS)
    with pytest.raises(TraceDamagedError, match="columns that no nsys writes"):
        resolve_input(folder, None, work)
    (work / "parquet.sqlite").unlink()
    parquet.write_table(pa.table({"start": [[1, 2]], "end": [3]}), folder / KERNELS)
    notes = {note.code for note in analyze_trace(resolve_input(folder, None, work)).notes}
    assert "table-unreadable" in notes


def test_text_that_is_no_utf8_is_replaced(folder, work):
    bad = pa.array([b"kernel\xff\xfe"] * 4, pa.large_binary()).cast(pa.large_string(), safe=False)
    parquet.write_table(pa.table({"id": pa.array(range(4), pa.int32()), "value": bad}), folder / "StringIds.parquet")
    names = analyze_trace(resolve_input(folder, None, work)).kernels["name"].tolist()
    assert names == ["kernel\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"]


def test_without_pyarrow_it_says_what_to_install(folder, work, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingToolError, match="pyarrow") as caught:
        resolve_input(folder, None, work)
    assert "nsysprof[parquet]" in caught.value.next_step


def test_a_capture_folder_that_also_holds_parquet_is_a_capture(folder, work):
    builder = TraceBuilder()
    builder.launch(0, 1, tid=TID)
    data = builder.write(folder / "nsys.sqlite").read_bytes()
    (folder / "nsys.sqlite.xz").write_bytes(lzma.compress(data))
    assert resolve_input(folder, None, work) == folder / "nsys.sqlite"


def bomb(folder, table, columns):
    """Packed so well that the file is next to nothing."""
    folder.mkdir()
    parquet.write_table(pa.table(columns), folder / f"{table}.parquet", compression="zstd")
    return folder


def test_a_small_file_of_many_rows_is_refused(tmp_path, work):
    """Zeros of 320 MB take 180 KB, and a billion rows little more."""
    zeros = pa.array(np.zeros(20_000_000, dtype=np.int64))
    folder = bomb(tmp_path / "rows", "CUPTI_ACTIVITY_KIND_KERNEL", {"start": zeros, "end": zeros})
    assert sum(path.stat().st_size for path in folder.iterdir()) < 400_000
    with pytest.raises(TraceForeignError, match="400 times its size"):
        convert_parquet_folder(folder, work / "t.sqlite")
    assert (work / "t.sqlite").stat().st_size < 1 << 20


def test_a_long_text_of_many_rows_is_refused(tmp_path, work):
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 5_000, pa.int32()), ["x" * 1_000_000])
    folder = bomb(tmp_path / "texts", "NVTX_EVENTS", {"start": list(range(5_000)), "text": texts})
    with pytest.raises(TraceForeignError, match="400 times its size"):
        convert_parquet_folder(folder, work / "t.sqlite")
    assert (work / "t.sqlite").stat().st_size < 400 << 20
