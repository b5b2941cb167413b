import errno
import json
import sys

import pandas as pd
import pyarrow.parquet as pq
import pytest

from nsysprof.errors import MissingToolError, OutputError
from nsysprof.export import parquet
from nsysprof.export.parquet import check_folder, write_parquet
from tests.builders.build_trace import TraceBuilder
from tests.export.contents import content_of


def export(content, folder):
    write_parquet(content, folder, lambda _more: None)
    return {path.stem: pd.read_parquet(path) for path in folder.glob("*.parquet")}


@pytest.mark.parametrize("name", ["sdpa", "mp", "gm10k", "graph_whole", "sdpa22"])
def test_tables_hold_the_rows_of_the_timeline(name, trace_path, tmp_path):
    content = content_of(trace_path(name))
    tables = export(content, tmp_path / "o")
    timeline = content.analysis.timeline
    assert sorted(tables) == ["api", "gpu", "gpu_metrics", "memory", "ranges"]
    for key, expected in (("gpu", timeline.gpu), ("api", timeline.api), ("ranges", timeline.nvtx)):
        assert len(tables[key]) == len(expected)
        for column in ("start_ns", "end_ns", "name"):
            assert tables[key][column].tolist() == expected[column].tolist()
    assert tables["memory"]["used_bytes"].tolist() == timeline.memory["used_bytes"].tolist()
    assert len(tables["gpu_metrics"]) == sum(map(len, content.metrics))


def test_work_joins_the_call_that_launched_it(trace_path, tmp_path):
    tables = export(content_of(trace_path("sdpa")), tmp_path / "o")
    joined = tables["gpu"].join(tables["api"].add_suffix("_of_call"), on="call", how="inner")
    assert len(joined) == 1133
    assert (joined["start_ns"] >= joined["start_ns_of_call"]).all()
    launches = joined["name_of_call"][joined["kind"] == "kernel"].astype(str).str.match("cu(da)?LaunchKernel")
    assert launches.all()


def test_times_are_stored_as_differences_and_names_once(trace_path, tmp_path):
    export(content_of(trace_path("sdpa")), tmp_path / "o")
    columns = pq.read_metadata(tmp_path / "o" / "gpu.parquet").row_group(0).to_dict()["columns"]
    stored = {column["path_in_schema"]: set(column["encodings"]) for column in columns}
    differences = {name for name, encodings in stored.items() if "DELTA_BINARY_PACKED" in encodings}
    assert differences == {"start_ns", "end_ns", "call"}
    assert "RLE_DICTIONARY" in stored["name"]
    assert {column["path_in_schema"] for column in columns if column["statistics"] is None} == {
        "kind", "name", "short_name", "category", "stream",
    }  # fmt: skip


def test_tables_of_several_parts_are_whole(trace_path, tmp_path, monkeypatch):
    content = content_of(trace_path("sdpa"))
    whole = export(content, tmp_path / "whole")
    monkeypatch.setattr(parquet, "_ROWS", 100)
    parts = export(content, tmp_path / "parts")
    assert pq.read_metadata(tmp_path / "parts" / "gpu.parquet").num_row_groups > 10
    for name, table in whole.items():
        pd.testing.assert_frame_equal(parts[name], table)


def test_a_full_disk_is_told_and_nothing_is_left(trace_path, tmp_path, monkeypatch):
    def fail(*_arguments, **_options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail)
    with pytest.raises(OutputError, match="No space left"):
        export(content_of(trace_path("mem")), tmp_path / "o")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_call_is_null_and_columns_are_there_without_rows(tmp_path):
    builder = TraceBuilder()
    builder.kernel(1, 2, None)
    content = content_of(builder.write(tmp_path / "t.sqlite"))
    tables = export(content, tmp_path / "o")
    assert tables["gpu"]["call"].isna().all()
    assert list(tables["api"].columns) == ["start_ns", "end_ns", "name", "global_tid"]
    assert list(tables["gpu_metrics"].columns) == ["time_ns", "gpu", "device_id", "value", "metric"]
    about = json.loads(pq.read_schema(tmp_path / "o" / "api.parquet").metadata[b"nsysprof"])
    assert about["sha256"] == content.analysis.trace.sha256
    assert [note["code"] for note in about["notes"]] == [note.code for note in content.analysis.notes]


def test_a_folder_of_other_things_is_refused(tmp_path):
    folder = tmp_path / "o"
    check_folder(folder, force=False)
    folder.mkdir()
    check_folder(folder, force=False)
    (folder / "gpu.parquet").write_bytes(b"")
    with pytest.raises(OutputError, match="already holds"):
        check_folder(folder, force=False)
    check_folder(folder, force=True)
    (folder / "thesis.md").write_bytes(b"")
    with pytest.raises(OutputError, match="not from an export"):
        check_folder(folder, force=True)
    with pytest.raises(OutputError, match="is a file"):
        check_folder(folder / "thesis.md", force=True)


def test_an_interrupted_export_leaves_the_old_folder(trace_path, tmp_path):
    content = content_of(trace_path("mem"))
    export(content, tmp_path / "o")
    before = {path.name: path.read_bytes() for path in (tmp_path / "o").iterdir()}

    def interrupt(_more):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_parquet(content, tmp_path / "o", interrupt, force=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "o").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["o"]


def test_without_pyarrow_it_says_what_to_install(trace_path, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingToolError) as failed:
        write_parquet(content_of(trace_path("mem")), tmp_path / "o", lambda _more: None)
    assert "nsysprof[parquet]" in failed.value.next_step
