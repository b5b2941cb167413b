"""The flame graph of layers holds all their time, and speedscope can read it."""

import json

import pandas as pd
import pytest

from nsysprof.app.analyze import analyze_trace
from nsysprof.report.formats.data_formats import SCHEMA, layers_flame_graph


def read(layers):
    content = json.loads(layers_flame_graph(layers))
    assert content["$schema"] == SCHEMA
    frames = [frame["name"] for frame in content["shared"]["frames"]]
    for profile in content["profiles"]:
        assert profile["type"] == "sampled" and len(profile["samples"]) == len(profile["weights"])
        assert profile["endValue"] == sum(profile["weights"])
        assert all(0 <= frame < len(frames) for sample in profile["samples"] for frame in sample)
    return frames, {profile["name"]: profile for profile in content["profiles"]}


def test_all_kernel_time_of_a_trace_is_in_the_flame_graph(trace_path):
    layers = analyze_trace(trace_path("h200-layers/graph_layers")).layers
    frames, profiles = read(layers)
    assert profiles["time of kernels"]["endValue"] == layers["kernel_total_ns"].sum()
    assert profiles["time of the host"]["endValue"] == layers["wall_ns"].sum()
    assert "FLOP" not in profiles, "they are unknown"
    assert {"forward", "backward", "Sequential", "(no module)"} <= set(frames)


@pytest.mark.parametrize(("layer", "stack"), [
    ("model.layers.7.mlp.0", ["forward", "model", "layers.7", "mlp.0"]),
    ("0.norm", ["forward", "0", "norm"]),
    ("a.1.2", ["forward", "a.1.2"]),
    ("2d.x", ["forward", "2d", "x"]),
    (None, ["forward", "(no module)"]),
    ('</script>"\\', ["forward", '</script>"\\']),
])  # fmt: skip
def test_a_number_belongs_to_the_list_before_it(layer, stack):
    row = {"layer": layer, "pass": "forward", "kernel_total_ns": 5, "wall_ns": 0, "flops": 7}
    frames, profiles = read(pd.DataFrame([row]))
    assert [frames[at] for at in profiles["FLOP"]["samples"][0]] == stack
    assert profiles["time of the host"]["samples"] == []
