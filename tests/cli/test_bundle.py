"""`nsysprof bundle` as a user runs it, and what a stranger gets of it."""

from __future__ import annotations

import csv
import hashlib
import json
import lzma
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import zipfile
from collections.abc import Collection
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from nsysprof.app.inputs.reading_requests import AnalyzeRequest, BundleRequest
from nsysprof.bundle.check import check_bundle
from nsysprof.bundle.name_tokens import NameTokens
from nsysprof.bundle.public_names import page_parts
from nsysprof.bundle.source import read_source
from nsysprof.bundle.verify import SecretLeakError
from nsysprof.cli import analyze as analyze_command
from nsysprof.cli import bundle as bundle_command
from nsysprof.errors import DataLossError, OutputError, UsageError
from nsysprof.trace.inputs.bundle_file import unpack_bundle
from tests.builders.build_trace import TraceBuilder
from tests.builders.published_schema import as_published
from tests.builders.run_command import fails, run
from tests.bundle.hostile import HOME, TOKEN, write_trace
from tests.conftest import REPOSITORY

TRACES = REPOSITORY / "traces"
# A folder that is a bundle already is not bundled again.
REAL = sorted(
    path.name
    for path in TRACES.iterdir()
    if path.suffix in (".xz", ".gz") or ((path / "manifest.json").exists() and not (path / "bundle.json").exists())
)
TABLES = ("kernels.csv", "ranges.csv", "range_kernels.csv", "api.csv", "memops.csv")
# The others are slow.
QUICK = ("mem.sqlite.xz", "two_gpus.sqlite.xz")
# A token does not say that step0, step1 and step2 are of one family, which settles once.
LOST_WITH_NAMES = ("warmup_instances", "steady_wall_med_ns")
PRIVATE = (TOKEN, "alice", "my project", "hi there", "wonderland-9", "GPU-1234", "0000:01", "sesame")


def share(source: Path, *, as_json: bool = False, max_size: float | None = None, **fields: Any) -> None:
    """Run the command as it is called with these options. max_size: in megabytes, as it is typed."""
    if max_size is not None:
        fields["max_bytes"] = int(max_size * 1e6)
    bundle_command.bundle(BundleRequest(source, **fields), as_json)


def bundle(*arguments: Any, cwd: Path | None = None, has_figures: bool = False) -> subprocess.CompletedProcess[str]:
    return run("bundle", *arguments, cwd=cwd, has_figures=has_figures)


def numbers(path: Path, without: Collection[str] = ()) -> list[list[str]]:
    """Return the cells that are numbers, in rows that are in order whatever they are called."""
    with path.open(newline="") as stream:
        rows = [[row[name] for name in row if name not in without] for row in csv.DictReader(stream)]
    return [[cell for cell in row if not any(c.isalpha() or c == "<" for c in cell)] for row in rows]


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in REAL]
)
def test_the_committed_traces_go_through_and_keep_their_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    share(TRACES / name, out=tmp_path / "b.zip")
    said = capsys.readouterr()
    assert hashlib.sha256((tmp_path / "b.zip").read_bytes()).hexdigest() in said.out
    before, after = tmp_path / "before", tmp_path / "after"
    for source, out in ((TRACES / name, before), (tmp_path / "b.zip", after)):
        # A trace that lost its kernels is analyzed as well, and said to have lost them.
        with nullcontext() if name != "sdpa22.sqlite.xz" else pytest.raises(DataLossError, match="lost every kernel"):
            analyze_command.analyze(AnalyzeRequest((source,), out=out, figures=out == after))
    one, two = (json.loads((folder / "summary.json").read_text()) for folder in (before, after))
    for key in ("totals", "coverage", "devices", "notes"):
        assert one[key] == two[key]
    for table in TABLES:
        assert numbers(before / table, LOST_WITH_NAMES) == numbers(after / table, LOST_WITH_NAMES), table
    # And whoever unpacks it gets the very files that were shared.
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        archive.extractall(tmp_path / "unpacked")
    for path in (tmp_path / "unpacked" / "analysis").iterdir():
        assert path.read_bytes() == (after / path.name).read_bytes(), path.name


def test_a_capture_and_the_markdown_to_paste(tmp_path: Path) -> None:
    done = bundle(TRACES / "h200-sdpa", cwd=tmp_path, has_figures=True)
    assert done.returncode == 0, done.stderr
    archive = tmp_path / "h200-sdpa.zip"
    assert hashlib.sha256(archive.read_bytes()).hexdigest() in done.stdout
    for word in ("NVIDIA H200", "580.159.04", "cudnn and auto are the fastest", "nsysprof analyze h200-sdpa.zip"):
        assert word in done.stdout
    assert len(done.stdout) < 60_000
    with zipfile.ZipFile(archive) as opened:
        names = opened.namelist()
        contents = json.loads(opened.read("bundle.json"))
    assert {"nsys.sqlite.xz", "manifest.json", "samples.json", "results.csv", "analysis/report.md"} <= set(names)
    assert contents["kind"] == "capture"
    assert {file["name"] for file in contents["files"]} == set(names) - {"bundle.json"}
    with zipfile.ZipFile(archive) as opened:
        for file in contents["files"]:
            assert hashlib.sha256(opened.read(file["name"])).hexdigest() == file["sha256"]


def without_page_parts(content: bytes) -> bytes:
    """Without the scripts that are in every page, in which five letters stand by chance."""
    for part in page_parts():
        content = content.replace(part, b"")
    return content


def test_a_hostile_trace(tmp_path: Path) -> None:
    kernel = f"UPDATE StringIds SET value = 'void {TOKEN}_kernel<float>(int)' WHERE id = 1"
    deleted = f"CREATE TABLE gone (a TEXT); INSERT INTO gone VALUES ('{TOKEN}{'x' * 5000}'); DELETE FROM gone"
    search = f"CREATE VIRTUAL TABLE notes USING fts5(a); INSERT INTO notes VALUES ('{TOKEN} is secret')"
    comment = f"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INT /* {TOKEN} */)"
    source = write_trace(tmp_path / "in.sqlite", kernel, deleted, search, comment, text=f"train on {HOME}/x {TOKEN}")
    before = source.read_bytes()
    done = bundle(source, cwd=tmp_path, has_figures=True)
    assert done.returncode == 0, done.stderr
    again = bundle(source, "--force", "--json", cwd=tmp_path, has_figures=True)
    assert as_published("bundle", again.stdout)["sha256"] in done.stdout, "the same input gives the same bytes"
    with zipfile.ZipFile(tmp_path / "in.zip") as archive:
        everything = without_page_parts(b"".join(archive.read(name) for name in archive.namelist()))
        everything += lzma.decompress(archive.read("nsys.sqlite.xz"))
    for private in PRIVATE:
        assert private.encode() not in everything, private
        assert private not in done.stdout, private
    assert b"<kernel-1" in everything
    assert source.read_bytes() == before
    kept = bundle(source, "--keep-names", "--out", "kept.zip", cwd=tmp_path)
    assert kept.returncode == 0, kept.stderr
    with zipfile.ZipFile(tmp_path / "kept.zip") as archive:
        plain = lzma.decompress(archive.read("nsys.sqlite.xz"))
    assert b"void <redacted>_kernel<float>(int)" in plain
    assert b"train on <path-" in plain
    assert TOKEN.encode() not in plain


def test_a_secret_longer_than_a_page(tmp_path: Path) -> None:
    secret = "".join(f"{i:05d}-wonder" for i in range(900))  # spans three pages wherever it stands
    row = f"INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', 'LONG=\"{secret}\"')"
    source = write_trace(tmp_path / "in.sqlite", row, text=f"begin {secret} end")
    assert bundle(source, "--keep-names", cwd=tmp_path).returncode == 0
    with zipfile.ZipFile(tmp_path / "in.zip") as archive:
        plain = lzma.decompress(archive.read("nsys.sqlite.xz"))
    assert b"begin <redacted> end" in plain
    assert b"00001-wonder" not in plain


def test_show_writes_nothing_and_tells_what_would_be_shared(tmp_path: Path) -> None:
    source = write_trace(tmp_path / "in.sqlite", text="acme range")
    done = bundle(source, "--show", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.sqlite"]
    for line in (
        "nsys.sqlite.xz",
        "CUPTI_ACTIVITY_KIND_KERNEL  1",
        "<range-1>  was  acme range",
        "bytes would be shared",
    ):
        assert line in done.stdout
    data = json.loads(bundle(source, "--show", "--json", cwd=tmp_path).stdout)
    assert data["replaced"]["<range-1>"] == "acme range"
    assert "<range-1>" in data["texts"]["text"]


def test_ranges_are_cropped(tmp_path: Path) -> None:
    done = bundle(TRACES / "sdpa.sqlite.xz", "--range", "RUN::flash::*", "--out", tmp_path / "b.zip")
    assert done.returncode == 0, done.stderr
    summary = json.loads(run("analyze", tmp_path / "b.zip", "--out", tmp_path / "a", "--json", "--no-figures").stdout)
    assert summary["totals"]["kernel_count"] < 1086
    assert [note["text"] for note in summary["notes"] if note["code"] == "bundle-left-out"] == [
        "This trace was made to be shared, without everything outside the requested ranges."
    ]
    assert "bundle-left-out" in done.stdout
    fails(bundle(TRACES / "sdpa.sqlite.xz", "--range", "none", "--out", tmp_path / "c.zip"), 2, "No range")


def test_a_cropped_trace_that_does_not_fit_is_not_analysed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nsysprof.app import bundle as bundle_build

    rebuilt: list[int] = []
    plain = bundle_build.sanitize_trace
    monkeypatch.setattr(bundle_build, "sanitize_trace", lambda *a: rebuilt.append(1) or plain(*a))
    analyzed: list[Path] = []
    whole = bundle_build.assemble
    monkeypatch.setattr(
        bundle_build,
        "assemble",
        lambda folder, trace, *options, say: analyzed.append(trace) or whole(folder, trace, *options, say=say),
    )
    share(TRACES / "sdpa.sqlite.xz", out=tmp_path / "b.zip", max_size=0.037, as_json=True)
    assert len(rebuilt) > 1, "once whole, then with less and less"
    assert len(analyzed) == 1
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        assert "analysis/report.md" in archive.namelist()
        assert "nsys.sqlite.xz" not in archive.namelist()


def test_a_trace_that_cannot_fit_is_not_rebuilt_without_its_smallest_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from nsysprof.app import bundle as bundle_build

    source = write_trace(tmp_path / "in.sqlite", "CREATE TABLE GPU_METRICS (timestamp INT)", text="step")
    with sqlite3.connect(source) as connection:
        connection.execute("INSERT INTO GPU_METRICS VALUES (1)")
        # Times that hardly pack: each is a number without order.
        times = [(start, start + number * 48271 % 99991) for number in range(20_000) if (start := number**3 % 2**40)]
        connection.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end) VALUES (?, ?)", times)
    connection.close()
    left_out: list[frozenset[str]] = []
    plain = bundle_build.sanitize_trace
    monkeypatch.setattr(bundle_build, "sanitize_trace", lambda *a: left_out.append(a[2].without) or plain(*a))
    share(source, out=tmp_path / "b.zip", max_size=0.06, as_json=True)
    assert "the trace" in {left["what"] for left in json.loads(capsys.readouterr().out)["left_out"]}
    # The last one asks for the ranges of our own captures, which this trace has not.
    assert left_out == [frozenset(), bundle_build.SAMPLED]


@pytest.mark.slow
def test_the_limit_of_size_and_what_it_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    share(TRACES / "sdpa.sqlite.xz", out=tmp_path / "whole.zip", as_json=True)
    whole = json.loads(capsys.readouterr().out)["bytes"]
    with zipfile.ZipFile(tmp_path / "whole.zip") as archive:
        packed = {member.filename: member.compress_size for member in archive.infolist()}
    page, trace = packed["analysis/report.html"], packed["nsys.sqlite.xz"]
    figures = sum(size for name, size in packed.items() if name.endswith(".png"))
    sizes = []
    # Each limit is a little less than what is there without the part before, so that one part more has to go.
    for limit, gone, still in (
        (whole, "analysis/report.html", "analysis/timeline.png"),
        (whole - page, "figures", "nsys.sqlite.xz"),
        (whole - page - figures, "everything outside the ranges RUN::*", "nsys.sqlite.xz"),
        (whole - page - figures - trace // 2, "the trace", "analysis/report.md"),
    ):
        megabytes = (limit - 2000) / 1e6
        target = tmp_path / f"b{len(sizes)}.zip"
        share(TRACES / "sdpa.sqlite.xz", out=target, max_size=megabytes, as_json=True)
        made = json.loads(capsys.readouterr().out)
        assert gone in {left["what"] for left in made["left_out"]}
        assert still in made["members"]
        assert target.stat().st_size == made["bytes"] <= megabytes * 1e6
        sizes.append(made["bytes"])
    assert sizes == sorted(sizes, reverse=True)
    with pytest.raises(OutputError, match="Even the tables alone"):
        share(TRACES / "sdpa.sqlite.xz", out=tmp_path / "no.zip", max_size=0.001)
    assert not (tmp_path / "no.zip").exists()
    fails(run("analyze", target, "--out", tmp_path / "a"), 7, "bundle b3 contains no trace", "Unzip")


def write_bench(folder: Path, kind: str, backends: tuple[str, str]) -> Path:
    """Return a bench's samples of two backends at two lengths, in a folder with files that are not shared."""
    from nsysprof.attention.shape import Case
    from nsysprof.capture.sampling.bench import BenchRun
    from nsysprof.capture.sampling.bench_run import BenchPlan
    from nsysprof.results.samples import Block

    cases = tuple(Case(backend, seq=seq, dtype="fp32") for backend in backends for seq in (64, 128))
    blocks = [
        Block(cell, process, 0, "ok", values_ns=tuple(1000 * (cell + 1) + 7 * i + process for i in range(12)))
        for process in range(6)
        for cell in range(4)
    ]
    blocks.append(Block(0, 6, 0, "error", reason=f"in {HOME}/x.py: {backends[1]} failed"))
    environment = {"device": "cpu", "cpu_model": "EPYC", "hostname": "wonderland-9", "user": "wonderer"}
    folder.mkdir()
    BenchRun(BenchPlan(cases, "cpu", 6, 1, 12), "2026-01-01", blocks, environment, {}, [], kind, True).save(folder)
    (folder / "logs").mkdir()
    (folder / "logs" / "process-0.log").write_text("wonderland-9")
    (folder / "report.md").write_text("by wonderer")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bench", "tune"])
def test_a_bench_and_a_tuning(tmp_path: Path, kind: str) -> None:
    folder = write_bench(tmp_path / "my bench", kind, ("math", "acme.kernels:attn"))
    done = bundle(folder, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "my bench.zip") as archive:
        names = set(archive.namelist())
        everything = b"".join(archive.read(name) for name in names)
    assert {"samples.json", "results.csv", "report.md", "latency.png"} <= names
    assert ("policy.json" in names) == (kind == "tune")
    for private in (b"wonder", b"acme", b"/home/alice"):
        assert private not in everything
    assert b"backend_1" in everything
    assert "math" in done.stdout
    assert "unzip 'my bench.zip'" in done.stdout
    fails(run("analyze", tmp_path / "my bench.zip"), 7, "contains no trace", "Unzip", "results.csv")
    kept = bundle(folder, "--keep-names", "--out", "k.zip", cwd=tmp_path)
    assert "acme.kernels:attn" in kept.stdout


def test_what_is_refused(tmp_path: Path) -> None:
    source = write_trace(tmp_path / "in.sqlite")
    assert bundle(source, cwd=tmp_path).returncode == 0
    fails(bundle(source, cwd=tmp_path), 4, "in.zip exists", "--force")
    assert bundle(source, "--force", cwd=tmp_path).returncode == 0
    fails(bundle(tmp_path / "in.zip", "--out", "b.zip", cwd=tmp_path), 2, "is a bundle already")
    fails(bundle(source, "--out", "x.tar", cwd=tmp_path), 2, ".zip")
    fails(bundle(source, "--out", tmp_path / "absent" / "x.zip"), 4, "folder does not exist")
    fails(bundle(source, "--max-size", "0", cwd=tmp_path), 2, "'--max-size'")
    fails(bundle(tmp_path / "absent", cwd=tmp_path), 7, "does not exist")
    (tmp_path / "other.zip").write_bytes(b"mine")
    fails(bundle(source, "--out", "other.zip", "--force", cwd=tmp_path), 4, "is not a bundle")
    assert (tmp_path / "other.zip").read_bytes() == b"mine"
    (tmp_path / "empty.sqlite").touch()
    fails(bundle(tmp_path / "empty.sqlite", cwd=tmp_path), 8, "empty")
    (tmp_path / "cut.sqlite").write_bytes(source.read_bytes()[:6000])
    fails(bundle(tmp_path / "cut.sqlite", cwd=tmp_path), 9, "truncated")


def test_a_name_that_holds_a_secret_is_refused(tmp_path: Path) -> None:
    source = write_trace(tmp_path / "in.sqlite")
    fails(bundle(source, "--out", tmp_path / f"{TOKEN}.zip"), 13, "Nothing was written", "--out")
    assert [path.name for path in tmp_path.iterdir()] == ["in.sqlite"]


@pytest.mark.parametrize(
    ("member", "content"),
    [
        ("analysis/report.md", f"it was {TOKEN}".encode()),
        ("samples.json", json.dumps({"a": TOKEN}).encode("utf-16")),
        ("results.csv", b"x,c2VzYW1lLTdmM2E5Yi1vcGVu\n"),
        ("notes.txt", b"a process called bash-of-mine ran"),
        ("notes.txt", HOME.encode()),
    ],
)
def test_the_last_search_finds_what_slipped_in(tmp_path: Path, member: str, content: bytes) -> None:
    """Whatever made it: the check knows the original and the archive, and nothing of how one became the other."""
    from nsysprof.bundle.archive import write_archive

    row = "INSERT INTO PROCESSES VALUES (1, 2, 'bash-of-mine')"
    source = read_source(write_trace(tmp_path / "in.sqlite", row), None, tmp_path)
    (tmp_path / "clean").write_text("clean")
    (tmp_path / "leak").write_bytes(content)
    (tmp_path / "work").mkdir()
    for name, leaks in (("clean", False), ("leak", True)):
        archive = tmp_path / f"{name}.zip"
        write_archive(archive, {member: tmp_path / name}, "title", {})
        arguments = (source, (), archive, tmp_path / "clean", "title", NameTokens(), tmp_path / "work")
        if leaks:
            with pytest.raises(SecretLeakError, match="must not be shared"):
                check_bundle(*arguments)
        else:
            assert check_bundle(*arguments).secrets > 3
        shutil.rmtree(tmp_path / "work" / "bundle")


def test_names_that_slipped_in_are_found_by_the_list(tmp_path: Path) -> None:
    from nsysprof.bundle.archive import write_archive

    builder = TraceBuilder()
    builder.range(0, 9, "acme range")
    builder.launch(1, 1, name="acme_kernel")
    trace = builder.write(tmp_path / "nsys.sqlite")
    source = read_source(trace, None, tmp_path)
    (tmp_path / "clean").write_text("clean")
    (tmp_path / "work").mkdir()
    archive = tmp_path / "a.zip"
    write_archive(archive, {"notes.txt": tmp_path / "clean"}, "title", {})
    with pytest.raises(SecretLeakError, match="2 names that are not on the list"):
        check_bundle(source, [trace], archive, tmp_path / "clean", "title", NameTokens(), tmp_path / "work")
    shutil.rmtree(tmp_path / "work" / "bundle")
    check_bundle(source, [trace], archive, tmp_path / "clean", "title", NameTokens(keep=True), tmp_path / "work")


@pytest.fixture(scope="module")
def real_capture(nsys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a capture of the CPU under a real nsys, with a backend, a folder and a variable that are private."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("wonder land")
    (folder / "acme.py").write_text(
        "import torch.nn.functional as F\n"
        "def attn(q, k, v, is_causal):\n"
        "    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)\n"
    )
    environment = {**os.environ, "SECRET_TOKEN": TOKEN, "PYTHONPATH": str(folder), "NSYSPROF_NSYS": str(nsys)}
    command = [sys.executable, "-m", "nsysprof", "capture", "--backends", "math,acme:attn", "--seq", "32"]
    command += ["--device", "cpu", "--profiler", "nsys", "--out", str(folder / "run")]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "run"


@pytest.mark.nsys
@pytest.mark.torch
def test_a_real_capture_is_shared_without_its_secrets(real_capture: Path, tmp_path: Path) -> None:
    raw = (real_capture / "nsys.sqlite").read_bytes()
    assert TOKEN.encode() in raw, "or this proves nothing"
    done = bundle(real_capture, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        everything = without_page_parts(b"".join(archive.read(name) for name in archive.namelist()))
        everything += lzma.decompress(archive.read("nsys.sqlite.xz"))
    for private in (TOKEN, "wonder land", "acme", str(real_capture.parent), "SECRET_TOKEN"):
        assert private.encode() not in everything, private
        assert private not in done.stdout
    assert b"RUN::backend_1::S32" in everything
    options = ("--json", "--no-figures")
    summary = json.loads(run("analyze", tmp_path / "run.zip", "--out", tmp_path / "a", *options).stdout)
    original = json.loads(run("analyze", real_capture, "--out", tmp_path / "b", *options).stdout)
    # A note about the cost of recording names the slowed ranges, and the sanitizer renames one of them.
    original = json.loads(json.dumps(original).replace("acme:attn", "backend_1"))
    for key in ("totals", "coverage", "notes"):
        assert summary[key] == original[key]


@pytest.mark.nsys
def test_a_report_is_exported_and_never_shared(nsys: Path, real_capture: Path, tmp_path: Path) -> None:
    shutil.copy(real_capture / "nsys.nsys-rep", tmp_path / "mine.nsys-rep")
    done = bundle(tmp_path / "mine.nsys-rep", "--nsys", nsys, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    members = json.loads(done.stdout)["members"]
    assert "nsys.sqlite.xz" in members
    assert not [name for name in members if "rep" in name.rpartition(".")[2]]


@pytest.mark.nsys
def test_nsys_stats_reads_a_shared_trace_as_the_original(nsys: Path, real_capture: Path, tmp_path: Path) -> None:
    assert bundle(real_capture, "--keep-names", cwd=tmp_path).returncode == 0
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        (tmp_path / "shared.sqlite").write_bytes(lzma.decompress(archive.read("nsys.sqlite.xz")))
    shutil.copy(real_capture / "nsys.sqlite", tmp_path / "original.sqlite")
    said = []
    for name in ("shared", "original"):
        command = [
            str(nsys),
            "stats",
            "--report",
            "nvtx_sum",
            "--format",
            "csv",
            "-q",
            str(tmp_path / f"{name}.sqlite"),
        ]
        said.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert "math" in said[0]
    assert said[0] == said[1]


def test_a_trace_of_torch_is_shared_as_its_tables(tmp_path: Path) -> None:
    done = bundle(TRACES / "inputs.json.gz", "--json", "--out", tmp_path / "b.zip")
    assert done.returncode == 0, done.stderr
    assert "torch.sqlite.xz" in json.loads(done.stdout)["members"]
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        (tmp_path / "t.sqlite").write_bytes(lzma.decompress(archive.read("torch.sqlite.xz")))
    connection = sqlite3.connect(tmp_path / "t.sqlite")
    (count,) = connection.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    connection.close()
    assert count == 92


def test_the_python_api_opens_a_bundle(tmp_path: Path) -> None:
    import nsysprof

    share(TRACES / "mem.sqlite.xz", out=tmp_path / "b.zip")
    with nsysprof.open_trace(tmp_path / "b.zip") as trace:
        assert len(nsysprof.read_kernels(trace)) == 6
        assert trace.identity.name == "nsys.sqlite"


def test_a_capture_without_a_trace(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(TRACES / "h200-sdpa", folder)
    (folder / "nsys.sqlite.xz").unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "profiler": "none"}))
    done = bundle(folder, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "math::S1024" in done.stdout
    assert "unzip run.zip" in done.stdout
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        assert archive.namelist() == ["bundle.json", "manifest.json", "results.csv", "samples.json"]
    fails(bundle(folder, "--range", "*", "--force", cwd=tmp_path), 2, "no trace to crop")


@pytest.mark.gpu
@pytest.mark.nsys
def test_a_real_capture_of_a_gpu(nsys: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    environment = {**os.environ, "SECRET_TOKEN": TOKEN, "NSYSPROF_NSYS": str(nsys)}
    command = [sys.executable, "-m", "nsysprof", "capture", "--seq", "512", "--profiler", "nsys", "--out", "run"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert TOKEN.encode() in (tmp_path / "run" / "nsys.sqlite").read_bytes(), "or this proves nothing"
    made = bundle("run", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    one, two = (
        json.loads(run("analyze", source, "--out", f"of-{source}", "--json", cwd=tmp_path).stdout)
        for source in ("run", "run.zip")
    )
    for key in ("totals", "coverage", "notes", "devices"):
        assert one[key] == two[key]
    assert one["totals"]["kernel_count"] > 0
    for table in TABLES:
        assert numbers(tmp_path / "of-run" / table) == numbers(tmp_path / "of-run.zip" / table)
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        assert TOKEN.encode() not in lzma.decompress(archive.read("nsys.sqlite.xz"))


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nsysprof.app import bundle as bundle_build

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundle_build, "pack_trace", full)
    with pytest.raises(OutputError, match="No space left") as caught:
        share(write_trace(tmp_path / "in.sqlite"), out=tmp_path / "b.zip")
    assert "TMPDIR" in caught.value.next_step
    assert [path.name for path in tmp_path.iterdir()] == ["in.sqlite"]


def test_an_interruption_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    command = [
        sys.executable,
        "-m",
        "nsysprof",
        "bundle",
        str(TRACES / "mem.sqlite.xz"),
        "--out",
        str(tmp_path / "b.zip"),
    ]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not list((tmp_path / "tmp").glob("nsysprof-*/made/*")):
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert out == ""
    assert "Traceback" not in err
    assert not (tmp_path / "b.zip").exists()
    assert [path.name for path in (tmp_path / "tmp").iterdir() if path.name.startswith("nsysprof-")] == []


def test_a_trace_of_torch_is_shared_without_its_names_and_metadata(tmp_path: Path) -> None:
    call = {"ph": "X", "pid": 4242, "tid": 4243, "ts": 10.0, "dur": 5.0}
    launch = {**call, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {"correlation": 1}}
    kernel = {**call, "cat": "kernel", "pid": 0, "ts": 16.0, "name": "wonder_attention(int)"}
    kernel["args"] = {"device": 0, "stream": 7, "correlation": 1, "user": "alice", "Call stack": f"{HOME}/train.py"}
    marked = {**call, "cat": "user_annotation", "name": "train on wonderland data", "ts": 9.0, "dur": 20.0}
    data = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 1}],
        "hostname": "wonderland-9",
        "traceEvents": [
            launch,
            kernel,
            marked,
            {"ph": "M", "name": "process_name", "pid": 4242, "args": {"name": HOME}},
        ],
        "traceName": f"{HOME}/trace.json",
    }
    (tmp_path / "t.json").write_text(json.dumps(data))
    done = bundle(tmp_path / "t.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "t.zip") as archive:
        everything = without_page_parts(b"".join(archive.read(name) for name in archive.namelist()))
        everything += lzma.decompress(archive.read("torch.sqlite.xz"))
    for private in ("wonder", "alice", "train"):
        assert private.encode() not in everything.replace(b"trained", b""), private
        assert private not in done.stdout
    assert b"<kernel-1 attention>" in everything
    assert "<range-1" in done.stdout.replace("\\", "")


RANK_TABLES = ("ranges_over_ranks", "kernels_over_ranks", "range_kernels_over_ranks", "api_over_ranks", "rank_ranges")


def write_ranks(folder: Path) -> Path:
    """Return a folder of two real ranks."""
    folder.mkdir()
    for rank in (0, 1):
        packed = (TRACES / f"ddp_rank{rank}.sqlite.xz").read_bytes()
        (folder / f"ddp_rank{rank}.sqlite").write_bytes(lzma.decompress(packed))
    return folder


@pytest.mark.slow
def test_the_ranks_of_a_job_share_an_archive_and_keep_their_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_ranks(tmp_path / "job")
    share(job, out=tmp_path / "b.zip", as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert {"rank00000.sqlite.xz", "rank00001.sqlite.xz", "analysis/heatmap.png"} <= set(said["members"])
    for words in ("Rank 1 is a straggler: with", "last in 135 of 135 collectives", "backward", "NVIDIA H200"):
        assert words in said["markdown"]
    before, after = tmp_path / "before", tmp_path / "after"
    analyze_command.analyze(AnalyzeRequest((job,), out=before, workers=1, figures=False))
    analyze_command.analyze(AnalyzeRequest((tmp_path / "b.zip",), out=after, workers=1))
    for table in RANK_TABLES:
        assert numbers(before / f"{table}.csv") == numbers(after / f"{table}.csv"), table
    one, two = (json.loads((folder / "ranks.json").read_text()) for folder in (before, after))
    for key in ("clocks", "imbalance_pct", "outliers", "notes"):
        assert one[key] == two[key], key
    assert [line["excess_ns"] for line in one["stragglers"]] == [line["excess_ns"] for line in two["stragglers"]]
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        for name in archive.namelist():
            if name.endswith((".csv", ".png")):
                assert archive.read(name) == (after / name.removeprefix("analysis/")).read_bytes(), name
        contents = json.loads(archive.read("bundle.json"))
        archive.extractall(tmp_path / "unzipped")
    assert [rank["trace"] for rank in contents["ranks"]] == ["rank00000.sqlite", "rank00001.sqlite"]
    analyze_command.analyze(AnalyzeRequest((tmp_path / "unzipped",), out=tmp_path / "third", workers=1, figures=False))
    for table in RANK_TABLES:
        assert numbers(before / f"{table}.csv") == numbers(tmp_path / "third" / f"{table}.csv"), table
    capsys.readouterr()
    share(job, out=tmp_path / "b.zip", force=True, as_json=True)
    assert json.loads(capsys.readouterr().out)["sha256"] == said["sha256"], "the same input gives the same bytes"


def write_rank_capture(folder: Path) -> Path:
    """Return a capture of four ranks on two hosts: the second has a secret, the third is damaged, the last missing."""
    (folder / "ranks").mkdir(parents=True)
    (folder / "logs").mkdir()
    (folder / "logs" / "rank00000.stdout.log").write_text(TOKEN)
    write_trace(folder / "ranks/rank00000.sqlite", text="common name")
    write_trace(folder / "ranks/rank00001.sqlite", text=f"common name {TOKEN}")
    (folder / "ranks/rank00002.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 500)
    ranks = [
        {"rank": rank, "world_size": 4, "host_token": f"wonderland-{9 + rank // 2}", "exit_code": 0, "local_rank": 0,
         "trace": f"ranks/rank{rank:05d}.sqlite", "variables": {"RANK": str(rank), "TOKEN": TOKEN}, "attempt": 0}
        for rank in range(4)
    ]  # fmt: skip
    program = {"argv": [f"{HOME}/train.py", f"--key={TOKEN}"], "exit_code": 0}
    manifest = {
        "format_version": 1, "nsysprof_version": "0.1.0", "created_utc": "2026-11-21T00:00:00+00:00", "complete": True,
        "kind": "program", "profiler": "nsys", "method": "", "traced_calls": 0, "range_keys": [], "cases": [],
        "environment": {"gpu_name": "NVIDIA H200", "hostname": "wonderland-9"}, "steps": [], "notes": [],
        "program": program, "ranks": ranks,
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_a_capture_of_ranks_without_the_secrets_of_any(tmp_path: Path) -> None:
    capture = write_rank_capture(tmp_path / "capture")
    done = bundle(capture, "--out", tmp_path / "b.zip")
    assert done.returncode == 0, done.stderr
    assert "left out: the trace of rank 2" in done.stderr
    assert "left out: the trace of rank 3" in done.stderr
    unpacked = unpack_bundle(tmp_path / "b.zip", tmp_path)
    for path in [tmp_path / "b.zip", *(path for path in unpacked.rglob("*") if path.is_file())]:
        content = without_page_parts(path.read_bytes())
        for private in PRIVATE:
            assert private.encode() not in content, (path, private)
    contents = json.loads((unpacked / "bundle.json").read_text())
    assert [rank["host_token"] for rank in contents["ranks"]] == ["host-1", "host-1", "host-2", "host-2"]
    assert [rank["trace"] for rank in contents["ranks"]] == ["rank00000.sqlite", "rank00001.sqlite", None, None]
    ranges = (unpacked / "analysis/ranges_over_ranks.csv").read_text()
    assert "<range-1>" in ranges
    done = run("analyze", tmp_path / "b.zip", "--out", tmp_path / "a", "--no-figures", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["ranks_read"], found["ranks_given"]) == (2, 4)
    assert "traces-unread" in {note["code"] for note in found["notes"]}


def test_ranks_that_cannot_be_shared_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = write_rank_capture(tmp_path / "capture")
    monkeypatch.setattr("nsysprof.app.bundle._MOST_RANKS", 3)
    with pytest.raises(UsageError, match="4 ranks are more than the 3"):
        share(capture, out=tmp_path / "b.zip")
    for rank in (0, 1):
        (capture / f"ranks/rank{rank:05d}.sqlite").write_bytes(b"")
    fails(bundle(capture, "--out", tmp_path / "b.zip"), 7, "no trace that can be read")
    assert not (tmp_path / "b.zip").exists()
