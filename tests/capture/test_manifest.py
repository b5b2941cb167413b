import csv
import json
from dataclasses import replace

import pytest

from nsysprof.capture.manifest import (
    Manifest,
    Program,
    RankTrace,
    Step,
    read_manifest,
    write_manifest,
    write_results,
    write_samples,
)
from nsysprof.case import Case
from nsysprof.errors import TraceError
from nsysprof.notes import Note, Severity
from nsysprof.samples import Samples

MANIFEST = Manifest(
    cases=(Case("math", 8),),
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


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format_version": 1}', '{"format_version": 99}'])
def test_a_manifest_that_is_not_one(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(TraceError) as caught:
        read_manifest(tmp_path)
    assert caught.value.next_step


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


def test_raw_samples_are_kept_in_order(tmp_path):
    write_samples(tmp_path, {"RUN::math::S8": Samples((3, 1, 2), "how")})
    data = json.loads((tmp_path / "samples.json").read_text())
    assert data["samples"]["RUN::math::S8"] == {"unit": "ns", "method": "how", "values": [3, 1, 2]}
