import csv
import json
import os
from dataclasses import replace

import pandas as pd
import pytest

from nsysprof.errors import OutputError
from nsysprof.report.write import MOST_CSV_INSTANCES, write_analysis
from nsysprof.results.analysis import KERNEL_COLUMNS, RANGE_COLUMNS, RESULT_COLUMNS
from tests.report import samples

FILES = {
    "summary.json", "kernels.csv", "ranges.csv", "range_instances.csv", "range_kernels.csv",
    "range_caused_kernels.csv", "range_tree.csv", "layers.csv", "api.csv", "memops.csv", "gpu_use.csv",
    "streams.csv", "operators.csv", "work.csv", "os_calls.csv", "energy.csv", "collectives.csv",
    "range_api.csv", "idle.csv", "phases.csv",
    "idle_instances.csv", "steps.csv", "findings.csv", "findings.json", "attention.csv", "memory.csv", "findings.sarif",
    "results.csv", "recording_cost.csv",
    "timeline.png", "kernels.png", "vram.png", "report.md", "report.html", "report.json",
}  # fmt: skip


def rows(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_the_folder_of_the_contract(tmp_path):
    analysis = samples.analysis(tmp_path)
    said = []
    written, _ = write_analysis(analysis, samples.record(analysis), tmp_path / "out", svg=True, progress=said.append)
    names = {path.name for path in written}
    assert names == FILES | {"timeline.svg", "kernels.svg", "vram.svg"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    assert said == [
        "draw step",
        "draw roofline",
        "draw traffic",
        "draw timeline",
        "draw kernels",
        "draw vram",
        "draw memory",
        "draw report.html",
    ]
    assert tuple(rows(tmp_path / "out" / "kernels.csv")[0]) == KERNEL_COLUMNS
    assert tuple(rows(tmp_path / "out" / "ranges.csv")[0]) == RANGE_COLUMNS
    assert tuple(rows(tmp_path / "out" / "results.csv")[0]) == RESULT_COLUMNS
    write_analysis(analysis, samples.record(analysis), tmp_path / "again")
    for figure in ("timeline.png", "kernels.png", "vram.png"):
        assert (tmp_path / "out" / figure).read_bytes() == (tmp_path / "again" / figure).read_bytes()


@pytest.mark.parametrize(("more", "suffix"), [(0, ".csv"), (1, ".parquet")])
def test_more_than_a_hundred_thousand_instances_are_parquet(tmp_path, more, suffix):
    analysis = samples.analysis(tmp_path)
    assert MOST_CSV_INSTANCES == 100_000
    few = analysis.range_instances
    rows_of = [0] * (MOST_CSV_INSTANCES + more)
    many = few.iloc[rows_of].assign(instance=range(len(rows_of))).astype({"instance": "Int64"})
    write_analysis(replace(analysis, range_instances=many), None, tmp_path / "out", figures=False)
    (path,) = (tmp_path / "out").glob("range_instances.*")
    assert path.suffix == suffix
    found = pd.read_parquet(path) if more else pd.read_csv(path)
    assert list(found.columns) == list(few.columns)
    assert found["instance"].tolist() == list(range(len(rows_of)))
    assert found["wall_ns"].iloc[-1] == few["wall_ns"].iloc[0]


def test_times_and_sizes_are_integers_and_unknown_is_empty(tmp_path):
    write_analysis(samples.analysis(tmp_path), None, tmp_path / "out", figures=False)
    math = rows(tmp_path / "out" / "ranges.csv")[0]
    assert (math["kernel_total_ns"], math["kernel_count"], math["memcpy_bytes"]) == ("1000", "20", "0")
    assert math["dram_read_bytes"] == ""
    assert math["peak_vram_bytes"] == str(60 << 20)


def test_the_summary_says_null_with_a_reason(tmp_path):
    made = samples.builder()
    del made.tables["CUDA_GPU_MEMORY_USAGE_EVENTS"]
    write_analysis(samples.analysis(tmp_path, made), None, tmp_path / "out", figures=False)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["format_version"] == 1
    assert summary["totals"]["peak_vram_bytes"] is None
    assert "no-memory-usage" in [note["code"] for note in summary["notes"]]
    assert summary["totals"]["kernel_count"] == 22
    assert "uuid" not in json.dumps(summary["devices"])


def test_a_kernels_name_is_no_formula(tmp_path):
    write_analysis(
        samples.analysis(tmp_path, samples.builder(kernel="=HYPERLINK(1)")), None, tmp_path / "o", figures=False
    )
    assert all(not row["name"].startswith("=") for row in rows(tmp_path / "o" / "kernels.csv"))


def test_stale_figures_go_when_there_is_nothing_to_draw(tmp_path):
    out = tmp_path / "out"
    analysis = samples.analysis(tmp_path)
    write_analysis(analysis, None, out, figures=False)
    (out / "vram.png").write_bytes(b"of an analysis before")
    (tmp_path / "trace.sqlite").unlink()
    made = samples.builder()
    del made.tables["CUDA_GPU_MEMORY_USAGE_EVENTS"]
    write_analysis(samples.analysis(tmp_path, made), None, out)
    assert not (out / "vram.png").exists()


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        write_analysis(samples.analysis(tmp_path), None, tmp_path / "file" / "out", figures=False)


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    out = tmp_path / "out"
    analysis = samples.analysis(tmp_path)
    write_analysis(analysis, None, out, figures=False)
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    def full(descriptor, mode):
        os.close(descriptor)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(OutputError, match="No space left"):
        write_analysis(analysis, None, out, figures=False)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_an_empty_trace_writes_its_tables_and_says_what_is_missing(tmp_path):
    from tests.builders.build_trace import TraceBuilder

    made = TraceBuilder()
    made.fact("x", "y")
    analysis = samples.analysis(tmp_path, made)
    written, _ = write_analysis(analysis, None, tmp_path / "out")
    assert "timeline.png" not in {path.name for path in written}
    assert len(pd.read_csv(tmp_path / "out" / "kernels.csv")) == 0
    assert "no GPU" in (tmp_path / "out" / "report.md").read_text()
