import gzip
import lzma

import pytest

from nsysprof.errors import MissingToolError, ToolFailedError, TraceDamagedError, TraceError, TraceForeignError
from nsysprof.trace.inputs.resolve_input import resolve_input, zstd
from nsysprof.trace.open import open_trace
from tests.builders.build_trace import TraceBuilder

PACKERS = {".xz": lzma.compress, ".gz": gzip.compress, ".zst": zstd.compress}


@pytest.fixture
def content(tmp_path):
    builder = TraceBuilder()
    builder.launch(0, 1)
    return builder.write(tmp_path / "plain.sqlite").read_bytes()


@pytest.fixture
def work(tmp_path):
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_traces_open_and_stay_as_they_are(tmp_path, content, work, suffix):
    source = tmp_path / f"t.sqlite{suffix}"
    source.write_bytes(PACKERS[suffix](content))
    before = source.read_bytes()
    target = resolve_input(source, None, work)
    assert target.read_bytes() == content
    assert target.parent == work
    assert source.read_bytes() == before


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("broken", [lambda data: data[: len(data) // 2], lambda data: b"not packed at all"])
def test_a_broken_archive_is_damaged(tmp_path, content, work, suffix, broken):
    source = tmp_path / f"t.sqlite{suffix}"
    source.write_bytes(broken(PACKERS[suffix](content)))
    with pytest.raises(TraceDamagedError, match="damaged"), open_trace(resolve_input(source, None, work)):
        pass


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_compressed_trace_that_git_lfs_did_not_fetch(tmp_path, work, suffix):
    source = tmp_path / f"t.sqlite{suffix}"
    source.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n")
    with pytest.raises(TraceForeignError, match="git-lfs") as caught:
        resolve_input(source, None, work)
    assert "git lfs pull" in caught.value.next_step


@pytest.fixture
def no_nsys(monkeypatch):
    monkeypatch.setattr("nsysprof.trace.inputs.resolve_input.find_tool", lambda _tool, wanted: wanted)


def test_what_does_not_exist_and_what_cannot_be_run(tmp_path, work):
    with pytest.raises(TraceError, match="does not exist"):
        resolve_input(tmp_path / "nothing.sqlite", None, work)
    report = tmp_path / "r.nsys-rep"
    report.write_bytes(b"x")
    with pytest.raises(MissingToolError, match="--nsys names .*no-nsys"):
        resolve_input(report, tmp_path / "no-nsys", work)


@pytest.mark.usefixtures("no_nsys")
def test_a_folder_with_a_report_alone_gives_the_report(tmp_path, work):
    (tmp_path / "capture").mkdir()
    (tmp_path / "capture" / "nsys.nsys-rep").write_bytes(b"x")
    with pytest.raises(MissingToolError, match="needs nsys"):
        resolve_input(tmp_path / "capture", None, work)


def test_two_zst_frames_are_one_file(tmp_path, content, work):
    source = tmp_path / "t.sqlite.zst"
    source.write_bytes(zstd.compress(content[:5000]) + zstd.compress(content[5000:]))
    assert resolve_input(source, None, work).read_bytes() == content


def test_a_folder_of_one_trace_gives_it_and_one_of_several_asks_which(tmp_path, content, work, monkeypatch):
    folder = tmp_path / "job"
    (folder / "ranks").mkdir(parents=True)
    (folder / "ranks" / "rank00000.sqlite").write_bytes(content)
    assert resolve_input(folder, None, work) == folder / "ranks" / "rank00000.sqlite"
    (folder / "mine.sqlite.xz").write_bytes(lzma.compress(content))
    with pytest.raises(TraceError, match="job contains 2 traces") as raised:
        resolve_input(folder, None, work)
    assert "mine.sqlite.xz" in raised.value.next_step
    (folder / "bundle.json").write_text("{}")  # a bundle that the user has unzipped
    with pytest.raises(TraceError, match="job contains 2 traces") as unzipped:
        resolve_input(folder, None, work)
    assert "mine.sqlite.xz" in unzipped.value.next_step
    (tmp_path / "job.zip").write_bytes(b"")
    monkeypatch.setattr("nsysprof.trace.inputs.resolve_input.unpack_bundle", lambda _archive, _work: folder)
    with pytest.raises(TraceError, match=r"The bundle job\.zip contains 2 traces") as zipped:
        resolve_input(tmp_path / "job.zip", None, work)
    assert "unzip it" in zipped.value.next_step


def test_a_capture_folder_gives_its_trace_nsys_first(tmp_path, content, work):
    folder = tmp_path / "capture"
    folder.mkdir()
    with pytest.raises(TraceError, match="contains no trace"):
        resolve_input(folder, None, work)
    (folder / "torch.sqlite").write_bytes(content)
    assert resolve_input(folder, None, work).name == "torch.sqlite"
    (folder / "nsys.sqlite.xz").write_bytes(lzma.compress(content))
    assert resolve_input(folder, None, work) == work / "nsys.sqlite"


@pytest.mark.parametrize("suffix", [".nsys-rep", ".qdrep"])
def test_a_report_that_git_lfs_did_not_fetch(tmp_path, work, suffix):
    """Whether nsys is there or not: what it says of such a file helps nobody."""
    source = tmp_path / f"report{suffix}"
    source.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n")
    for nsys in (None, tmp_path / "nsys"):
        with pytest.raises(TraceForeignError, match="git-lfs") as caught:
            resolve_input(source, nsys, work)
        assert "git lfs pull" in caught.value.next_step


@pytest.mark.usefixtures("no_nsys")
def test_a_report_needs_nsys(tmp_path, work):
    report = tmp_path / "r.nsys-rep"
    report.write_bytes(b"x")
    with pytest.raises(MissingToolError, match="needs nsys") as caught:
        resolve_input(report, None, work)
    assert "--nsys" in caught.value.next_step


@pytest.mark.nsys
def test_a_file_that_is_no_report_fails_with_what_nsys_said(tmp_path, work, nsys):
    report = tmp_path / "r.nsys-rep"
    report.write_bytes(b"not a report")
    with pytest.raises(ToolFailedError, match="could not export"):
        resolve_input(report, nsys, work)


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("Error: report was created by a newer version", "newer nsys"),
        ("Unable to retrieve the importer version", "libdw"),
        ("Error: the disk is upset", "upset"),
    ],
)
def test_failures_of_nsys_are_named(tmp_path, work, said, word):
    program = tmp_path / "nsys"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    program.chmod(0o755)
    (tmp_path / "r.nsys-rep").write_bytes(b"x")
    with pytest.raises(ToolFailedError, match=word):
        resolve_input(tmp_path / "r.nsys-rep", program, work)
