"""Findings name the operators behind kernels, and save no more than the floors of these leave."""

from dataclasses import replace

import pytest
from msgspec import convert, structs

from nsysprof.analysis.busy_time.operators import OperatorCall
from nsysprof.analysis.findings.from_operators.operator_evidence import (
    TensorUses,
    bytes_of_run,
    fused_operator,
    misaligned_sizes,
)
from nsysprof.torchprof.operator_facts import OperatorFacts, Tensor
from tests.builders.operator_steps import (
    ALIGN1,
    ELEMENTWISE,
    REDUCTION,
    SGEMM,
    TENSOR_GEMM,
    Launched,
    analyze_steps,
    tensor,
)

TF32, BF16, BYTES = 494.7e12, 989.4e12, 4.8e12


def finding(analysis, code):
    return next((item for item in analysis.findings.items if item.code == code), None)


def product(kernel, duration_ns, rows, inner, columns, kind="float", place=""):
    sides = [tensor((rows, inner), 11, kind), tensor((inner, columns), 12, kind, (1, inner))]
    return Launched("aten::mm", kernel, duration_ns, sides, [tensor((rows, columns), 13, kind)], place=place)


OTHER = Launched("aten::bmm", TENSOR_GEMM, 400_000, [tensor((64, 64), 21)], [tensor((64, 64), 22)])


def test_a_product_without_tensor_cores_saves_what_tf32_leaves(tmp_path):
    floor_ns = 2e9 * 4096**3 / TF32
    steps = [product(SGEMM, 2_700_000, 4096, 4096, 4096, place="model.py:7"), OTHER]
    item = finding(analyze_steps(tmp_path, steps), "no-tensor-cores")
    # By the ratio of the rates, which is longer than 1.35 times the floor: TF32 reaches less of its rate than bf16.
    assert item.saving_ns == pytest.approx(2_700_000 * (1 - 1.2 * 67 / 494.5), rel=0.01)
    assert item.saving_ns < 2_700_000 - 1.35 * floor_ns
    # The upper bound is a product in bf16.
    assert item.saving_high_ns == pytest.approx(2_700_000 - 1.15 * floor_ns / 2, rel=0.01)
    assert "aten::mm (4096x4096,4096x4096) at model.py:7 takes most: 2.70 ms" in item.text
    assert item.location == "model.py:7"
    assert "torch.set_float32_matmul_precision" in item.next_step


def test_a_product_that_memory_limits_is_not_promised_the_ratio_of_the_rates(tmp_path):
    """One row by a large matrix takes what reading the matrix takes: TF32 saves next to nothing."""
    least = 1e9 * 4 * (16384 * 16384 + 2 * 16384) / BYTES
    steps = [product(SGEMM, int(1.3 * least), 1, 16384, 16384), OTHER]
    assert finding(analyze_steps(tmp_path, steps), "no-tensor-cores") is None
    by_names = finding(analyze_steps(tmp_path, steps, has_facts=False), "no-tensor-cores")
    assert by_names.saving_ns > 0.8 * 1.3 * least and "aten::" not in by_names.text


def test_the_misaligned_size_is_named_with_what_to_pad_it_to(tmp_path):
    steps = [product(ALIGN1, 8_000_000, 8192, 1024, 50257, "c10::BFloat16", "head.py:3"), OTHER]
    item = finding(analyze_steps(tmp_path, steps), "misaligned-gemm")
    floor_ns = 2e9 * 8192 * 1024 * 50257 / BF16
    assert item.saving_ns == pytest.approx(8_000_000 - 1.35 * floor_ns, rel=0.01)
    assert "Rows of 50,257 elements are no multiple of 16 bytes." in item.text
    assert "aten::mm (8192x1024,1024x50257) at head.py:3" in item.text
    assert item.next_step == "Pad 50,257 to 50,304 (a multiple of 64), and ignore the added rows and columns."
    by_names = finding(analyze_steps(tmp_path, steps, has_facts=False), "misaligned-gemm")
    assert by_names.saving_ns == pytest.approx(0.8 * 8_000_000, rel=0.01)


def call(name, inputs, outputs=(), op_id=1, way="forward"):
    return OperatorCall(1, name, op_id, "", "", way, (), OperatorFacts(op_id, name, tuple(inputs), tuple(outputs)))


@pytest.mark.parametrize(
    ("sizes", "strides", "kind", "found"),
    [
        ((8192, 50257), (50257, 1), "c10::BFloat16", {50257: 50304}),
        ((8192, 50257), None, "c10::BFloat16", {50257: 50304}),
        ((50257, 1024), (1024, 1), "c10::BFloat16", {}),  # its rows begin at multiples of 2048 bytes
        ((1024, 50257), (1, 1024), "c10::BFloat16", {}),  # the same, transposed
        ((8192, 50260), (50260, 1), "float", {}),  # 50,260 floats are a multiple of 16 bytes
        ((8192, 50260), (50260, 1), "c10::Half", {50260: 50304}),
        ((64, 100), (1001, 1), "c10::Half", {}),  # a part of longer rows, whose size is not known
        ((8192, 50257), (50257, 1), "of some library", {}),
    ],
)
def test_a_size_is_misaligned_by_the_bytes_of_its_rows(sizes, strides, kind, found):
    assert misaligned_sizes(call("aten::mm", [tensor(sizes, 1, kind, strides)])) == found


def rms_norm(elements=(8192, 1024)):
    """Return an RMSNorm in five pieces, and a product that reads its result."""
    few = (elements[0], 1)
    x, square, mean, root, scaled, result = (
        tensor(size, number) for number, size in enumerate((elements, elements, few, few, elements, elements), start=1)
    )
    weight = tensor(elements[1:], 7)
    return [
        OTHER,
        Launched("aten::pow", ELEMENTWISE, 20_000, [x, 2], [square]),
        Launched("aten::mean", REDUCTION, 20_000, [square], [mean]),
        Launched("aten::rsqrt", ELEMENTWISE, 15_000, [mean], [root]),
        Launched("aten::mul", ELEMENTWISE, 20_000, [x, root], [scaled]),
        Launched("aten::mul", ELEMENTWISE, 20_000, [scaled, weight], [result]),
        Launched("aten::mm", TENSOR_GEMM, 50_000, [result, tensor((1024, 1024), 8)], [tensor(elements, 9)]),
        # New tensors in the memory of the pieces.
        Launched("aten::bmm", TENSOR_GEMM, 50_000, [result], [tensor(elements, 2), tensor(few, 4)]),
        Launched("aten::bmm", TENSOR_GEMM, 50_000, [result], [tensor(few, 3), tensor(elements, 5)]),
    ]


def test_a_fused_run_moves_its_inputs_and_results_once(tmp_path):
    item = finding(analyze_steps(tmp_path, rms_norm()), "unfused-elementwise")
    whole = 4 * 8192 * 1024
    # x in, result out, one weight; each piece by itself: x, square; square; x, scaled; scaled, result; and small ones.
    assert "move at least 224 MiB; fused it would be about 64.0 MiB" in item.text
    assert "Their operators look like those of torch.nn.functional.rms_norm." in item.text
    assert item.saving_ns == pytest.approx(95_000 - 1.5e9 * (2 * whole + 4096) / BYTES + 4 * 1_000, rel=0.1)
    by_names = finding(analyze_steps(tmp_path, rms_norm(), has_facts=False), "unfused-elementwise")
    assert "move at least" not in by_names.text and "look like" not in by_names.text


def test_what_is_read_behind_a_run_is_written_by_the_fused_kernel_too():
    x, one, two = (tensor((1000,), number) for number in (1, 2, 3))
    calls = [
        call("aten::mul", [x, x], [one], 10),
        call("aten::add", [one, x], [two], 20),
        call("aten::mm", [one], [tensor((10,), 4)], 30),
        call("aten::mm", [two], [tensor((1000,), 2)], 40, "backward"),
    ]
    run = bytes_of_run(calls, (0, 1), TensorUses(calls))
    assert (run.moved, run.fused, run.kept) == (5 * 4000, 3 * 4000, 3 * 4000)
    # Only the backward pass reads it: a fused operator may keep less, or compute it again.
    calls[2] = call("aten::mm", [one], [tensor((10,), 4)], 30, "backward")
    run = bytes_of_run(calls, (0, 1), TensorUses(calls))
    assert (run.fused, run.kept) == (2 * 4000, 3 * 4000)
    # Nobody reads it before another tensor has its memory.
    calls[2] = call("aten::mm", [two], [tensor((1000,), 2)], 30, "forward")
    assert bytes_of_run(calls, (0, 1), TensorUses(calls)).kept == 2 * 4000


def test_tensors_of_one_recording_are_not_those_of_another():
    """Torch numbers tensors anew each time; a graph is captured in a recording of its own."""
    x, one = tensor((1000,), 1), tensor((1000,), 2)
    calls = [call("aten::mul", [x, x], [one], 10), call("aten::add", [one, one], [tensor((1000,), 3)], 20)]
    assert TensorUses(calls).readers(0, convert(one, Tensor)) == [1, 1]
    assert bytes_of_run(calls, (0, 1), TensorUses(calls)).fused == 2 * 4000
    calls[1] = replace(calls[1], facts=structs.replace(calls[1].facts, recording=1))
    assert TensorUses(calls).readers(0, convert(one, Tensor)) == []
    assert bytes_of_run(calls, (0, 1), TensorUses(calls)) is None


def test_a_run_with_an_unknown_operator_is_unknown():
    x = tensor((1000,), 1)
    calls = [call("aten::mul", [x, x], [tensor((1000,), 2)]), OperatorCall(1, "mine", 2, "", "", "forward")]
    assert bytes_of_run(calls, (0, 1), TensorUses(calls)) is None
    calls[1] = call("mine", [x], [tensor((1000,), 3, "of some library")], 2)
    assert bytes_of_run(calls, (0, 1), TensorUses(calls)) is None


@pytest.mark.parametrize(
    ("names", "fused"),
    [
        (["aten::pow", "aten::mean", "aten::add", "aten::rsqrt", "aten::mul"], "torch.nn.functional.rms_norm"),
        (["aten::mean", "aten::sub", "aten::pow", "aten::rsqrt", "aten::mul"], "torch.nn.functional.layer_norm"),
        (["aten::pow", "aten::mul", "aten::add_", "aten::tanh", "aten::mul"], "gelu"),
        (["aten::silu", "aten::mul"], "SwiGLU"),
        (["aten::neg", "aten::cat", "aten::mul", "aten::add"], "rotary"),
        (["aten::amax", "aten::sub", "aten::exp_", "aten::sum", "aten::log", "aten::add"], "cross_entropy"),
        (["aten::amax", "aten::sub", "aten::exp", "aten::sum", "aten::div"], "torch.softmax"),
        (["aten::exp", "aten::div", "aten::exp", "aten::pow", "aten::sum"], ""),
        (["aten::mul", "aten::add", "aten::mul"], ""),
        (["aten::pow", "aten::sum"], ""),
    ],
)
def test_the_fused_operator_is_named_by_its_pieces(names, fused):
    assert fused in fused_operator(names)
    assert bool(fused_operator(names)) == bool(fused)


def small(elements):
    sides = [tensor((elements,), 1)], [tensor((elements,), 2)]
    return [Launched("aten::mul", ELEMENTWISE, 3_000, *sides) for _ in range(40)]


@pytest.mark.parametrize(("elements", "is_named"), [(4096, True), (1_000_000, False)])
def test_small_work_takes_more_than_twice_its_least_time(tmp_path, elements, is_named):
    """Kernels of a million elements are short, but not too small: memory limits them."""
    item = finding(analyze_steps(tmp_path, small(elements), is_replayed=True), "small-work")
    assert (item is not None) == is_named
    if item is not None:
        assert "Those whose operators are known take 120 us" in item.text
        assert "at the least time of these operators " in item.text


def products_of_one_token(sources, ways=()):
    """Return short products, each of the tensor with the number given, and pauses that make them small work."""
    return [
        Launched(
            "aten::mm", TENSOR_GEMM, 7_000, [tensor((4, 256), source), tensor((256, 256), 40 + number)],
            [tensor((4, 256), 60 + number)], ways,
        )
        for number, source in enumerate(sources)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sources", "ways", "gone"),
    [
        ((1, 1, 1, 2), (), 2),  # q, k and v of one tensor, and another product
        ((1, 2, 1, 2), (), 0),  # a product lies between
        ((1, 1, 1, 2), ("autograd::engine::evaluate_function: MmBackward0",), 0),  # gradients of weights and inputs
    ],
)
def test_products_of_the_same_tensor_could_be_one(tmp_path, sources, ways, gone):
    item = finding(analyze_steps(tmp_path, products_of_one_token(sources, ways), is_replayed=True), "small-work")
    assert (f"{gone} kernels of products read the same tensor" in item.text) == (gone > 0)
    assert ("Compute products of the same tensor as one" in item.next_step) == (gone > 0)
    assert (item.saving_low_ns >= gone * 7_000) and (item.saving_low_ns < 7_000 * (gone + 1))


def test_a_fused_kernel_takes_some_time_however_few_bytes_it_moves(tmp_path):
    """A norm of 4 rows moves bytes for 10 ns, and a kernel takes no less than two microseconds."""
    steps = [replace(one, duration_ns=min(one.duration_ns, 2_000)) for one in rms_norm((4, 1024))]
    steps[0] = replace(steps[0], duration_ns=40_000)
    item = finding(analyze_steps(tmp_path, steps, is_replayed=True), "unfused-elementwise")
    # Five kernels of two microseconds, and the pauses between them, become one of 1.15 times as much.
    assert item.saving_ns == pytest.approx(5 * 2_000 - 1.15 * 2_000 + 4 * 1_000, abs=50)
