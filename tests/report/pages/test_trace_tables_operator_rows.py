"""Operators of equal shapes in layers of one list are one row, whose shapes and layer have room at any width."""

from dataclasses import replace

import pandas as pd
import pytest

from nsysprof.report.formats.console import render_table
from nsysprof.report.pages.trace_tables import fold_operators, operator_table
from tests.builders.operator_steps import TENSOR_GEMM, Launched, analyze_steps

PAIR = "16x1024x2048,16x1024x2048"


def row(layer, ns, shapes=PAIR, floor_ns=100, operator="aten::add_"):
    return {
        "operator": operator, "shapes": shapes, "dtype": "bf16", "range": None, "layer": layer, "location": "m.py:9",
        "pass": "backward", "calls": 15, "kernel_count": 15, "kernel_total_ns": ns, "flops": 1, "least_bytes": 1,
        "floor_ns": floor_ns, "limit": "memory",
    }  # fmt: skip


# A mixture of experts: each of its four layers adds gradients of whole weights (ns).
ADDS = pd.DataFrame([
    *(row(f"moe.{layer}.experts.weights", ns) for layer, ns in enumerate((717_960, 716_663, 716_374, 714_233))),
    row("moe.0.experts.weights", 900, "4096x1024,4096x1024"),
    row(None, 500, None, pd.NA, "fill"),
])  # fmt: skip


def test_equal_operators_of_equal_shapes_are_one_row():
    folded = fold_operators(ADDS)
    assert folded["layer"].fillna("").tolist() == ["moe.[0-3].experts.weights", "moe.0.experts.weights", ""]
    assert folded["calls"].tolist() == [60, 15, 15]
    assert folded["kernel_total_ns"].tolist() == [2_865_230, 900, 500]
    assert folded["floor_ns"].fillna(-1).tolist() == [400, 100, -1]


@pytest.mark.parametrize("width", [80, 120])
def test_shapes_and_layers_always_have_room(tmp_path, width):
    analysis = analyze_steps(tmp_path, [Launched("aten::mm", TENSOR_GEMM, 100_000)])
    long = [row(f"model.decoder.layers.{n}.self_attn.projection", 9, ",".join([PAIR] * 4)) for n in (1, 2)]
    table = operator_table(replace(analysis, operators=pd.concat([ADDS, pd.DataFrame(long)])))
    text = render_table(table, width)
    assert "shapes" in text.splitlines()[3]
    assert "layer" in text.splitlines()[3]
    assert max(map(len, text.splitlines())) <= width
    assert "moe.[0-3]" in text
    assert "16x1024x20" in text
