"""A prediction: which ranges have a ratio, and what a replay makes of it."""

import pytest
from msgspec.structs import replace

from nsysprof.app.optimizing.tune_uses import gain_of, predict_gain, range_factors
from nsysprof.app.progress import SILENT
from nsysprof.attention.shape import Shape
from nsysprof.results.findings import STEP, TRACE, WhatIfAnswer
from nsysprof.results.program_runs import ShapeRatio
from tests.report.fixed_results import what_if

NAME = "attention::{}::sdpa::B=2::H=8::KV=4::Q=64::K=80::D=32::dtype=bf16::causal=1::mask=bool:b11k::at=train.py:8"
SHAPE = Shape(
    seq=64, kv_seq=80, batch=2, heads=8, kv_heads=4, head_dim=32, dtype="bf16", causal=True, mask="bool:b11k",
    layout="bshd", pass_="fwdbwd",
)  # fmt: skip
RATIO = ShapeRatio(SHAPE, 0.8, 0.7, 0.9)


def test_both_passes_of_a_tuned_shape_have_its_ratio():
    names = [NAME.format("fwd"), NAME.format("bwd"), NAME.format("fwd").replace("K=80", "K=81"), "train.py:8"]
    names.append(NAME.format("fwd").replace("causal=1", "causal=1::p=0.1"))
    assert dict(range_factors(names, [RATIO])) == dict.fromkeys(names[:2], (0.8, 0.9, 0.7))


def test_nothing_is_promised_for_a_mask_that_no_fused_backend_takes():
    """Another line calls with the same shape and a mask whose keys lie side by side."""
    strided, other = NAME.format("fwd"), NAME.format("fwd").replace("train.py:8", "train.py:9")
    assert dict(range_factors([strided, other], [RATIO], {"train.py:8"})) == {other: (0.8, 0.9, 0.7)}
    plain = strided.replace("mask=bool:b11k", "mask=none")
    ratio = ShapeRatio(replace(SHAPE, mask="none"), 0.8, 0.7, 0.9)
    assert dict(range_factors([plain], [ratio], {"train.py:8"})) == {plain: (0.8, 0.9, 0.7)}


@pytest.mark.parametrize(("per", "says"), [("train", "step"), (STEP, "step"), (TRACE, "recorded part")])
def test_a_gain_is_a_part_of_a_step(per, says):
    answer = WhatIfAnswer("the policy", 900, 880, 940)
    found = gain_of(what_if(per, (answer,), answer, replayed_ns=1000))
    assert (found.pct, found.low_pct, found.high_pct, found.per) == (10.0, 6.0, 12.0, says)


def test_what_cannot_be_replayed_has_no_prediction(tmp_path):
    assert predict_gain(tmp_path, None, [], SILENT) is None
    assert predict_gain(tmp_path, None, [RATIO], SILENT) is None  # no trace
