"""samples.json: of this version, of those before it, and of nobody."""

import json
import lzma
from pathlib import Path

import pytest

from nsysprof.attention.shape import Case
from nsysprof.capture.sampling.bench_run import BenchPlan, new_run, read_capture_samples, read_run
from nsysprof.errors import TraceError
from nsysprof.results.samples import Block

REPOSITORY = Path(__file__).parents[3]
# Written by version 0.1.0 before captures and benches had one form of samples.
OLD = Path(__file__).parents[1] / "old_folders"
BLOCK = Block(1, 0, 0, "ok", values_ns=(3, 1, 2), offsets_ns=(0, 5, 9), errors={"out": 1e-6}, peak_bytes=7)


def made(**fields):
    run = new_run(BenchPlan((Case("math", seq=8), Case("mod:f", seq=16)), "cpu"), "capture")
    run.blocks = [Block(0, 0, 0, "crashed", "it died"), BLOCK]
    for name, value in fields.items():
        setattr(run, name, value)
    return run


def test_a_run_survives_the_disk_and_samples_keep_their_order(tmp_path):
    run = made(environment={"os": "x"}, ceilings={"bytes_per_s": 1.5}, complete=True)
    run.save(tmp_path)
    assert read_run(tmp_path / "samples.json") == run
    assert read_capture_samples(tmp_path) == {"RUN::mod:f::S16": (3, 1, 2)}


def test_a_capture_of_a_program_has_no_samples(tmp_path):
    assert read_capture_samples(tmp_path) == {}


def test_the_samples_of_a_capture_of_the_first_format():
    found = read_capture_samples(OLD / "capture")
    assert list(found) == ["RUN::math::S128", "RUN::math::S256", "RUN::flash::S128", "RUN::flash::S256"]
    assert {len(values) for values in found.values()} == {22, 24, 50}
    assert found["RUN::flash::S128"][0] == json.loads((OLD / "capture/samples.json").read_text())["samples"][
        "RUN::flash::S128"
    ]["values"][0]  # fmt: skip
    real = read_capture_samples(REPOSITORY / "traces/h200-sdpa")
    assert real["RUN::math::S1024"][:2] == (434432, 362400)


@pytest.mark.parametrize(("name", "kind", "blocks"), [("bench", "bench", 24), ("tune", "tune", 27)])
def test_benches_of_the_first_format(name, kind, blocks):
    run = read_run(OLD / name / "samples.json")
    assert (run.kind, len(run.blocks)) == (kind, blocks)
    assert run.plan.cases[0] == Case("math", seq=128, dtype="fp32")
    assert (run.plan.least_samples, run.plan.warmup_calls) == (1, None)
    assert all(block.values_ns for block in run.blocks)


@pytest.mark.parametrize("name", ["bench", "flex", "grid", "self-check", "wider"])
def test_the_studies_in_this_repository_are_still_read(name, tmp_path):
    text = lzma.decompress((REPOSITORY / "analysis/h200-tune" / name / "samples.json.xz").read_bytes())
    (tmp_path / "samples.json").write_bytes(text)
    run = read_run(tmp_path / "samples.json")
    assert run.environment["gpu_name"] == "NVIDIA H200"
    assert len(run.blocks) == len(json.loads(text)["blocks"])


def hostile(**fields):
    """Return the text of a whole run in which some fields are replaced."""
    data = {
        "format_version": 2, "nsysprof_version": "0.1.0", "kind": "bench", "created_utc": "", "complete": True,
        "plan": {"cases": [{"backend": "math", "seq": 8, "pass": "fwd"}], "device": "cpu"}, "environment": {},
        "ceilings": {}, "blocks": [{"cell": 0, "process": 0, "round": 0, "status": "ok"}], "clocks": [],
    }  # fmt: skip
    return json.dumps(data | fields)


def block(**fields):
    return [{"cell": 0, "process": 0, "round": 0, "status": "ok", **fields}]


HOSTILE = [
    ("", "it is empty"),
    ("[]", "expected object, got array"),
    ("{}", "the field format_version is missing"),
    ('{"format_version": "x"}', "format_version: expected int, got str"),
    ('{"format_version": 1}', "the field kind is missing"),
    ('{"format_version": 1, "a": ' + "[" * 100_000, "nested too deeply"),
    (hostile(plan=7), "plan: expected object, got int"),
    (hostile(plan={"cases": [], "device": "cpu", "copies": 10**9}), "plan.copies: expected int <= 1000"),
    (
        hostile(plan={"cases": [{"backend": "math", "seq": "8"}], "device": "cpu"}),
        r"plan.cases\[0\].seq: ",
    ),
    (hostile(blocks=block(cell=5)), r"blocks\[0\].cell: the plan has 1 cells only"),
    (hostile(blocks=block(cell=-1)), r"blocks\[0\].cell: expected int >= 0"),
    (hostile(blocks=block(values_ns=[0])), r"blocks\[0\].values_ns\[0\]: expected int >= 1"),
    (hostile(blocks=block(values_ns=[1.5])), r"blocks\[0\].values_ns\[0\]: expected int, got float"),
    (hostile(blocks=block(values_ns=["7"])), r"blocks\[0\].values_ns\[0\]: expected int, got str"),
    (hostile(blocks=block(values_ns=[10**30])), r"blocks\[0\].values_ns\[0\]: expected int"),
    (hostile(blocks=block(errors={"out": float("nan")})), "it is not JSON"),
    (hostile(blocks=block(reason="x" * 10**6)), r"blocks\[0\].reason: expected str of length <= 10000"),
    (hostile(kind="party"), "kind: invalid enum value 'party'"),
    (hostile(environment=[]), "environment: expected object, got array"),
]


@pytest.mark.parametrize(("text", "says"), HOSTILE, ids=[says[:40] for _, says in HOSTILE])
def test_a_hostile_file_gives_one_error_that_names_the_field(tmp_path, text, says):
    (tmp_path / "samples.json").write_text(text)
    for read in (lambda: read_run(tmp_path / "samples.json"), lambda: read_capture_samples(tmp_path)):
        with pytest.raises(TraceError, match=rf"samples.json is not a .*samples: .*{says}") as caught:
            read()
        assert caught.value.next_step
        assert len(caught.value.text) < 500


def test_samples_of_a_newer_version(tmp_path):
    (tmp_path / "samples.json").write_text('{"format_version": 99, "nsysprof_version": "9.9"}')
    for read in (lambda: read_run(tmp_path / "samples.json"), lambda: read_capture_samples(tmp_path)):
        with pytest.raises(TraceError, match=r"newer nsysprof \(9.9\)"):
            read()
