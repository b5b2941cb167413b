"""Copies that tensors show to be redundant: casts of weights in each step, and copies that only attention reads."""

import pytest

from tests.builders.operator_steps import ATTENTION, CAST, ELEMENTWISE, TENSOR_GEMM, Launched, analyze_steps, tensor

HALF = "c10::BFloat16"
SIZES = (4096, 4096)
CAST_BYTES = 6 * 4096 * 4096


def finding(analysis):
    return next((item for item in analysis.findings.items if item.code == "redundant-copy"), None)


def cast(source, result, sizes=SIZES, *, way=(), duration_ns=30_000):
    sides = [tensor(sizes, result, HALF), tensor(sizes, source)]
    return Launched("aten::copy_", CAST, duration_ns, sides, sides[:1], (*way, "aten::to", "aten::_to_copy"), "m.py:9")


def linear(weight, sizes=SIZES, duration_ns=300_000):
    data = [tensor((8192, 4096), 50, HALF), tensor(sizes, weight, HALF, (1, sizes[0]))]
    return Launched("aten::mm", TENSOR_GEMM, duration_ns, data, [tensor((8192, 4096), 60, HALF)])


def step_of_optimizer(*storages):
    lists = [[tensor(SIZES, storage) for storage in storages], [tensor(SIZES, 90 + storage) for storage in storages]]
    return Launched("aten::_fused_sgd_", ELEMENTWISE, 40_000, lists, (), ("Optimizer.step#SGD.step",))


def test_weights_that_are_cast_in_each_step_of_inference_save_all_of_it(tmp_path):
    item = finding(analyze_steps(tmp_path, [cast(1, 2), linear(2), cast(3, 4), linear(4)]))
    assert item.saving_ns == pytest.approx(60_000, abs=5_000)
    assert item.text.startswith("2 kernels cast weights of products from 32 to 16 bit in every step: 60.0 us")
    assert f"at least {2 * CAST_BYTES / 2**20:.0f}" in item.text
    assert (item.location, item.next_step[:20]) == ("m.py:9", "Cast the model once,")


def test_the_text_says_what_issuing_takes_where_that_is_most_of_it(tmp_path):
    """A copy of 2 us was said to save 100 us, without a reason."""
    quick = finding(analyze_steps(tmp_path, [linear(9), cast(1, 2), linear(2)]))
    assert "Issuing" not in quick.text
    (tmp_path / "slow").mkdir()
    operators = [linear(9, duration_ns=9_000), cast(1, 2, duration_ns=2_000), linear(2, duration_ns=9_000)]
    item = finding(analyze_steps(tmp_path / "slow", operators, host_ns=90_000))
    assert " Issuing the 1 launch that is left out takes the host 90.0 us." in item.text


def test_a_training_saves_a_part_since_its_optimizer_writes_two_copies(tmp_path):
    back = Launched(
        "aten::copy_", CAST, 30_000, [tensor(SIZES, 95), tensor(SIZES, 96, HALF)], [tensor(SIZES, 95)],
        ("autograd::engine::evaluate_function: ToCopyBackward0", "aten::to"),
    )  # fmt: skip
    item = finding(analyze_steps(tmp_path, [cast(1, 2), linear(2), back, step_of_optimizer(1)]))
    assert item.saving_ns == pytest.approx(60_000 * 2 / 3, abs=5_000)
    assert item.saving_low_ns == pytest.approx(60_000 / 3, abs=5_000)
    assert (
        "1 kernel casts weights of products from 32 to 16 bit in every step, and 1 casts their gradients back"
        in item.text
    )
    assert item.next_step.startswith("Keep the weights in 16 bit")


@pytest.mark.parametrize(
    "operators",
    [
        # Data, not a weight: an operator of this step wrote it.
        [Launched("aten::mul", ELEMENTWISE, 9_000, [tensor((4,), 8)], [tensor(SIZES, 1)]), cast(1, 2), linear(2)],
        # The weight of no product.
        [cast(1, 2), linear(7)],
        # Not what the optimizer trains.
        [cast(1, 2), linear(2), step_of_optimizer(5)],
        # Another tensor has its memory by the time of the product.
        [cast(1, 2), Launched("aten::mul", ELEMENTWISE, 9_000, [tensor((4,), 8)], [tensor(SIZES, 2, HALF)]), linear(2)],
        # A bias.
        [cast(1, 2, (4096,)), linear(2)],
    ],
)
def test_other_casts_are_no_finding(tmp_path, operators):
    assert finding(analyze_steps(tmp_path, operators)) is None


def test_without_tensors_there_is_none(tmp_path):
    assert finding(analyze_steps(tmp_path, [cast(1, 2), linear(2)], has_facts=False)) is None


HEADS = (8, 16, 1024, 64)
STRIDED, DENSE = (1024 * 1024, 64, 1024, 1), (1024 * 1024, 65536, 64, 1)


def contiguous(strides=STRIDED, around=("aten::contiguous", "aten::clone")):
    sides = [tensor(HEADS, 2, HALF, DENSE), tensor(HEADS, 1, HALF, strides)]
    return Launched("aten::copy_", ELEMENTWISE, 50_000, sides, sides[:1], around, "a.py:3")


def attention(storage=2, sizes=HEADS):
    given = [tensor(sizes, storage, HALF, DENSE), tensor(HEADS, 6, HALF), tensor(HEADS, 7, HALF)]
    return Launched("aten::_flash_attention_forward", ATTENTION, 300_000, given, [tensor(HEADS, 9, HALF)])


def test_copies_that_only_attention_reads_are_needless(tmp_path):
    item = finding(analyze_steps(tmp_path, [contiguous(), attention()]))
    assert item.saving_ns == pytest.approx(50_000, abs=5_000)
    assert "reads 1 copy by contiguous() or clone(): 50.0 us, in which at least 32 MiB are moved" in item.text
    assert item.location == "a.py:3"


@pytest.mark.parametrize(
    "operators",
    [
        # Its last dimension has no stride 1, so attention cannot read the original.
        [contiguous((1024 * 1024, 64, 1024, 2)), attention()],
        # A reshaped copy.
        [contiguous(), attention(sizes=(8, 16 * 1024, 64))],
        # A product reads it as well.
        [contiguous(), attention(),
         Launched("aten::bmm", TENSOR_GEMM, 300_000, [tensor(HEADS, 2, HALF)], [tensor((4,), 3)])],
        # The original changes before attention reads the copy.
        [contiguous(), Launched("aten::mul_", ELEMENTWISE, 9_000, [tensor(HEADS, 1, HALF)], [tensor(HEADS, 1, HALF)]),
         attention()],
        # No call of contiguous or clone.
        [contiguous(around=("aten::index_put_",)), attention()],
    ],
)  # fmt: skip
def test_copies_that_something_needs_are_no_finding(tmp_path, operators):
    assert finding(analyze_steps(tmp_path, operators)) is None


NCHW, NHWC = (8, 64, 32, 32), (8, 32, 32, 64)
OF_NCHW, OF_NHWC = (65536, 1024, 32, 1), (65536, 2048, 64, 1)


def copied(source, result, kind="aten::clone"):
    return Launched("aten::copy_", ELEMENTWISE, 50_000, [result, source], [result], (kind,), "a.py:3")


def there_and_back(*behind, last=OF_NCHW):
    """Return a copy into NHWC, one back from there, and a convolution that reads this one."""
    there = tensor(NHWC, 2, HALF, OF_NHWC)
    back = tensor(NCHW, 3, HALF, last)
    return [
        copied(tensor(NHWC, 1, HALF, (65536, 32, 1, 1024)), there),
        copied(tensor(NCHW, 2, HALF, (65536, 1, 2048, 64)), back),
        *behind,
        Launched("aten::cudnn_convolution", TENSOR_GEMM, 900_000, [back, tensor((4,), 8)], [tensor((4,), 9)]),
    ]


READS_BETWEEN = Launched("aten::bmm", TENSOR_GEMM, 900_000, [tensor(NHWC, 2, HALF)], [tensor((4,), 10)])
CHANGES_FIRST = Launched("aten::mul_", ELEMENTWISE, 900_000, [tensor(NCHW, 1, HALF)], [tensor(NCHW, 1, HALF)])


@pytest.mark.parametrize(
    ("operators", "saved_ns"),
    [
        (there_and_back(), 100_000),
        (there_and_back(last=OF_NHWC), 50_000),  # another layout than the first one: one copy would do
        (there_and_back(CHANGES_FIRST), 50_000),  # what was copied first has changed when the result is read
        (there_and_back(READS_BETWEEN), 0),
    ],
)
def test_a_copy_of_a_copy_is_redundant(tmp_path, operators, saved_ns):
    item = finding(analyze_steps(tmp_path, operators))
    assert (0 if item is None else item.saving_ns) == pytest.approx(saved_ns, abs=5_000)


WHOLE, EXPERTS = (16, 1024, 2048), 16


def part(number, kind="Select"):
    """Return what autograd launches for the gradient of one part: zeros, and what adds them to those before."""
    node = f"autograd::engine::evaluate_function: {kind}Backward0"
    zeros = tensor(WHOLE, 100 + number, HALF)
    name = f"aten::{kind.lower()}_backward"
    # As on an H200: a mixture of experts takes w[e] of 64 MiB in a loop.
    launched = [
        Launched("aten::mm", TENSOR_GEMM, 20_000),
        Launched("aten::fill_", ELEMENTWISE, 20_700, [zeros], [zeros], (node, name, "aten::zeros", "aten::zero_")),
    ]
    if number:
        sides = [tensor(WHOLE, 100, HALF), zeros]
        launched.append(Launched("aten::add_", ELEMENTWISE, 47_700, sides, sides[:1], (node,)))
    return launched


@pytest.mark.parametrize("kind", ["Select", "Slice"])
def test_gradients_of_parts_in_whole_tensors_are_redundant(tmp_path, kind):
    operators = [one for number in range(EXPERTS) for one in part(number, kind)]
    item = finding(analyze_steps(tmp_path, operators))
    assert item.saving_ns == pytest.approx(15 * 68_400, rel=0.05)
    assert item.text.startswith("Parts of 1 tensor are taken one by one, as by w[i] in a loop.")
    assert "30 kernels and copies more than one pass needs, 1.03 ms." in item.text
    assert "w.unbind(0)" in item.next_step


def test_one_part_and_other_sums_are_no_finding(tmp_path):
    one = part(0)
    other = Launched("aten::add_", ELEMENTWISE, 47_700, [tensor(WHOLE, 1, HALF), tensor(WHOLE, 2, HALF)])
    assert finding(analyze_steps(tmp_path, [*one, other, Launched("aten::mm", TENSOR_GEMM, 20_000)])) is None
