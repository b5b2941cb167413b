import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from nsysprof.attention.shape import Case
from nsysprof.capture.manifest import (
    Manifest,
    Program,
    RankTrace,
    Step,
    read_manifest,
    write_manifest,
    write_results,
)
from nsysprof.errors import TraceError
from nsysprof.notes import Note, Severity, make_note
from nsysprof.results.checks import MissingSource

REPOSITORY = Path(__file__).parents[2]
OLD = Path(__file__).parent / "old_folders"
MANIFEST = Manifest(
    cases=(Case("math", seq=8),),
    range_keys=("B",),
    profiler="torch",
    traced_calls=10,
    method="how",
    created_utc="2026-01-01T00:00:00+00:00",
    environment={"device": "cpu"},
    steps=[Step("timed", ("a", "b"), None, 5)],
    notes=[Note("x", Severity.WARNING, "text", "next")],
)


def test_round_trip(tmp_path):
    write_manifest(tmp_path, MANIFEST)
    assert read_manifest(tmp_path) == MANIFEST


def test_old_manifests_are_read(tmp_path):
    old = read_manifest(OLD / "capture")
    assert old.cases[0] == Case("math", seq=128, dtype="fp32")
    assert (old.profiler, old.complete, old.program) == ("none", True, None)
    assert read_manifest(REPOSITORY / "traces/h200-sdpa").environment["gpu_name"] == "NVIDIA H200"


def test_what_is_missing_is_a_field(tmp_path):
    note = make_note("no-counters", problem="Not permitted.", next_step="Be root.")
    manifest = replace(MANIFEST, notes=[], missing=[])
    manifest.add_missing(MissingSource.COUNTERS, note)
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path).missing == [MissingSource.COUNTERS]


def changed(path, **fields):
    """Return a manifest that was written by us and then had some fields replaced."""
    write_manifest(path, MANIFEST)
    data = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(data | fields))


CASE = {"backend": "math", "seq": 8, "pass": "fwd"}
STEP = {"name": "timed", "argv": ["a"], "exit_code": 0, "duration_ns": 5}
NOTE = {"code": "x", "severity": "warning", "text": "t", "next_step": ""}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"complete": "yes"}, "complete: expected bool, got str"),
        ({"cases": {}}, "cases: expected array, got object"),
        ({"cases": [7]}, r"cases\[0\]: expected object, got int"),
        ({"cases": [{"backend": "math"}]}, r"cases\[0\]: the field seq is missing"),
        ({"cases": [CASE | {"seq": 1e400}]}, r"cases\[0\].seq: number out of range|it is not JSON"),
        ({"cases": [CASE | {"seq": -5}]}, r"cases\[0\].seq: expected int >= 1"),
        ({"cases": [CASE | {"seq": float("nan")}]}, "it is not JSON"),
        ({"cases": [CASE | {"backend": "\x1b]0;owned"}]}, r"cases\[0\].backend: expected str matching regex"),
        ({"cases": [CASE | {"backend": "x" * 10**6}]}, r"cases\[0\].backend: expected str of length <= 300"),
        ({"range_keys": ["nothing"]}, r"range_keys\[0\]: expected str matching regex"),
        ({"steps": [STEP | {"argv": "ls"}]}, r"steps\[0\].argv: expected array, got str"),
        ({"steps": [STEP | {"duration_ns": None}]}, r"steps\[0\].duration_ns: expected int, got null"),
        ({"notes": [NOTE | {"severity": "deadly"}]}, r"notes\[0\].severity: invalid enum value 'deadly'"),
        ({"notes": [None]}, r"notes\[0\]: expected object, got null"),
        ({"environment": 7}, "environment: expected object, got int"),
        ({"environment": {"clocks": 7}}, "environment.clocks: expected object"),
        ({"environment": {"clocks": {"during": {}}}}, "environment.clocks.during: the field samples is missing"),
        ({"environment": {"ceilings": {"flops": {"fp16": "fast"}}}}, "environment.ceilings.flops.*: expected float"),
        ({"environment": {"gpu_name": ["a"]}}, "environment.gpu_name: expected a plain value, got list"),
        ({"traced_calls": 10**30}, "traced_calls: expected int <= 1000000000"),
        ({"kind": "cluster"}, "kind: invalid enum value 'cluster'"),
        ({"method": "x" * 10**7}, "method: expected str of length <= 100000"),
    ],
)
def test_a_hostile_manifest_gives_one_error_that_names_the_field(tmp_path, fields, says):
    changed(tmp_path, **fields)
    with pytest.raises(TraceError, match=rf"manifest.json is not a capture's manifest: ({says})") as caught:
        read_manifest(tmp_path)
    assert caught.value.next_step
    assert len(caught.value.text) < 500


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty"),
        ("{", "it is empty or ends too early"),
        ("[]", "expected object, got array"),
        ("{}", "the field format_version is missing"),
        ('{"format_version": 1}', "the field .* is missing"),
        ('{"format_version": true}', "format_version: expected int, got bool"),
        ('{"format_version": 1, "more": ' + "[" * 200_000, "it is nested too deeply"),
        ('{"format_version": 1, "profiler": "\\', "it is not JSON|it is empty or ends too early"),
    ],
)
def test_a_manifest_that_is_not_one(tmp_path, text, says):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(TraceError, match=says) as caught:
        read_manifest(tmp_path)
    assert caught.value.next_step


def test_a_manifest_of_a_newer_version(tmp_path):
    changed(tmp_path, format_version=99, nsysprof_version="9.9")
    with pytest.raises(TraceError, match=r"newer nsysprof \(9.9\)"):
        read_manifest(tmp_path)


def test_arguments_that_are_not_utf8_survive(tmp_path):
    odd = replace(MANIFEST, steps=[Step("program", ("caf\udce9",), 0, 1)])
    write_manifest(tmp_path, odd)
    assert read_manifest(tmp_path) == odd


def of_program(**changes):
    rank = RankTrace(3, 1, 8, "abc", "ranks/rank00003.sqlite", "ranks/rank00003.nsys-rep", 0, {"RANK": "3"})
    return replace(MANIFEST, cases=(), program=Program(("python", "x"), 0, (replace(rank, **changes),)))


def test_a_capture_of_a_program_comes_back(tmp_path):
    write_manifest(tmp_path, of_program())
    data = json.loads((tmp_path / "manifest.json").read_text())
    assert data["kind"] == "program"
    assert {"rank", "local_rank", "world_size", "host_token", "trace", "report", "exit_code"} <= set(data["ranks"][0])
    assert read_manifest(tmp_path) == of_program()
    data["ranks"][0]["of a newer version"] = 1
    (tmp_path / "manifest.json").write_text(json.dumps(data))
    assert read_manifest(tmp_path) == of_program()


@pytest.mark.parametrize(
    "changes",
    [
        {"trace": "../../etc/passwd"},
        {"trace": "/etc/passwd"},
        {"report": "ranks/rank00004.nsys-rep"},
        {"rank": "../x"},
        {"trace": 5},
        {"trace": []},
    ],
)
def test_a_manifest_names_no_file_but_the_ranks_own(tmp_path, changes):
    write_manifest(tmp_path, of_program(**changes))
    with pytest.raises(TraceError, match="is not a capture's manifest"):
        read_manifest(tmp_path)


def test_unknown_is_empty_and_zero_is_zero(tmp_path):
    write_results(tmp_path, ("a", "b", "c"), [{"a": 0, "b": None}])
    assert list(csv.reader((tmp_path / "results.csv").read_text().splitlines())) == [
        ["a", "b", "c"],
        ["0", "", ""],
    ]
