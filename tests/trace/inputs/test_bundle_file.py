"""Archives from strangers: what no bundle holds is refused before anything of it is on the disk."""

from __future__ import annotations

import hashlib
import json
import lzma
import stat
import struct
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from nsysprof.bundle.archive import write_archive
from nsysprof.errors import NsysprofError, OutputError, TraceDamagedError, TraceEmptyError, TraceForeignError
from nsysprof.trace.inputs import bundle_file
from nsysprof.trace.inputs.bundle_file import is_bundle, unpack_bundle
from nsysprof.trace.inputs.resolve_input import identity_of, resolve_input
from nsysprof.trace.open import open_trace
from tests.builders.build_trace import TraceBuilder


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    builder = TraceBuilder()
    builder.launch(0, 1)
    return builder.write(tmp_path / "nsys.sqlite")


@pytest.fixture
def good(tmp_path: Path, trace: Path) -> Path:
    packed = tmp_path / "nsys.sqlite.xz"
    packed.write_bytes(lzma.compress(trace.read_bytes()))
    report = tmp_path / "report.md"
    report.write_text("# a report\n")
    files = {"nsys.sqlite.xz": packed, "analysis/report.md": report}
    write_archive(tmp_path / "good.zip", files, "my run", {"kind": "trace"})
    return tmp_path / "good.zip"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def listed(**members: bytes) -> bytes:
    """Return a bundle.json that names the members with their real checksums."""
    files = [{"name": name, "sha256": hashlib.sha256(data).hexdigest()} for name, data in members.items()]
    return json.dumps({"format_version": 1, "name": "x", "files": files}).encode()


def write_zip(path: Path, members: list[tuple[str | zipfile.ZipInfo, bytes]], contents: bytes | None = None) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        if contents is not None:
            archive.writestr("bundle.json", contents)
        for name, data in members:
            archive.writestr(name, data)
    return path


def test_a_bundle_opens_as_the_folder_it_was(good: Path, trace: Path, work: Path) -> None:
    before = good.read_bytes()
    folder = unpack_bundle(good, work)
    assert folder == work / "bundle" / "my run"
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        "analysis/report.md", "bundle.json", "nsys.sqlite",
    ]  # fmt: skip
    assert (folder / "nsys.sqlite").read_bytes() == trace.read_bytes()
    assert good.read_bytes() == before


def test_the_trace_in_a_bundle_stands_for_it(good: Path, trace: Path, work: Path) -> None:
    found = resolve_input(good, None, work)
    assert identity_of(good, found) == found
    with open_trace(found, identity_of(good, found)) as opened:
        assert opened.digest.result() == hashlib.sha256(trace.read_bytes()).hexdigest()


def test_the_suffix_may_be_of_any_case(good: Path, tmp_path: Path) -> None:
    assert is_bundle(good.rename(tmp_path / "GOOD.ZIP"))
    assert not is_bundle(tmp_path)
    assert not is_bundle(tmp_path / "absent.zip")


@pytest.mark.parametrize(
    "name",
    [
        "../evil.json", "..\\evil.json", "/etc/evil.json", "C:\\evil.json", "C:evil.json", "analysis/../../evil.json",
        "analysis/./evil.json", "analysis//evil.json", "a/b/c.json", "analysis/", "evil.json\0.txt", ".hidden", "evil",
        "ünsafe.json", "a:b.json", "Evil.json", "nul\n.json", "e" * 200 + ".json", "inner.json/", "nsys..sqlite",
    ],
)  # fmt: skip
def test_a_name_that_no_member_has_is_refused(tmp_path: Path, work: Path, name: str) -> None:
    path = write_zip(tmp_path / "evil.zip", [(name, b"x")], listed(**{name: b"x"}))
    with pytest.raises((TraceForeignError, TraceDamagedError)):
        unpack_bundle(path, work)
    assert list(work.iterdir()) == []
    assert not list(tmp_path.parent.glob("evil*"))


def test_a_link_is_refused(tmp_path: Path, work: Path) -> None:
    link = zipfile.ZipInfo("samples.json")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = write_zip(tmp_path / "evil.zip", [(link, b"/etc/passwd")], listed(**{"samples.json": b"/etc/passwd"}))
    with pytest.raises(TraceForeignError, match="not a plain file"):
        unpack_bundle(path, work)
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("other", ["Bundle.json", "bundle.json", "BUNDLE.JSON"])
def test_names_that_differ_only_in_case_are_refused(tmp_path: Path, work: Path, other: str) -> None:
    with pytest.warns(UserWarning, match="Duplicate") if other == "bundle.json" else nullcontext():
        path = write_zip(tmp_path / "evil.zip", [(other, b"{}")], listed())
    with pytest.raises(TraceForeignError):
        unpack_bundle(path, work)


def test_an_encrypted_member_is_refused(good: Path, work: Path) -> None:
    data = bytearray(good.read_bytes())
    entry = data.index(b"PK\1\2")
    data[entry + 8] |= 1  # the flag in the directory
    good.write_bytes(data)
    with pytest.raises(TraceForeignError, match="encrypted"):
        unpack_bundle(good, work)


def test_too_many_members_are_refused(tmp_path: Path, work: Path) -> None:
    members: list[tuple[str | zipfile.ZipInfo, bytes]] = [
        (f"f{i}.json", b"") for i in range(bundle_file.MAX_MEMBERS + 1)
    ]
    with pytest.raises(TraceForeignError, match=f"{bundle_file.MAX_MEMBERS + 2} members"):
        unpack_bundle(write_zip(tmp_path / "many.zip", members, listed()), work)
    members = [(f"f{i}.json", b"") for i in range(5000)]
    with pytest.raises(TraceForeignError, match="more members"):
        unpack_bundle(write_zip(tmp_path / "more.zip", members, listed()), work)


def bomb_of_zip(path: Path, size: int) -> Path:
    data = b"\0" * size
    return write_zip(path, [("samples.json", data)], listed(**{"samples.json": data}))


def bomb_of_xz(path: Path, size: int) -> Path:
    data = lzma.compress(b"\0" * size)
    return write_zip(path, [("nsys.sqlite.xz", data)], listed(**{"nsys.sqlite.xz": data}))


@pytest.mark.parametrize("make", [bomb_of_zip, bomb_of_xz])
def test_a_bomb_is_stopped_while_it_unpacks(
    tmp_path: Path, work: Path, make: Callable[[Path, int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_file, "MAX_FREE_BYTES", 4 << 20)
    path = make(tmp_path / "bomb.zip", 64 << 20)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(TraceForeignError, match="times its size"):
        unpack_bundle(path, work)
    written = sum(file.stat().st_size for file in work.rglob("*") if file.is_file())
    assert written < 32 << 20


def test_the_sum_has_a_limit_too(tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_file, "MAX_UNPACKED_BYTES", 3 << 20)
    data = b"\0" * (1 << 20)
    names = [f"f{i}.json" for i in range(5)]
    members: list[tuple[str | zipfile.ZipInfo, bytes]] = [(name, data) for name in names]
    path = write_zip(tmp_path / "large.zip", members, listed(**dict.fromkeys(names, data)))
    with pytest.raises(TraceForeignError, match="unpacks to more than"):
        unpack_bundle(path, work)


def test_a_disk_that_is_too_small_is_said(good: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_file.shutil, "disk_usage", lambda _path: type("usage", (), {"free": 100})())
    with pytest.raises(OutputError, match="disk"):
        unpack_bundle(good, work)


def test_members_must_be_the_listed_ones(tmp_path: Path, work: Path) -> None:
    extra = write_zip(tmp_path / "extra.zip", [("samples.json", b"{}"), ("extra.json", b"{}")],
                      listed(**{"samples.json": b"{}"}))  # fmt: skip
    with pytest.raises(TraceForeignError, match="does not list: extra.json"):
        unpack_bundle(extra, work)
    lacking = write_zip(tmp_path / "lacking.zip", [], listed(**{"samples.json": b"{}"}))
    with pytest.raises(TraceDamagedError, match="lacks 'samples.json'"):
        unpack_bundle(lacking, work)
    changed = write_zip(tmp_path / "changed.zip", [("samples.json", b"{ }")], listed(**{"samples.json": b"{}"}))
    with pytest.raises(TraceDamagedError, match="SHA-256"):
        unpack_bundle(changed, work)


@pytest.mark.parametrize(
    ("contents", "error", "words"),
    [
        (None, TraceForeignError, "no bundle.json"),
        (b"", TraceDamagedError, "damaged"),
        (b"[1]", TraceDamagedError, "damaged"),
        (b"{}", TraceDamagedError, "damaged"),
        (b"[" * 100_000, TraceDamagedError, "damaged"),
        (b" " * (2 << 20), TraceDamagedError, "too long"),
        (b'{"format_version": 99, "files": [], "name": "x"}', TraceForeignError, "newer nsysprof"),
        (b'{"format_version": "1", "files": [], "name": "x"}', TraceDamagedError, "damaged"),
        (b'{"format_version": 1, "files": {}, "name": "x"}', NsysprofError, ""),
    ],
)
def test_a_damaged_list_of_contents(
    tmp_path: Path, work: Path, contents: bytes | None, error: type[NsysprofError], words: str
) -> None:
    path = write_zip(tmp_path / "odd.zip", [], contents)
    if words:
        with pytest.raises(error, match=words):
            unpack_bundle(path, work)
    else:
        assert [file.name for file in unpack_bundle(path, work).iterdir()] == ["bundle.json"]


@pytest.mark.parametrize("title", ["../../evil", "/etc", "..", "", "a/b\\c", "CON\0", "x" * 500, ". .", "\u202egnp"])
def test_a_title_never_leaves_the_folder(tmp_path: Path, work: Path, title: str) -> None:
    contents = json.dumps({"format_version": 1, "name": title, "files": []}).encode()
    folder = unpack_bundle(write_zip(tmp_path / "t.zip", [], contents), work)
    assert folder.parent == work / "bundle"
    assert folder.resolve().is_relative_to(work.resolve())
    assert len(folder.name) <= 100


def test_files_that_are_no_archive(tmp_path: Path, good: Path, work: Path) -> None:
    whole = good.read_bytes()
    for name, content, error in (
        ("empty.zip", b"", TraceEmptyError),
        ("text.zip", b"hello", TraceForeignError),
        ("lfs.zip", b"version https://git-lfs.github.com/spec/v1\n", TraceForeignError),
        ("half.zip", whole[: len(whole) // 2], TraceDamagedError),
        ("cut.zip", whole[:-10], TraceDamagedError),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(error):
            unpack_bundle(tmp_path / name, work)


def test_no_damaged_byte_ends_in_a_traceback(good: Path, tmp_path: Path) -> None:
    whole = good.read_bytes()
    for number, position in enumerate(range(0, len(whole), max(1, len(whole) // 150))):
        work = tmp_path / f"w{number}"
        work.mkdir()
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        path = tmp_path / "damaged.zip"
        path.write_bytes(damaged)
        try:
            folder = unpack_bundle(path, work)
        except NsysprofError as error:
            assert error.next_step
        else:  # a byte that says nothing, such as one of the date
            assert (folder / "nsys.sqlite").exists()
        assert all(file.is_relative_to(work) for file in work.rglob("*"))


def test_an_archive_in_the_larger_format_is_refused(good: Path, work: Path) -> None:
    data = good.read_bytes()
    end = data.rindex(b"PK\5\6")
    locator = b"PK\6\7" + struct.pack("<IQI", 0, 0, 1)
    good.write_bytes(data[:end] + locator + data[end:])
    with pytest.raises(TraceForeignError, match="zip64"):
        unpack_bundle(good, work)


def test_what_a_bundle_is_written_with_can_be_read(good: Path) -> None:
    assert good.stat().st_size < bundle_file.MAX_FREE_BYTES
    with zipfile.ZipFile(good) as archive:
        assert all(bundle_file.MEMBER_NAME.fullmatch(name) for name in archive.namelist())
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
