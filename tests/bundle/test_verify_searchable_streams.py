"""What is packed in a file is looked into: pixels, figures in a page, texts of a database."""

from __future__ import annotations

import base64
import sqlite3
import struct
import zlib
from pathlib import Path

import pytest

from nsysprof.bundle.verify import Originals, find_leaks, find_originals

SECRET = "sesame-7f3a9b-open"


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(*chunks: bytes) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", b"\0" * 13) + b"".join(chunks) + chunk(b"IEND", b"")


PIXELS = zlib.compress(b"x" * 300 + SECRET.encode() + b"y" * 300)


@pytest.mark.parametrize(
    "data",
    [
        png(chunk(b"IDAT", PIXELS)),
        png(chunk(b"IDAT", PIXELS[:20]), chunk(b"IDAT", PIXELS[20:])),
        png(chunk(b"tEXt", b"Software\0" + SECRET.encode())),
        png(chunk(b"zTXt", b"Comment\0\0" + zlib.compress(SECRET.encode()))),
        png(chunk(b"iTXt", b"Comment\0\1\0en\0Kommentar\0" + zlib.compress(SECRET.encode()))),
        png() + SECRET.encode(),
    ],
)
def test_a_figure(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "f.png").write_bytes(data)
    assert len(find_leaks(tmp_path / "f.png", [SECRET])) >= 1
    page = b"<img src='data:image/png;base64," + base64.b64encode(data) + b"'>"
    (tmp_path / "f.html").write_bytes(page)
    assert len(find_leaks(tmp_path / "f.html", [SECRET])) >= 1
    assert find_leaks(tmp_path / "f.png", ["another-secret"]) == []


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n" + b"\xff" * 50, png(chunk(b"IDAT", b"no zlib")), png()[:20]])
def test_a_damaged_figure_is_searched_as_it_is(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "f.png").write_bytes(data)
    assert find_leaks(tmp_path / "f.png", [SECRET]) == []


def test_html_entities(tmp_path: Path) -> None:
    (tmp_path / "f.html").write_text("<p>k3y &lt;with&gt; &amp; more</p>")
    assert find_leaks(tmp_path / "f.html", ["k3y <with> & more"]) != []


def test_short_words_count_where_words_are_words(tmp_path: Path) -> None:
    originals = Originals(frozenset(), frozenset({b"sshd", b"a-process-of-mine"}), b"")
    for name, content, found in (
        ("a.md", "runs sshd now", 1),
        ("a.md", "runs sshdaemon, xsshd", 0),
        ("a.bin.xz", "\x01sshd\x02", 0),
        ("a.bin.xz", "xa-process-of-miney", 1),
        ("a.json", '["sshd"]', 1),
    ):
        (tmp_path / name).write_text(content)
        assert len(find_originals([tmp_path / name], originals)) == found, (name, content)


def test_what_is_public_explains_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("python_version and cudaLaunchKernel and wonderland")
    words = frozenset({b"python_version", b"cudaLaunchKernel", b"wonderland"})
    assert len(find_originals([tmp_path / "a.md"], Originals(frozenset(), words, b"x cudaLaunchKernel_v7000"))) == 1


def test_a_text_that_is_cut_between_two_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nsysprof.bundle import verify

    monkeypatch.setattr(verify, "_WINDOW", 64)
    for offset in range(40, 90):
        (tmp_path / "a.txt").write_bytes(b"." * offset + SECRET.encode() + b"." * 100)
        assert len(find_leaks(tmp_path / "a.txt", [SECRET])) == 1, offset


def test_many_needles_come_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nsysprof.bundle import verify

    monkeypatch.setattr(verify, "_BATCH", 10)
    secrets = [f"secret-number-{i:02}" for i in range(30)]
    (tmp_path / "a.txt").write_text("secret-number-03! secret-number-29!")
    assert len(find_leaks(tmp_path / "a.txt", secrets)) == 2


def test_a_database_by_its_texts_and_its_free_pages(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA secure_delete = OFF")
    connection.execute("CREATE TABLE t (a TEXT)")
    connection.executemany("INSERT INTO t VALUES (?)", [(SECRET * 3,), ("x" * 9000,)])
    connection.execute("DELETE FROM t")
    connection.commit()
    connection.close()
    assert SECRET.encode() in path.read_bytes(), "or this proves nothing"
    assert len(find_leaks(path, [SECRET])) == 1
