"""The saving of a program is what it spends on a shape times what the measurement says of the shape."""

import pandas as pd
import pytest

from nsysprof.analysis.attention_tuning.choose_shapes import choose_shapes
from nsysprof.analysis.attention_tuning.program_gain import compute_gain
from nsysprof.app.tune import ProgramShapes
from nsysprof.attention.shape import make_case, row_of_case
from nsysprof.results.program_runs import CapturedAttention, CapturedUse
from tests.analysis.attention_tuning.test_choose_shapes import ROW


def program(*rows, steps=None):
    captured = CapturedAttention(tuple(CapturedUse({**ROW, **row}) for row in rows), "GPU", steps)
    return ProgramShapes(captured, choose_shapes(captured.uses))


def measured(shape, **medians):
    rows = []
    for backend, (median, low, high) in medians.items():
        row = row_of_case(make_case(backend, shape))
        rows.append({**row, "median_ns": median, "low_ns": low, "high_ns": high})
    return rows


def test_a_winner_saves_its_share_with_bounds():
    shapes = program({"kernel_total_ns": 8000, "share_pct": 8.0}, {"seq_q": 64, "kernel_total_ns": 2000}, steps=4)
    one, two = (use.shape for use in shapes.chosen.chosen)
    table = pd.DataFrame(measured(one, auto=(100, 98, 102), cudnn=(80, 79, 81)) + measured(two, auto=(10, 9, 11)))
    gain = compute_gain(shapes.captured, shapes.chosen, {one: "cudnn", two: "auto"}, table)
    assert (gain.per, gain.baseline_ns, gain.saved_ns) == ("step", 2500, pytest.approx(400))
    assert gain.saved_low_ns == pytest.approx(2000 * (1 - 81 / 98))
    assert gain.saved_high_ns == pytest.approx(2000 * (1 - 79 / 102))
    assert gain.saved_pct == pytest.approx(1.6)
    assert (gain.faster_shapes, gain.shapes) == (1, 2)
    assert "1 of the 2 tuned shapes" in gain.text


def test_nothing_is_gained_or_nothing_is_known():
    shapes = program({"share_pct": 10.0})
    (shape,) = (use.shape for use in shapes.chosen.chosen)
    table = pd.DataFrame(measured(shape, auto=(100, 98, 102), flash=(80, 79, 81)))
    gain = compute_gain(shapes.captured, shapes.chosen, {shape: "auto"}, table)
    assert gain.text.startswith("The program gains nothing from another backend")
    assert gain.saved_ns == 0
    shapes = program({"kernel_total_ns": None, "share_pct": None})
    gain = compute_gain(shapes.captured, shapes.chosen, {shape: "auto"}, table, undecided=1)
    assert gain.text.startswith("No backend was shown to be faster; 1 of 1 measured shape needs a longer --budget.")
    gain = compute_gain(shapes.captured, shapes.chosen, {shape: "auto"}, table, undecided=1, search_ended=True)
    assert gain.text.startswith("No backend was shown to be faster; 1 of 1 measured shape needs more samples")
    gain = compute_gain(shapes.captured, shapes.chosen, {}, table, 0, {shape: "out of memory: 20 GiB"})
    assert gain.text == "None of the program's attention could be measured."
    assert gain.refused == ("10 calls are left to torch: out of memory: 20 GiB",)
    gain = compute_gain(shapes.captured, shapes.chosen, {shape: "flash"}, table)
    assert (gain.saved_ns, gain.saved_pct, gain.faster_shapes) == (None, None, 1)
    assert "unknown, because the capture has no kernels" in gain.text


def test_a_faster_backend_that_was_not_chosen_saves_nothing():
    shapes = program(*({"seq_q": 1, "seq_kv": 100 + step, "mask": "none"} for step in range(10)))
    last, first = (use.shape for use in shapes.chosen.chosen)
    table = pd.DataFrame(measured(last, auto=(10, 9, 11), flash=(5, 4, 6)) + measured(first, auto=(10, 9, 11)))
    assert compute_gain(shapes.captured, shapes.chosen, {last: "flash", first: "auto"}, table).faster_shapes == 0
