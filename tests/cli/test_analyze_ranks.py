"""`nsysprof analyze` of several traces, as a person or a script runs it."""

from __future__ import annotations

import csv
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import nsysprof
from nsysprof.app.analyze import is_many
from nsysprof.app.trace_analysis.analyze_ranks import worthwhile_workers
from nsysprof.cli import app
from nsysprof.errors import OutputError, TraceError, UsageError
from nsysprof.files.plain_file import write_whole
from tests.builders.build_trace import TraceBuilder
from tests.builders.published_schema import as_published
from tests.builders.registered_files import find_file
from tests.ranks.job import slow_in_backward, write_job


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["analyze", *map(str, arguments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job") / "run7"
    write_job(folder, 6, slow_in_backward)
    return folder


@pytest.fixture(scope="module")
def done(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("out") / "out"
    result = run(folder, "--out", out, "--svg")
    assert result.exit_code == 0, result.output
    return out, result.stdout


def test_the_folder_holds_what_the_documentation_says(done: tuple[Path, str]) -> None:
    out, _ = done
    page = (Path(__file__).parents[2] / "docs/files.md").read_text(encoding="utf-8")
    part = page[page.index("## An analysis of many traces") : page.index("## NVTX names")]
    for path in out.iterdir():
        if path.suffix in (".csv", ".json", ".png", ".md", ".html"):
            assert f"`{path.name}`" in part, path.name
    for path in out.glob("*.csv"):
        header = path.read_text(encoding="utf-8").splitlines()[0].split(",")
        assert tuple(header) == find_file("ranks", path.name).names, path.name
    assert not list(out.glob("*in-progress"))


def test_the_terminal_says_first_what_matters(done: tuple[Path, str]) -> None:
    said = " ".join(done[1].split())
    assert "Rank 2 is a straggler: with this rank like the others, the job would take 20.0 ms less" in said
    assert "It is last in 12 of 12 collectives" in said
    assert "it falls behind in backward (GPU +24.0 ms, +50 %)" in said
    assert "outlier" in said or "unlike others" in said
    assert "read" in done[1].splitlines()[-1]


def test_unknown_is_empty_and_never_zero(done: tuple[Path, str]) -> None:
    text = (done[0] / "per_rank.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["rank"] for row in rows] == [str(number) for number in range(6)]
    assert {row["peak_vram_bytes"] for row in rows} == {""}
    assert {row["host"] for row in rows} == {""}
    assert [row["is_straggler"] for row in rows] == ["False", "False", "True", "False", "False", "False"]


def test_the_report_has_figures_tables_notes_and_method(done: tuple[Path, str]) -> None:
    report = (done[0] / "report.md").read_text(encoding="utf-8")
    for text in (
        "# 6 ranks",
        "](step.png)",
        "](heatmap.png)",
        "⚠ straggler, outlier",
        "## Method",
    ):
        assert text in report
    assert (done[0] / "heatmap.svg").stat().st_size > 1000
    page = (done[0] / "report.html").read_text(encoding="utf-8")
    assert page.count("<figure class=") == 2
    assert report.index("](step.png)") < report.index("](heatmap.png)")
    HTMLParser().feed(page)


def test_stages_that_wait_for_their_neighbour_are_said(tmp_path: Path) -> None:
    write_job(tmp_path / "job", 3, slow_in_backward, collective="ncclDevKernel_SendRecv")
    result = run(tmp_path / "job", "--out", tmp_path / "out", "--no-figures")
    said = " ".join(result.stdout.split())
    assert "Pipeline bubbles: in a step of 9.42 ms" in said
    assert "nothing to compute: rank 0 2.00 ms (21.2 %), rank 1 2.00 ms (21.2 %), rank 2 0 ns" in said
    data = json.loads((tmp_path / "out/ranks.json").read_text())
    assert data["pipeline_bubbles_ns"] == {"0": 2_000_000, "1": 2_000_000, "2": 0}


def test_json_is_all_of_standard_output(folder: Path, tmp_path: Path) -> None:
    result = run(folder, "--out", tmp_path / "out", "--json", "--no-figures")
    data = as_published("analyze-ranks", result.stdout)
    assert data["stragglers"][0]["rank"] == 2
    assert data["clocks"][1]["anchors"] == 12
    written = json.loads((tmp_path / "out/ranks.json").read_text())
    assert {name: data[name] for name in written} == written
    assert data["folder"] == str(tmp_path / "out")
    # The tables that lie beside it as CSV files.
    assert {"per_rank", "api_over_ranks", "kernels_over_ranks", "ranges_over_ranks"} <= set(data) - set(written)


def test_a_finished_folder_is_replaced_with_force_alone(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(folder, "--out", out, "--no-figures").exit_code == 0
    again = run(folder, "--out", out, "--no-figures")
    assert isinstance(again.exception, OutputError)
    assert "--force" in again.exception.next_step
    assert run(folder, "--out", out, "--no-figures", "--force").exit_code == 0
    write_whole(tmp_path / "mine.txt", b"")
    foreign = run(folder, "--out", tmp_path)
    assert isinstance(foreign.exception, OutputError)


def test_nothing_that_can_be_read_is_an_error(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.sqlite").write_bytes(b"")
    result = run(tmp_path, "--out", tmp_path / "out")
    assert isinstance(result.exception, TraceError)
    assert "None of 2 traces could be read. The first: " in result.exception.text


@pytest.mark.parametrize(
    ("name", "count", "size", "workers"),
    [
        ("r{}.sqlite", 64, 1 << 20, 1),  # read by one process before workers have started
        ("r{}.sqlite", 64, 8 << 20, 8),
        ("r{}.sqlite", 64, 75 << 20, 16),
        ("r{}.sqlite.xz", 64, 1 << 20, 8),
        ("r{}.sqlite.zst", 6, 1 << 20, 1),
        ("r{}.nsys-rep", 2, 1 << 20, 1),
        ("r{}.nsys-rep", 5, 1 << 20, 5),
        ("r{}.nsys-rep", 12, 1 << 20, 12),
        ("gone{}.sqlite", 3, None, 1),
    ],
)
def test_as_many_processes_as_the_work_is_worth(
    tmp_path: Path, name: str, count: int, size: int | None, workers: int
) -> None:
    paths = [tmp_path / name.format(number) for number in range(count)]
    for path in paths if size is not None else []:
        with path.open("wb") as stream:
            stream.truncate(size)
    assert worthwhile_workers(paths, 16) == workers
    assert worthwhile_workers(paths, 1) == 1


def test_options_that_make_no_sense(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(folder, "--out", out, "--workers", "0").exit_code == 2
    assert isinstance(run(folder, "--out", out, "--counters", "x.csv").exception, UsageError)
    with pytest.raises(UsageError, match="--workers 0"):
        nsysprof.analyze(folder, out=out, workers=0)
    assert isinstance(run(folder, "--out", out, "--worker-memory", "much").exception, UsageError)


def test_what_is_one_trace_and_what_is_many(folder: Path, tmp_path: Path) -> None:
    assert is_many([folder])
    assert is_many([folder / "rank0.sqlite", folder / "rank1.sqlite"])
    assert not is_many([folder / "rank0.sqlite"])
    assert not is_many([tmp_path])
    (tmp_path / "nsys.sqlite").touch()
    (tmp_path / "other.sqlite").touch()
    assert not is_many([tmp_path])


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    name = "=cmd()|<script>alert(1)</script>$x$\x1b[31m\u202e"
    for rank in range(2):
        builder = TraceBuilder()
        builder.range(0, 500, name)
        builder.launch(10, 1, name="<img src=x>" * 3)
        builder.launch(200, 2)
        builder.write(tmp_path / f"rank{rank}.sqlite")
    result = run(tmp_path, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<img src=x>" not in page
    assert "\u202e" not in (tmp_path / "out/report.md").read_text(encoding="utf-8")
    line = (tmp_path / "out/ranges_over_ranks.csv").read_text(encoding="utf-8")
    assert "'=cmd()" in line
