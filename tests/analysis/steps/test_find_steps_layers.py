"""A layer is not taken for a step: a step has an embedding, a loss, an optimizer or the choice of a token."""

import pytest

from nsysprof.analysis.attribution.attribute import close_ranges
from nsysprof.analysis.steps.find_steps import find_steps
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import TraceBuilder

US = 1_000
LAYER = [
    "rms_norm",
    "gemm_qkv",
    "rotary_embedding_kernel",
    "flash_fwd",
    "gemm_out",
    "rms_norm",
    "gemm_up",
    "silu",
    "gemm_down",
]
BACKWARD = ["silu_bw", "gemm_down_bw", "gemm_up_bw", "flash_bw", "gemm_qkv_bw", "norm_bw"]


def forward(layers):
    return ["indexSelectLargeIndex", *LAYER * layers, "rms_norm", "gemm_head"]


def training(layers, micro=1):
    one = [*forward(layers), "nll_loss_forward", "nll_loss_backward", *BACKWARD * layers, "embedding_dense_backward"]
    return [*one * micro, *["FusedAdamMathFunctor"] * 3]


def steps_of(tmp_path, kernels, ranges=()):
    """Return the steps of a program that launches these kernels. ranges: name, first and last kernel of each."""
    trace, begins = TraceBuilder(), []
    trace.gpu()
    now = 1_000_000
    for number, name in enumerate(kernels):
        begins.append(now)
        trace.call(now, now + 5 * US, number + 1)
        trace.kernel(now + 20 * US, now + 50 * US, number + 1, name)
        now += 60 * US
    for name, first, last in ranges:
        trace.range(begins[first] - 10, begins[last] + 6 * US, name)
    with open_trace(trace.write(tmp_path / "t.sqlite")) as opened:
        tables = read_tables(opened)
    steps = find_steps(tables, close_ranges(tables)[0])
    return steps.count + steps.warmup if steps.are_known else 0


@pytest.mark.parametrize(
    ("kernels", "true_steps"),
    [
        (forward(32) * 10, 10), (forward(32) * 4, 4), (forward(12) * 3, 3), (forward(48) * 6, 6),
        (training(12) * 6, 6), (training(12) * 3, 3), (training(32) * 4, 4),
        # Micro-batches repeat within a step.
        (training(4, micro=4) * 5, 5), (training(12, micro=2) * 8, 8), (training(4, micro=3) * 4, 4),
        ([*forward(16), "ArgMaxOps"] * 12, 12), ([*LAYER * 16, "gemm_head", "sampling_kernel"] * 12, 12),
        # One step is none that could be told from its layers.
        (training(12), 0), (forward(32), 0), (training(24), 0),
        # Layers alone: whatever repeats is all there is.
        (LAYER * 12, 12),
    ],
)  # fmt: skip
def test_steps_of_networks_are_found_or_unknown(tmp_path, kernels, true_steps):
    """The last period has no begin of a next one, so it may be missing."""
    found = steps_of(tmp_path, kernels)
    assert found in ({true_steps, true_steps - 1} if true_steps else {0})


def test_layers_inside_a_named_pass_are_no_steps(tmp_path):
    kernels = [*["prepare", "copy", "pad"], *LAYER * 12, *BACKWARD * 12]
    ranges = [("forward pass", 3, 3 + 12 * len(LAYER) - 1), ("backward pass", 3 + 12 * len(LAYER), len(kernels) - 1)]
    assert steps_of(tmp_path, kernels, ranges) == 0
