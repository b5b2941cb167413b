"""scripts/oracle.py: the second opinion agrees, notices what is wrong, and knows nothing of the package."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.build_trace import TraceBuilder
from tests.conftest import REPOSITORY
from tests.second_opinion import nsys_stats
from tests.second_opinion.compared import compare_figures, laws_broken
from tests.second_opinion.figures import figures_of
from tests.test_scripts import load


@pytest.fixture
def oracle(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield load("oracle")
    sys.modules.pop("oracle")


def run(oracle: Any, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["oracle", *map(str, arguments)])
    return int(oracle.main())


def test_the_second_opinion_is_one() -> None:
    others = re.compile(r"^\s*(?:import|from) (?:nsysprof|tests(?!\.second_opinion)|numpy|pandas)", re.MULTILINE)
    for path in (REPOSITORY / "tests" / "second_opinion").glob("*.py"):
        assert not others.search(path.read_text()), path


def test_every_figure_of_a_folder_is_the_same(
    oracle: Any, tmp_path: Path, trace_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name in ("mem", "two_gpus"):
        (tmp_path / f"{name}.sqlite").write_bytes(trace_path(name).read_bytes())
    assert run(oracle, monkeypatch, "--no-nsys", "--json", "--jobs", 1, tmp_path) == 0
    results = {result["trace"]: result for result in json.loads(capsys.readouterr().out)}
    assert set(results) == {"mem", "two_gpus"}
    assert all(result["figures"] > 100 and not result["differences"] for result in results.values())


def a_trace(path: Path) -> Path:
    builder = TraceBuilder("2025.3")
    builder.gpu(0, cuda=0)
    builder.range(0, 1_000, "step")
    builder.launch(10, 1)
    builder.launch(200, 2, name="other")
    builder.call(400, 410, 3, "cudaMemcpyAsync_v3020")
    builder.copy(500, 520, 3, 64)
    builder.allocate(5, 0xA000, 4096)
    return builder.write(path)


@pytest.mark.parametrize(
    "table",
    ["kernels.csv", "api.csv", "memops.csv", "ranges.csv", "range_instances.csv", "range_kernels.csv", "summary.json"],
)
def test_every_cell_that_is_wrong_is_noticed(oracle: Any, tmp_path: Path, table: str) -> None:
    path = a_trace(tmp_path / "t.sqlite")
    expected, files = figures_of(path), oracle.written_files(path)
    assert compare_figures(files, expected).differences == []
    assert laws_broken(files) == []
    for key, row in expected[table].items():
        for column, value in row.items():
            wrong = {**row, column: value + 1 if isinstance(value, int | float) else {1: 1}}
            changed = {**expected, table: {**expected[table], key: wrong}}
            (found,) = compare_figures(files, changed).differences
            assert (found.table, found.column) == (table, column)


def test_a_row_too_many_and_a_sum_that_does_not_add_up(oracle: Any, tmp_path: Path) -> None:
    path = a_trace(tmp_path / "t.sqlite")
    expected, files = figures_of(path), oracle.written_files(path)
    del expected["api.csv"]["cudaMemcpyAsync",]
    (found,) = compare_figures(files, expected).differences
    assert (found.row, found.column, found.ours) == ("cudaMemcpyAsync", "(row)", True)
    summary = json.loads(files["summary.json"])
    summary["coverage"]["reasons"]["imagined"] = 1
    (broken,) = laws_broken({**files, "summary.json": json.dumps(summary).encode()})
    assert (broken.ours, broken.theirs) == (3, 2)


@pytest.mark.nsys
def test_each_difference_from_nsys_stats_has_a_rule(oracle: Any, nsys: Path, tmp_path: Path) -> None:
    found = set()
    for path in oracle.build(tmp_path):
        result = oracle.judge_trace(path, tools=[nsys], folder=tmp_path)
        assert not result.unexplained, path
        assert sum(result.stats.values()) > 20
        found |= {difference.explanation for difference in result.differences}
    assert {nsys_stats.BACKTRACES, nsys_stats.THREADS, nsys_stats.PER_ROW, nsys_stats.GRAPHS} <= found


@pytest.mark.nsys
def test_a_wrong_number_of_ours_is_not_explained_away(
    oracle: Any, nsys: Path, trace_path: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = oracle.written_files

    def wrong(path: Path) -> Any:
        files = right(path)
        first, second, rest = files["kernels.csv"].split(b"\n", 2)
        total = re.search(rb",(\d+),(\d+),([\d.]+),", second)
        assert total
        changed = second.replace(total[0], b",%s,%d,%s," % (total[1], int(total[2]) + 1, total[3]))
        return {**files, "kernels.csv": b"\n".join((first, changed, rest))}

    monkeypatch.setattr(oracle, "written_files", wrong)
    result = oracle.judge_trace(trace_path("mem"), tools=[nsys], folder=tmp_path)
    assert {difference.table for difference in result.unexplained} >= {"kernels.csv", "cuda_gpu_kern_sum"}


@pytest.mark.parametrize(
    ("value", "printed", "expected"),
    [(570.25, "570.3", 570.3), (15337.65, "15337.7", 15337.7), (0.0005, "0.001", 0.001)],
)
def test_numbers_are_rounded_as_nsys_rounds_them(value: float, printed: str, expected: float) -> None:
    assert nsys_stats.as_printed(value, printed) == expected


def test_what_does_not_exist_is_wrong_usage(
    oracle: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(oracle, monkeypatch, "--nsys", tmp_path / "nsys") == 2
    assert "does not exist" in capsys.readouterr().err
    assert run(oracle, monkeypatch, "--no-nsys", tmp_path) == 2
    assert "there is no trace" in capsys.readouterr().err


def test_a_foreign_file_is_named_and_the_others_are_judged(oracle: Any, tmp_path: Path) -> None:
    (tmp_path / "foreign.sqlite").write_bytes(b"no database")
    result = oracle.judge_trace(tmp_path / "foreign.sqlite", tools=[], folder=tmp_path)
    assert result.problems[0].startswith("not analysed")


def test_the_page_tells_of_every_trace_and_every_rule(oracle: Any, tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "parity.md").read_text(encoding="utf-8")
    names = [oracle.name_of(path) for path in oracle.find_traces([], take_all=False)]
    assert [name for name in names if f"| {name} |" not in page] == []
    assert [rule for rule in nsys_stats.EXPLANATIONS if rule not in page] == []


def test_parts_that_do_not_add_up_are_noticed(oracle: Any, tmp_path: Path) -> None:
    files = oracle.written_files(a_trace(tmp_path / "t.sqlite"))
    cuts = {
        "range_tree.csv": (b",1,1000,", b",2,1000,", "instances of the tree"),
        "memory.csv": (b",4096,", b",4095,", "owners of memory"),
        "range_instances.csv": (b",0,0,1000,", b",0,0,1001,", "wall times add up"),
    }
    for name, (right, wrong, law) in cuts.items():
        assert right in files[name], files[name]
        broken = laws_broken({**files, name: files[name].replace(right, wrong, 1)})
        assert law in {difference.column for difference in broken}
