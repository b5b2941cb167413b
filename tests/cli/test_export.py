"""`nsysprof export` as a user runs it."""

import gzip
import hashlib
import json

import pandas as pd
import pytest

from tests.builders.published_schema import as_published
from tests.builders.run_command import fails, run
from tests.conftest import REPOSITORY
from tests.export.perfetto_reader import read_perfetto
from tests.trace.parquet_writer import write_parquet_folder

TRACES = REPOSITORY / "traces"


def test_all_three_formats_of_a_real_trace(trace_path, tmp_path):
    path = trace_path("sdpa")
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    arguments = ("--perfetto", "new/t.pftrace", "--chrome", "t.json.gz", "--parquet", "tables")
    done = run("export", path, *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (
        "new/t.pftrace: 5,671 api, 1,133 flow, 1,086 kernel, 1,628 memory, 47 memset, 1 note, 12 range" in done.stdout
    )
    assert "https://ui.perfetto.dev" in done.stdout
    assert sum(s.category == "kernel" for s in read_perfetto(tmp_path / "new" / "t.pftrace").slices) == 1086
    events = json.loads(gzip.decompress((tmp_path / "t.json.gz").read_bytes()))["traceEvents"]
    assert sum(event.get("cat") == "kernel" for event in events) == 1086
    assert len(pd.read_parquet(tmp_path / "tables" / "gpu.parquet")) == 1133
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before


@pytest.mark.parametrize("source", ["capture", "xz", "kineto", "parquet"])
def test_whatever_analyze_takes(source, trace_path, tmp_path):
    sources = {"capture": TRACES / "h200-sdpa", "xz": TRACES / "mem.sqlite.xz", "kineto": TRACES / "inputs.json.gz"}
    given = sources.get(source) or write_parquet_folder(trace_path("mem"), tmp_path / "in")
    done = run("export", given, "--perfetto", tmp_path / "t.pftrace", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    said = as_published("export", done.stdout)["formats"]["perfetto"]
    kernels = {"capture": 1582, "xz": 6, "kineto": 92, "parquet": 6}[source]
    assert said["rows"]["kernel"] == kernels
    assert sum(s.category == "kernel" for s in read_perfetto(tmp_path / "t.pftrace").slices) == kernels


def test_what_an_analysis_must_say_is_said_here_too(trace_path, tmp_path):
    done = run("export", trace_path("sdpa22"), "--perfetto", tmp_path / "t.pftrace")
    assert done.returncode == 0
    assert "error: " in done.stdout
    notes = [instant.name for instant in read_perfetto(tmp_path / "t.pftrace").instants]
    assert any(note.startswith("error: ") for note in notes)


def test_nothing_is_replaced_unasked(trace_path, tmp_path):
    target = tmp_path / "t.pftrace"
    target.write_bytes(b"mine")
    fails(run("export", trace_path("mem"), "--perfetto", target), 4, "exists", "--force")
    assert target.read_bytes() == b"mine"
    assert run("export", trace_path("mem"), "--perfetto", target, "--force").returncode == 0
    assert target.read_bytes() != b"mine"


def test_the_input_is_never_the_output(tmp_path, trace_path):
    own = tmp_path / "own.sqlite"
    own.write_bytes(trace_path("mem").read_bytes())
    fails(run("export", own, "--chrome", own, "--force"), 4, "is the input")
    assert own.read_bytes() == trace_path("mem").read_bytes()


def test_requests_that_make_no_sense(tmp_path, trace_path):
    mem = trace_path("mem")
    fails(run("export", mem), 2, "--perfetto")
    fails(run("export", mem, "--perfetto", tmp_path / "a", "--chrome", tmp_path / "a"), 2, "the same path")
    fails(run("export", mem, "--perfetto", tmp_path), 4, "is a folder", "trace.pftrace")
    (tmp_path / "file").write_bytes(b"")
    fails(run("export", mem, "--perfetto", tmp_path / "file" / "t.pftrace"), 4, "cannot be made")
    fails(run("export", tmp_path / "no.sqlite", "--perfetto", tmp_path / "t"), 7, "does not exist")
    fails(run("export", tmp_path / "file", "--perfetto", tmp_path / "t"), 8, "is empty")
