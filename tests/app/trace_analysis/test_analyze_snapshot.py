"""`analyze` and `compare` of snapshots of torch's allocator, from the file to the files that are written."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from nsysprof.cli import app
from nsysprof.errors import UsageError
from tests.builders.allocator_snapshot import SnapshotBuilder, frames
from tests.builders.published_schema import as_published


def snapshot(path, cache_bytes=96 << 20, line=40):
    builder = SnapshotBuilder()
    builder.reserve(512 << 20)
    builder.alloc(64 << 20, frames("/w/model.py", 12, "build"))
    builder.alloc(cache_bytes, frames("/w/cache.py", line, "update"))
    builder.free(builder.alloc(32 << 20, frames("/w/train.py", 30, "loss")))
    return builder.write(path)


def run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_analyze_writes_owners_figure_and_report(tmp_path):
    text = run("analyze", snapshot(tmp_path / "s.pickle"), "--out", tmp_path / "out")
    assert "At the peak 192 MiB were allocated" in text
    assert "memory-fragmentation" in text
    table = pd.read_csv(tmp_path / "out/memory.csv")
    assert table["owner"].tolist() == ["w/cache.py:40 update", "w/model.py:12 build", "w/train.py:30 loss"]
    assert table["peak_bytes"].sum() == 192 << 20
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"summary.json", "memory.csv", "memory.png", "report.md", "report.html"} <= written


def test_json_is_as_the_schema_says(tmp_path):
    printed = run("analyze", snapshot(tmp_path / "s.pickle"), "--out", tmp_path / "out", "--json", "--no-figures")
    found = as_published("analyze-memory", printed)
    assert found["devices"][0]["peak_bytes"] == 192 << 20


def test_compare_names_the_lines_behind_the_difference(tmp_path):
    before = snapshot(tmp_path / "before.pickle")
    after = snapshot(tmp_path / "after.pickle", cache_bytes=160 << 20, line=44)
    text = run("compare", before, after, "--out", tmp_path / "out")
    assert "The peak is 256 MiB, and was 192 MiB: +64 MiB." in text
    found = json.loads((tmp_path / "out/compare.json").read_text())
    first = found["changes"][0]
    assert (first["owner"], first["now"], first["difference_bytes"]) == (
        "w/cache.py:40 update", "w/cache.py:44 update", 64 << 20,
    )  # fmt: skip
    assert sum(each["difference_bytes"] for each in found["changes"]) == 64 << 20
    as_published("compare-memory", run("compare", before, after, "--json"))


@pytest.mark.parametrize("arguments", [("analyze", "s.pickle", "t.pickle"), ("compare", "s.pickle", "t.sqlite")])
def test_snapshots_do_not_mix(tmp_path, arguments):
    command, *files = arguments
    result = CliRunner().invoke(app, [command, *(str(tmp_path / file) for file in files)])
    assert isinstance(result.exception, UsageError)


@pytest.mark.parametrize(
    "option",
    [
        ("--fail-on", "slower:3%"), ("--margin", "3"), ("--floor", "1"), ("--ignore-conditions",), ("--no-figures",),
        ("--markdown", "a.md"), ("--junit", "a.xml"), ("--attribution", "launched"),
    ],
)  # fmt: skip
def test_compare_refuses_what_it_would_ignore(tmp_path, option):
    both = [str(snapshot(tmp_path / f"{name}.pickle")) for name in "ab"]
    result = CliRunner().invoke(app, ["compare", *both, *option])
    assert isinstance(result.exception, UsageError)
    assert option[0] in result.exception.text


def test_hostile_names_are_shown_as_text(tmp_path):
    builder = SnapshotBuilder()
    builder.alloc(1 << 20, frames("/w/\x1b[31m<script>alert(1)</script>.py", 1, "f"))
    builder.write(tmp_path / "s.pickle")
    text = run("analyze", tmp_path / "s.pickle", "--out", tmp_path / "out")
    assert "\x1b" not in text
    assert "<script>alert" not in (tmp_path / "out/report.html").read_text()
