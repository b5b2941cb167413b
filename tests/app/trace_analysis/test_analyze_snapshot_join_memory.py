"""What torch's allocator recorded in a capture is joined with the ranges of the trace by the clock."""

import json
from pathlib import Path

import pandas as pd
import pytest

from nsysprof.app.analyze import analyze_one
from nsysprof.app.compare import compare
from nsysprof.app.inputs.reading_requests import AnalyzeRequest, CompareRequest
from nsysprof.app.progress import SILENT
from nsysprof.files.plain_file import plain_json
from nsysprof.report.write import analysis_json
from tests.builders.allocator_snapshot import SnapshotBuilder, frames
from tests.builders.build_trace import PID, TraceBuilder
from tests.builders.published_schema import as_published

EPOCH_US = 1_790_000_000_000_000
NUMBER = (PID >> 24) & 0xFFFFFF


def capture(folder: Path, *, epoch: bool = True) -> Path:
    folder.mkdir()
    builder = TraceBuilder()
    if epoch:
        builder.row("TARGET_INFO_SESSION_START_TIME", "utcEpochNs INTEGER", (EPOCH_US * 1000,))
    builder.range(0, 15_000, "forward")
    builder.range(15_000, 50_000, "backward")
    builder.launch(16_000, 1)
    builder.kernel(17_000, 18_000, 1)
    builder.write(folder / "nsys.sqlite")
    # Events are 10 us apart.
    torch = SnapshotBuilder(start_us=EPOCH_US)
    torch.alloc(3 << 20, frames("/w/model.py", 3, "forward"))
    torch.alloc(1 << 20, frames("/w/model.py", 3, "forward"))
    torch.write(folder / f"nsys.memory-{NUMBER}.pickle")
    other = SnapshotBuilder(start_us=EPOCH_US)
    other.alloc(1 << 20)
    other.write(folder / "nsys.memory-7.pickle")
    return folder


def owners(folder: Path, out: Path) -> dict[tuple[str, str | None], int]:
    result = analyze_one(AnalyzeRequest((folder,), out=out, figures=False), SILENT)
    assert result.analysis.allocator is not None
    table = pd.read_csv(out / "memory.csv", dtype=object, keep_default_na=False)
    assert "Owners of the peak" in (out / "report.md").read_text()
    return {(row["owner"], row["range"] or None): int(row["peak_bytes"]) for row in table.to_dict("records")}


def test_owners_are_lines_in_ranges(tmp_path: Path) -> None:
    found = owners(capture(tmp_path / "run"), tmp_path / "out")
    assert found == {("w/model.py:3 forward", "forward"): 3 << 20, ("w/model.py:3 forward", "backward"): 1 << 20}


def test_without_the_time_of_day_ranges_are_unknown(tmp_path: Path) -> None:
    found = owners(capture(tmp_path / "run", epoch=False), tmp_path / "out")
    assert found == {("w/model.py:3 forward", None): 4 << 20}


def test_compare_names_the_lines_behind_the_difference_of_two_captures(tmp_path: Path) -> None:
    folders = [capture(tmp_path / name) for name in ("before", "after")]
    torch = SnapshotBuilder(start_us=EPOCH_US)
    torch.alloc(3 << 20, frames("/w/model.py", 3, "forward"))
    torch.alloc(8 << 20, frames("/w/cache.py", 9, "grow"))
    torch.write(folders[1] / f"nsys.memory-{NUMBER}.pickle")
    found = compare(CompareRequest((folders[0],), (folders[1],), ignore_conditions=True)).comparison.memory
    assert found is not None
    assert (found.baseline, found.candidate) == ("before", "after")
    changes = {change.owner: change.difference_bytes for change in found.changes}
    assert changes == {"w/cache.py:9 grow": 8 << 20, "w/model.py:3 forward": -(1 << 20)}
    assert found.candidate_peak_bytes - found.baseline_peak_bytes == sum(changes.values())


def test_fragmentation_is_a_finding_in_every_place_where_findings_are(tmp_path: Path) -> None:
    folders = [capture(tmp_path / name) for name in ("before", "after")]
    torch = SnapshotBuilder(start_us=EPOCH_US)
    torch.alloc(3 << 20, frames("/w/model.py", 3, "forward"))
    torch.reserve(1 << 30)
    torch.write(folders[1] / f"nsys.memory-{NUMBER}.pickle")

    out = tmp_path / "out"
    printed = analyze_one(AnalyzeRequest((folders[1],), out=out, figures=False), SILENT)
    data = as_published("analyze", plain_json(analysis_json(printed.analysis, printed.record) | {"folder": ""}))
    (finding,) = data["causes"]["memory_findings"]
    assert finding["code"] == "memory-fragmentation"
    assert finding["bytes"] == (1 << 30) - (3 << 20)
    assert data["allocator"]["devices"][0]["reserved_peak_bytes"] == 1 << 30
    (run,) = json.loads((out / "findings.sarif").read_text())["runs"]
    assert [each["ruleId"] for each in run["results"]] == ["memory-fragmentation"]
    assert run["tool"]["driver"]["rules"][run["results"][0]["ruleIndex"]]["id"] == "memory-fragmentation"

    def judge(baseline: Path, candidate: Path) -> tuple[str, list[str]]:
        rule = "finding:memory-fragmentation"
        found = compare(CompareRequest((baseline,), (candidate,), ignore_conditions=True, fail_on=rule)).comparison
        return str(found.outcome), [f"{each.code} {each.how}" for each in found.findings]

    assert judge(*folders) == ("regression", ["memory-fragmentation appeared"])
    assert judge(*reversed(folders)) == ("pass", ["memory-fragmentation vanished"])
    assert judge(folders[0] / "nsys.sqlite", folders[1]) == ("inconclusive", [])


def failed_capture(folder: Path, *, layer: str = "backward layers.3.mlp (Linear)", node: str = "") -> Path:
    """Return a capture in which process NUMBER, rank 1, ended for lack of memory in the backward pass of a layer."""
    capture(folder)
    (folder / f"nsys.memory-{NUMBER}.pickle").unlink()
    builder = TraceBuilder()
    builder.row("TARGET_INFO_SESSION_START_TIME", "utcEpochNs INTEGER", (EPOCH_US * 1000,))
    builder.range(0, 50_000, f"nsysprof {layer}")
    if node:
        builder.range(1_000, 40_000, node)
    builder.launch(16_000, 1)
    builder.kernel(17_000, 18_000, 1)
    (folder / "nsys.sqlite").unlink()
    builder.write(folder / "nsys.sqlite")
    for name, asked in (("first", 5 << 30), ("last", 2 << 30)):
        torch = SnapshotBuilder(start_us=EPOCH_US)
        torch.reserve(3 << 20)
        torch.alloc(3 << 20)
        torch.fail(asked, 1 << 20, tensors=[], rank="1", process=NUMBER)
        torch.write(folder / f"nsys.memory-{NUMBER}.oom-{name}.pickle")
    return folder


def test_a_rank_that_ran_out_of_memory_comes_first(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = analyze_one(AnalyzeRequest((failed_capture(tmp_path / "run"),), out=out, figures=False), SILENT)
    report = (out / "report.md").read_text()
    place = report.index("Rank 1: out of memory on device 0: 2 GiB were asked for")
    assert place < report.index("## Memory")
    assert "backward of layers.3.mlp (Linear)" in report[place:]
    assert "The process ended because of it." in report
    data = as_published("analyze", plain_json(analysis_json(result.analysis, result.record) | {"folder": ""}))
    (failure,) = data["allocator"]["out_of_memory"]
    assert (failure["rank"], failure["asked_bytes"], failure["is_fatal"]) == (1, 2 << 30, True)
    assert failure["by_kind"] == {"activations": 3 << 20}
    assert [item["code"] for item in data["causes"]["memory_findings"]] == ["out-of-memory"]


EVALUATED = "autograd::engine::evaluate_function: MmBackward0"


@pytest.mark.parametrize(("given", "owner"), [
    ({}, "(autograd: backward of layers.3.mlp (Linear))"),
    ({"node": f"{EVALUATED}, seq = 12, op_id = 30"}, "(autograd: backward of layers.3.mlp (Linear), MmBackward0)"),
    ({"node": f"{EVALUATED}, seq = 12, op_id = 30", "layer": "no layer"}, "(autograd: MmBackward0)"),
    # A range of the program that only begins like one of torch's.
    ({"node": f"{EVALUATED} of mine", "layer": "no layer"}, "(no Python stack: autograd or a library)"),
])  # fmt: skip
def test_what_autograd_allocates_belongs_to_the_layer_and_operator_of_its_forward_call(
    tmp_path: Path, given: dict[str, str], owner: str
) -> None:
    out = tmp_path / "out"
    analyze_one(AnalyzeRequest((failed_capture(tmp_path / "run", **given),), out=out, figures=False), SILENT)
    assert pd.read_csv(out / "memory.csv")["owner"].tolist() == [owner]


def test_a_process_that_went_on_is_no_reason_for_its_end(tmp_path: Path) -> None:
    folder = failed_capture(tmp_path / "run")
    torch = SnapshotBuilder(start_us=EPOCH_US)
    torch.alloc(8 << 20)
    torch.write(folder / f"nsys.memory-{NUMBER}.pickle")
    out = tmp_path / "out"
    analyze_one(AnalyzeRequest((folder,), out=out, figures=False), SILENT)
    report = (out / "report.md").read_text()
    assert "The process went on." in report
    assert "At the peak 8 MiB" in report
