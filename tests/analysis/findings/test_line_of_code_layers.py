"""Findings name the layer, folded, in which more than half of their time lies, and none where no layer has so much."""

import pytest

from nsysprof.app.analyze import analyze_trace
from tests.analysis.attribution.test_calls_graph_work import create
from tests.analysis.programs import MS, US, Program

LAYERS = 4


def findings(folder, slow, *, kernel="gemm", kernel_ns=20 * US, with_layers=True):
    """Return the findings of steps of a model of four layers, by code.

    slow: do something slow in a part of a layer: takes the program, the layer's number and the name of the part.
    """
    program = Program()
    program.builder.gpu()

    def layer(path, run):
        begin = program.now
        program.host(1 * US)
        run()
        program.host(1 * US)
        if with_layers:
            program.builder.range(begin, program.now, f"nsysprof forward {path} (Kind)")

    def part(number, name):
        slow(program, number, name)
        program.launch(kernel_ns, kernel)

    def block(number):
        for name in ("attn", "mlp"):
            layer(f"model.layers.{number}.{name}", lambda name=name: part(number, name))

    def model():
        for number in range(LAYERS):
            layer(f"model.layers.{number}", lambda number=number: block(number))

    for _ in range(8):
        begin = program.now
        layer("Llama", model)
        slow(program, -1, "loss")
        program.launch(kernel_ns)
        program.step(begin)
    analysis = analyze_trace(program.builder.write(folder / "t.sqlite"))
    return {item.code: item for item in analysis.findings.items}


def sleep_in(*wanted, ns=2 * MS, kind=None):
    def slow(program, number, name):
        if (number, name) in wanted:
            begin = program.now
            program.host(ns if number >= 0 else ns + ns // 4)
            if kind:
                program.builder.range(begin, program.now, kind)

    return slow


IN_ALL = [(number, "mlp") for number in range(LAYERS)]


@pytest.mark.parametrize(("wanted", "layer"), [
    (IN_ALL, "model.layers.[0-3].mlp"),
    ([(2, "attn")], "model.layers.2.attn"),
    ([(0, "mlp"), (2, "mlp")], "model.layers.[0,2].mlp"),
    # Neither part has more than half, the layers with both have it.
    ([(1, "mlp"), (1, "attn")], "model.layers.1"),
    ([(-1, "loss")], ""),
    # More than half of it is outside of all layers.
    ([(3, "mlp"), (-1, "loss")], ""),
])  # fmt: skip
def test_host_work_is_in_the_layer_that_has_most_of_it(tmp_path, wanted, layer):
    assert findings(tmp_path, sleep_in(*wanted))["host-bound"].layer == layer


def test_collections_count_where_they_ran_and_not_where_the_host_waited_otherwise(tmp_path):
    def slow(program, number, name):
        sleep_in((2, "mlp"), ns=3 * MS, kind="nsysprof gc 2")(program, number, name)
        sleep_in((0, "mlp"), ns=9 * MS)(program, number, name)

    found = findings(tmp_path, slow)
    assert found["python-gc"].layer == "model.layers.2.mlp"
    assert found["host-bound"].layer == "model.layers.0.mlp"


def test_waits_are_in_the_layer_that_waits(tmp_path):
    def slow(program, number, name):
        if name == "attn" and number in (1, 2):
            program.wait()
            program.host(150 * US)

    assert findings(tmp_path, slow, kernel_ns=400 * US)["sync"].layer == "model.layers.[1-2].attn"


def test_slow_kernels_are_in_the_layer_that_launched_them(tmp_path):
    def slow(program, number, name):
        if (number, name) == (3, "attn"):
            program.launch(5 * MS, "ampere_sgemm_128x64_nn")

    assert findings(tmp_path, slow)["no-tensor-cores"].layer == "model.layers.3.attn"


def test_kernels_of_a_replayed_graph_are_in_the_layer_that_was_captured(tmp_path):
    program = Program()
    program.builder.gpu()
    program.builder.range(1000, 5000, "nsysprof forward head (Linear)")
    create(program.builder, 2000, 1)  # program.graph replays this node
    for _ in range(8):
        begin = program.now
        program.graph(20, 400 * US, "ampere_sgemm_128x64_nn")
        program.wait()
        program.step(begin)
    analysis = analyze_trace(program.builder.write(tmp_path / "t.sqlite"))
    found = {item.code: item.layer for item in analysis.findings.items}
    assert found["no-tensor-cores"] == "head"


def test_without_layers_the_column_is_empty(tmp_path):
    assert findings(tmp_path, sleep_in(*IN_ALL), with_layers=False)["host-bound"].layer == ""
