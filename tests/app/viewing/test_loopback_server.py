"""Who gets an answer from the server of `view`, and who does not."""

import socket

import pytest

from nsysprof.app.viewing.loopback_server import Answer, LoopbackServer
from nsysprof.errors import UsageError
from tests.app.viewing.view_client import ask, viewing


@pytest.fixture(scope="module")
def view(trace_path):
    with viewing(trace_path("inputs"), trace_path("mem")) as opened:
        yield opened


def test_the_right_address_is_answered_and_kept_by_nobody(view):
    reply = ask(view, "")
    assert reply.status == 200
    assert "inputs.sqlite" in reply.text
    assert reply.headers["Cache-Control"] == "no-store"
    assert reply.headers["Referrer-Policy"] == "no-referrer"
    assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
    assert "unsafe" not in reply.headers["Content-Security-Policy"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1"])
def test_a_forwarded_port_is_no_hindrance(view, host):
    assert ask(view, "", host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost:80:80", "", "[::1]", "a@localhost"]
)
def test_another_name_is_refused_even_with_the_token(view, host):
    reply = ask(view, "", host=host)
    assert reply.status == 421
    assert b"sqlite" not in reply.body


def test_two_names_are_refused(view):
    with socket.create_connection(("127.0.0.1", view.server.server_port), timeout=20) as raw:
        line = f"GET /{view.server.token}/ HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
        raw.sendall(line.encode())
        assert raw.recv(100).startswith(b"HTTP/1.1 421")


@pytest.mark.parametrize("path", ["/", "/report-0", "/state", "/ui/index.html", "//report-0", "/%00/", "/%C3%A9/", "*"])
def test_without_the_token_nothing_is_answered(view, path):
    reply = ask(view, path, token=False)
    assert reply.status == 403
    assert b"sqlite" not in reply.body


def test_a_wrong_token_is_refused_whatever_it_shares_with_the_right_one(view):
    token = view.server.token
    assert len(token) >= 43
    for wrong in (token[:-1], f"{token}A", token.swapcase(), "../" + token, f"%2e/{token}"):
        assert ask(view, f"/{wrong}/", token=False).status == 403, wrong


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "FOO"])
def test_only_get(view, method):
    reply = ask(view, "", method=method)
    assert reply.status == 405
    assert reply.headers["Allow"] == "GET"


@pytest.mark.parametrize(
    "path",
    [
        "../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "files-0/../../../etc/passwd", "files-0/..%2f..%2fetc%2fpasswd",
        "files-0//etc/passwd", "ui/../../../../etc/passwd", "ui/%2e%2e/%2e%2e/vizviewer.py", "ui//etc/passwd",
        "report-9", "report--1", "report-0/", "compare-0-9", "trace-%D9%A0", "ui/service_worker.js", "nothing",
    ],
)  # fmt: skip
def test_no_address_leads_out(view, path):
    reply = ask(view, path)
    assert reply.status in (303, 404)
    assert b"root:x:0" not in reply.body


def test_it_listens_on_loopback_alone(view):
    assert view.server.server_address[0] == "127.0.0.1"
    assert view.server.socket.family == socket.AF_INET


def test_a_port_that_is_taken_is_said(view):
    with pytest.raises(UsageError, match=r"Port \d+ of 127.0.0.1 cannot be used: .* in use"):
        LoopbackServer(view.server.server_port, lambda _path, _query: Answer(b""))


def test_each_session_has_a_token_of_its_own(view):
    with LoopbackServer(0, lambda _path, _query: Answer(b"")) as other:
        assert other.token != view.server.token


@pytest.mark.parametrize("method", ["POST", "HEAD", "FOO"])
def test_other_methods_learn_nothing_without_host_and_token(view, method):
    assert ask(view, "", method=method, token=False).status == 403
    assert ask(view, "", method=method, host="evil.example").status == 421
