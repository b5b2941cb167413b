"""What `view` shows of its arguments."""

from pathlib import Path

import pytest

from nsysprof.app.viewing.view_inputs import list_inputs
from nsysprof.errors import TraceError
from tests.conftest import REPOSITORY


def folder(path, *names):
    path.mkdir(parents=True)
    for name in names:
        (path / name).write_text("{}")
    return path


def test_each_kind_is_recognised(tmp_path):
    capture = folder(tmp_path / "capture", "manifest.json", "report.html")
    found = {each.path.name: each for each in list_inputs([
        capture, folder(tmp_path / "analysis", "summary.json", "report.html"),
        folder(tmp_path / "comparison", "compare.json", "report.html"),
        folder(tmp_path / "bench", "samples.json", "report.html"), REPOSITORY / "traces" / "mem.sqlite.xz",
    ])}  # fmt: skip
    kinds = {name: each.kind for name, each in found.items()}
    assert kinds.pop("mem.sqlite.xz") == "trace"
    assert all(kind == name for name, kind in kinds.items())
    assert found["analysis"].report == tmp_path / "analysis" / "report.html"
    assert found["capture"].report is None, "its trace is analyzed"


def test_a_folder_stands_for_what_is_in_it(tmp_path):
    folder(tmp_path / "a", "summary.json", "report.html")
    folder(tmp_path / ".hidden", "summary.json", "report.html")
    folder(tmp_path / "empty")
    (tmp_path / "b.sqlite").touch()
    (tmp_path / "notes.txt").touch()
    assert [each.path.name for each in list_inputs([tmp_path])] == ["a", "b.sqlite"]


def test_the_traces_of_one_job_are_shown_together_and_each_alone(tmp_path):
    job, versions = tmp_path / "job", tmp_path / "versions"
    for path in (job / "rank0.sqlite", job / "rank1.sqlite", versions / "before.sqlite", versions / "after.sqlite"):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert [(each.path.name, each.kind) for each in list_inputs([job])] == [
        ("job", "ranks"), ("rank0.sqlite", "trace"), ("rank1.sqlite", "trace")
    ]  # fmt: skip
    assert {each.kind for each in list_inputs([versions])} == {"trace"}


def test_what_is_not_there_does_not_stop_the_others(tmp_path):
    (tmp_path / "b.sqlite").touch()
    lost, url, empty, found = list_inputs(
        [tmp_path / "none", Path("https://example.com/t.sqlite"), folder(tmp_path / "empty"), tmp_path / "b.sqlite"]
    )
    assert "does not exist" in str(lost.error)
    assert "is a URL" in str(url.error)
    assert "contains no trace" in str(empty.error)
    assert found.error is None


def test_nothing_at_all_is_an_error(tmp_path):
    with pytest.raises(TraceError, match="does not exist"):
        list_inputs([tmp_path / "none", tmp_path / "neither"])


def test_a_name_is_shown_in_one_line(tmp_path):
    path = tmp_path / "a\n\x1b[31mb.sqlite"
    path.touch()
    (found,) = list_inputs([path])
    assert not {"\n", "\x1b"} & set(found.name)
