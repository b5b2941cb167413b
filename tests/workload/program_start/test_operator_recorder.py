"""Modules open ranges with their paths and lines, and the program computes what it computes without."""

import contextlib
import json
import os
import threading
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.profiler import ExecutionTraceObserver

from nsysprof.torchprof.operator_facts import read_layer
from nsysprof.workload.program_start import operator_recorder as recorder


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.GELU()), nn.Linear(4, 4)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        if x.shape[0] == 3:
            raise ValueError("three rows")
        return x


def layers_of(model, given, tmp_path):
    observer, names = ExecutionTraceObserver(), []
    path = tmp_path / "1.json"
    observer.register_callback(f"{path}.trace")
    observer.start()
    try:
        with recorder.watch_layers(torch, model):
            result = model(given)
    finally:
        observer.stop()
        observer.unregister_callback()
        names += [node["name"] for node in recorder.read_trace(f"{path}.trace")]
    return result, [read_layer(name) for name in names if name.startswith(recorder.LAYER)]


def test_each_module_has_a_range_with_its_path_and_line(tmp_path):
    model = Model()
    given = torch.randn(2, 4)
    plain = model(given)
    result, layers = layers_of(model, given, tmp_path)
    assert torch.equal(result, plain)
    assert {path for path, _ in layers} == {"layers.0", "layers.0.0", "layers.0.1", "layers.1"}
    lines = {line for _, line in layers}
    assert len(lines) == 1 and "test_operator_recorder.py:" in lines.pop()
    assert nn.Module.__call__.__qualname__.startswith("Module."), "torch's own function is back"


def test_an_exception_of_the_program_passes_and_closes_its_ranges(tmp_path):
    model = Model()
    with pytest.raises(ValueError, match="three rows"):
        layers_of(model, torch.randn(3, 4), tmp_path)
    assert nn.Module.__call__.__qualname__.startswith("Module.")


def test_tensors_without_strides_keep_their_sizes():
    side = {"values": [[1, 2, 0, 8, 4, "cuda:0"], 3], "shapes": [[2, 4], []], "types": ["Tensor(float)", "Int"],
            "strides": [[4, 1]]}  # fmt: skip
    first, second = recorder._values(side)
    assert (first["sizes"], first["strides"], second) == ([2, 4], None, 3)


class Recorded:
    """A recorder of this process with a stand-in for what of torch needs a GPU, and what it opened and closed."""

    def __init__(self, folder, monkeypatch):
        monkeypatch.setenv(recorder.FOLDER, str(folder))
        self.path, self.events, self.capturing = folder / f"{os.getpid()}.json", [], False
        test = self

        class Graph:
            def capture_begin(self, pool=None):
                if pool == "of another device":
                    raise RuntimeError("no such pool")
                test.events.append("capture")
                test.capturing = True

            def capture_end(self):
                test.capturing = False
                if test.is_broken:
                    raise RuntimeError("the capture is invalid")
                test.events.append("captured")

        @contextlib.contextmanager
        def emit_nvtx(record_shapes):
            assert record_shapes
            assert not self.capturing, "torch waits for the GPU here"
            self.events.append("operators")
            yield
            assert not self.capturing
            self.events.append("no operators")

        def range_start(text):
            self.events.append(text)
            return 7

        nvtx = SimpleNamespace(range_start=range_start, range_end=lambda number: self.events.append(f"end {number}"))
        self.is_broken = False
        self.graph = Graph
        self.torch = SimpleNamespace(
            cuda=SimpleNamespace(
                CUDAGraph=Graph, nvtx=nvtx, is_initialized=lambda: True,
                is_current_stream_capturing=lambda: self.capturing,
            ),
            autograd=SimpleNamespace(
                profiler=SimpleNamespace(emit_nvtx=emit_nvtx, record_function=torch.autograd.profiler.record_function)
            ),
            nn=torch.nn, compiler=torch.compiler, __file__=torch.__file__,
        )  # fmt: skip
        self.recorder = recorder.OperatorRecorder(self.torch)
        recorder.watch_captures(self.torch, self.recorder._before_capture, self.recorder._after_capture)

    def capture(self, model, given):
        graph = self.graph()
        graph.capture_begin()
        result = model(given)
        graph.capture_end()
        return result

    def operators(self):
        return json.loads(self.path.read_text())["operators"]


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    return Recorded(tmp_path, monkeypatch)


AROUND = ["nsysprof operators", "operators", "capture", "captured", "no operators", "end 7"]


def test_the_operators_of_a_graph_are_recorded_while_it_is_captured(recorded):
    model, given = Model(), torch.randn(2, 4)
    plain = model(given)
    assert torch.equal(recorded.capture(model, given), plain)
    assert recorded.events == AROUND
    first = recorded.operators()
    linear = next(operator for operator in first if operator["name"] == "aten::linear")
    assert linear["inputs"][0]["sizes"] == [2, 4] and linear["op_id"] > 0
    assert {read_layer(one["name"])[0] for one in first if read_layer(one["name"])} >= {"Model", "layers.0.1"}
    recorded.capture(model, torch.randn(5, 4))
    assert recorded.operators()[: len(first)] == first
    assert any(one["inputs"][:1] and one["inputs"][0]["sizes"] == [5, 4] for one in recorded.operators()[len(first) :]
               if one["name"] == "aten::linear")  # fmt: skip
    assert {one["recording"] for one in recorded.operators()[len(first) :]} == {1} != {first[0]["recording"]}
    assert recorded.events == 2 * AROUND
    assert list(recorded.path.parent.iterdir()) == [recorded.path]
    assert nn.Module.__call__.__qualname__.startswith("Module.")


def test_captures_that_fail_are_the_programs_own_and_end_the_recording(recorded):
    with pytest.raises(RuntimeError, match="no such pool"):
        recorded.graph().capture_begin(pool="of another device")
    assert recorded.events == [one for one in AROUND if "captur" not in one]
    recorded.is_broken = True
    with pytest.raises(RuntimeError, match="the capture is invalid"):
        recorded.capture(Model(), torch.randn(2, 4))
    assert recorded.events[-2:] == ["no operators", "end 7"]
    recorded.is_broken = False
    recorded.events.clear()
    recorded.capture(Model(), torch.randn(2, 4))
    assert recorded.events == AROUND


def test_a_fault_of_the_recorder_lets_the_program_capture(recorded, capsys):
    recorded.torch.cuda.nvtx.range_start = None
    model, given = Model(), torch.randn(2, 4)
    assert torch.equal(recorded.capture(model, given), model(given))
    assert recorded.events == ["capture", "captured"] and not recorded.path.exists()
    assert "nsysprof: operators of CUDA graphs are not recorded: TypeError" in capsys.readouterr().err
    recorded.capture(model, given)
    assert capsys.readouterr().err == "", "it is said once"


def test_nothing_waits_for_the_gpu_while_another_thread_captures(recorded):
    """The second thread begins while the first captures, and ends after it: only the first is recorded, until then."""
    graph = recorded.graph()
    graph.capture_begin()
    other = threading.Thread(target=recorded.recorder._before_capture)
    other.start()
    other.join()
    graph.capture_end()
    assert "no operators" not in recorded.events
    other = threading.Thread(target=recorded.recorder._after_capture)
    other.start()
    other.join()
    recorded.recorder.close()
    assert recorded.events[-2:] == ["no operators", "end 7"]


def test_steps_are_recorded_after_captures_and_not_while_one_goes_on(recorded, monkeypatch):
    monkeypatch.setattr(recorded.recorder._calls, "end", lambda: recorded.events.append("no more steps"))
    go_on = recorded.recorder._go_on
    for step in range(1, 5):
        go_on(step)
    recorded.capture(lambda given: go_on(5) or given, torch.ones(1))
    assert recorded.events == AROUND
    for step in range(6, 14):
        go_on(step)
        torch.ones(3) + 1
    assert recorded.events == [*AROUND, "nsysprof operators", "operators", "no operators", "end 7", "no more steps"]
    assert [one["name"] for one in recorded.operators()].count("aten::add") == 1
    recorded.capture(lambda given: given + 1, torch.ones(2))
    assert recorded.events[-6:] == AROUND
    assert [one["name"] for one in recorded.operators()].count("aten::add") == 2


def test_a_graph_captured_in_a_recorded_step_needs_nothing_more(recorded):
    for step in range(1, 7):
        recorded.recorder._go_on(step)
    assert recorded.events == ["nsysprof operators", "operators"]
    recorded.capture(Model(), torch.randn(2, 4))
    assert recorded.events == ["nsysprof operators", "operators", "capture", "captured"]
    recorded.recorder.close()


@pytest.fixture
def optimizers(recorded, monkeypatch):
    """Let the recorder watch torch's optimizers, and put back what it replaced."""
    for name in ("__init__", "zero_grad"):
        monkeypatch.setattr(torch.optim.Optimizer, name, getattr(torch.optim.Optimizer, name))
    recorded.torch.optim = torch.optim
    recorded.recorder._watch_optimizers()
    return torch.optim


def test_a_program_without_modules_is_recorded_by_its_optimizer(recorded, optimizers):
    weight = torch.ones(3, requires_grad=True)
    optimizer = optimizers.SGD([weight], lr=0.5)
    for _ in range(12):
        optimizer.zero_grad()
        (weight * weight).sum().backward()
        optimizer.step()
        recorded.recorder._count()
    assert torch.equal(weight, torch.zeros(3)), "a step of 0.5 along 2 w"
    assert recorded.events == ["nsysprof operators", "operators", "no operators", "end 7"]
    assert [one["name"] for one in recorded.operators()].count("aten::mul") >= 1


@pytest.mark.parametrize("steps", [12, 0])
def test_many_calls_of_a_module_are_one_step_of_the_optimizer(recorded, optimizers, steps):
    """Ten cells, or micro-batches, a step; an optimizer that takes no step in a thousand calls is not waited for."""
    recorder = recorded.recorder
    optimizers.SGD([torch.ones(3, requires_grad=True)], lr=0.5)
    calls, begun = 0, []
    for _ in range(steps or 120):
        for _ in range(10):
            calls += 1
            was_open = len(recorded.events)
            recorder._go_on(calls)
            begun += [calls] if len(recorded.events) > was_open else []
        if steps:
            recorder._count()
    assert begun == ([51, 81] if steps else [1000, 1003])
