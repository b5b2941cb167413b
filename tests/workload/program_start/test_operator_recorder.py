"""Modules open ranges with their paths and lines, and the program computes what it computes without."""

import json

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
        recorder.shorten_trace(str(path))
        names += [node["name"] for node in json.loads(path.read_text())["operators"]]
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
