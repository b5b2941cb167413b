"""The verifier finds a value however it is written, and names it without showing it."""

from __future__ import annotations

import base64
import json
import sqlite3
from pathlib import Path

import pytest

from nsysprof.bundle.secret_values import is_public
from nsysprof.bundle.verify import find_leaks
from tests.builders.verify_sanitized import verify_sanitized
from tests.bundle.hostile import TOKEN, write_trace

SECRET = 'k3y "with" ünïcode/and+more'


@pytest.mark.parametrize(
    ("encoding", "written"),
    [
        ("UTF-8", SECRET.encode()),
        ("UTF-16", SECRET.encode("utf-16-le")),
        ("UTF-16", SECRET.encode("utf-16-be")),
        ("JSON", json.dumps(SECRET).encode()),
        ("JSON", json.dumps(SECRET, ensure_ascii=False).encode()),
        ("hex", SECRET.encode().hex().encode()),
        ("base64", base64.b64encode(SECRET.encode())),
        ("base64", base64.b64encode(b"x" + SECRET.encode() + b"y")),
        ("base64", base64.b64encode(b"xx" + SECRET.encode() + b"yy")),
        ("base64", base64.urlsafe_b64encode(SECRET.encode())),
        ("percent-encoding", b"k3y%20%22with%22%20%C3%BCn%C3%AFcode%2Fand%2Bmore"),
    ],
)
def test_every_encoding_is_found(tmp_path: Path, encoding: str, written: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"some text before " + written + b" and after")
    leaks = find_leaks(path, [SECRET])
    assert leaks == [f"k3... ({len(SECRET)} characters) as {encoding} in file"]


def test_a_clean_and_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "clean").write_bytes(b"nothing of it")
    (tmp_path / "empty").write_bytes(b"")
    assert find_leaks(tmp_path / "clean", [SECRET]) == []
    assert find_leaks(tmp_path / "empty", [SECRET]) == []


def test_a_value_cut_over_two_pages_is_found(tmp_path: Path) -> None:
    path = tmp_path / "long.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (a TEXT)")
    connection.execute("INSERT INTO t VALUES (?)", ("x" * 100 + "0123456789abcdef" * 2000,))
    connection.commit()
    connection.close()
    secret = "0123456789abcdef" * 1000  # longer than a page: never whole in the bytes
    assert secret.encode() not in path.read_bytes()
    assert len(find_leaks(path, [secret])) == 1


def test_extra_secrets_are_looked_for_whatever_they_are(tmp_path: Path) -> None:
    source = write_trace(tmp_path / "in.sqlite")
    target = tmp_path / "shared.json"
    target.write_text('{"name": "flash"}')
    assert verify_sanitized(source, target) == []
    assert verify_sanitized(source, target, ["flash"]) == ["fl... (5 characters) as UTF-8 in shared.json"]
    target.write_text(f'{{"name": "{TOKEN}"}}')
    assert len(verify_sanitized(source, target)) == 1


@pytest.mark.parametrize(
    "value", ["", "abc", "1024", "0,1,2,3", "flash", "root", "correlationId", "2024.2.3", "median"]
)
def test_values_that_betray_nothing(value: str) -> None:
    assert is_public(value)


@pytest.mark.parametrize("value", ["192.168.1.17", "hunter22", "12345678", "alice", "/home/alice", "gpu-box-3"])
def test_values_that_are_private(value: str) -> None:
    assert not is_public(value)


def test_a_short_name_counts_where_it_is_a_word(tmp_path: Path) -> None:
    """A user called lea must be able to share a trace whose report says release."""
    for text, found in (("please release the leaves", 0), ("run by lea on node7", 1), ("/home/lea/x", 1)):
        (tmp_path / "a.md").write_text(text)
        assert len(find_leaks(tmp_path / "a.md", ["lea"])) == found, text
