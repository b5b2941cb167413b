"""Probes with a stand-in nsys, which loses what it is told to, and a stand-in program, which says what it did."""

import json

import pytest

from nsysprof.capture.self_check import probe
from nsysprof.capture.self_check.probe import choose_options, run_ladder, run_probe, variants_of
from nsysprof.results.checks import ProbeVerdict
from tests.builders.build_trace import OTHER_PID, TraceBuilder
from tests.builders.stand_in_nsys import recorded_options, write_stand_in

DID = {
    "main": {"pid": 100, "launches": 3, "nodes": 4, "replays": 2},
    "spawned": {"pid": 200, "launches": 2, "nodes": 0, "replays": 0},
}


def trace(path, *, launches=3, nodes=4, spawned=2, whole=0):
    builder = TraceBuilder()
    for number in range(1, launches + 1):
        builder.launch(1000 * number, number)
    for number in range(nodes):
        builder.kernel(5000 + 100 * number, 5050 + 100 * number, 50 + number % 2, node=(2 << 32) + number // 2)
    for number in range(spawned):
        builder.kernel(8000 + 100 * number, 8050 + 100 * number, 80 + number, pid=OTHER_PID)
    for number in range(whole):
        builder.graph(9000 + 100 * number, 9050 + 100 * number, 90 + number)
    return builder.write(path)


@pytest.fixture
def program(tmp_path, monkeypatch):
    path = tmp_path / "program.py"
    path.write_text(f"import json, sys\nfor name, facts in {DID}.items():\n"
                    "    open(f'{sys.argv[1]}.{name}', 'w').write(json.dumps(facts))\n")  # fmt: skip
    monkeypatch.setattr(probe, "_PROGRAM", path)


def test_a_complete_recording_and_one_that_lost_each_kind_of_work(tmp_path, program):
    cases = {
        "all": ({}, ""),
        "launch": ({"launches": 1}, "1 of 3 kernels of the main process"),
        "node": ({"nodes": 3}, "3 of 4 kernels of graphs of the main process"),
        "process": ({"spawned": 0}, "0 of 2 kernels of the spawned process"),
    }
    for name, (changes, said) in cases.items():
        nsys = write_stand_in(tmp_path / name, [("", trace(tmp_path / f"{name}.sqlite", **changes))])
        result = run_probe(nsys, probe.USUAL)
        assert (result.verdict is ProbeVerdict.COMPLETE) == (not said), result
        assert said in result.text
    assert (result.expected, result.recorded) == (9, 7)


def test_whole_graphs_are_counted_as_such(tmp_path, program):
    nsys = write_stand_in(tmp_path / "n", [("", trace(tmp_path / "t.sqlite", nodes=0, whole=2))])
    (whole,) = (each for each in probe.ON_REQUEST if each.name == "graphs-as-wholes")
    assert run_probe(nsys, whole).verdict is ProbeVerdict.COMPLETE
    assert run_probe(nsys, probe.USUAL).verdict is ProbeVerdict.LOST


def test_the_ladder_ends_at_the_richest_that_loses_nothing(tmp_path, program):
    good, bad = trace(tmp_path / "g.sqlite"), trace(tmp_path / "b.sqlite", launches=0)
    nsys = write_stand_in(tmp_path / "n", [("memory-usage=true", bad), ("", good)], help_text="cuda-sw")
    results = run_ladder(nsys, lambda _text: None)
    assert [(each.name, each.verdict) for each in results] == [
        ("usual", ProbeVerdict.LOST),
        ("without-memory", ProbeVerdict.COMPLETE),
    ]
    options, usual = choose_options(results)
    assert options == ("--cuda-memory-usage=false",)
    assert usual is results[0]
    assert len(recorded_options(tmp_path / "n")) == 2


def test_hardware_tracing_that_fails_is_replaced_by_software(tmp_path, program):
    good = trace(tmp_path / "g.sqlite")
    nsys = write_stand_in(tmp_path / "n", [("cuda-sw", good), ("", None)], help_text="cuda-hw, cuda-sw, nvtx")
    results = run_ladder(nsys, lambda _text: None)
    assert [each.verdict for each in results] == [ProbeVerdict.FAILED, ProbeVerdict.FAILED, ProbeVerdict.COMPLETE]
    assert choose_options(results)[0] == ("--trace=cuda-sw,nvtx",)
    names = {each.name for each in variants_of(write_stand_in(tmp_path / "old", []), everything=True)}
    assert "software" not in names, "this nsys does not have it"


def test_where_everything_is_lost_nothing_is_better(tmp_path, program):
    nsys = write_stand_in(tmp_path / "n", [("", trace(tmp_path / "b.sqlite", launches=0, nodes=0))])
    options, usual = choose_options(run_ladder(nsys, lambda _text: None))
    assert options == ()
    assert usual is not None


def test_a_program_without_a_gpu_says_nothing_of_nsys(tmp_path, monkeypatch):
    path = tmp_path / "program.py"
    path.write_text("import sys\nprint('no CUDA: cuInit failed with 100', file=sys.stderr)\nsys.exit(3)\n")
    monkeypatch.setattr(probe, "_PROGRAM", path)
    nsys = write_stand_in(tmp_path / "n", [("", trace(tmp_path / "t.sqlite"))])
    result = run_probe(nsys, probe.USUAL)
    assert (result.verdict, result.text) == (ProbeVerdict.UNKNOWN, "no CUDA: cuInit failed with 100")
    assert choose_options([result]) == ((), None)
    assert json.loads(json.dumps(result.options)) == []
