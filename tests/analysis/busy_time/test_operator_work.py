"""FLOP of operators are those that torch's own counter has, and bytes are those of the tensors."""

import pytest
import torch
import torch.nn.functional as F
from msgspec import convert
from torch.profiler import ExecutionTraceObserver
from torch.utils.flop_counter import FlopCounterMode

from nsysprof.analysis.busy_time.operator_work import floor_ns, work_of
from nsysprof.results.roof import find_peak
from nsysprof.torchprof.operator_facts import OperatorFacts
from nsysprof.workload.program_start import operator_recorder
from tests.builders.operator_steps import tensor

PARTS = {
    "linear": lambda: F.linear(torch.randn(4, 32, 64), torch.randn(48, 64), torch.randn(48)),
    "products": lambda: torch.bmm(torch.randn(3, 8, 16), torch.randn(3, 16, 5)) @ torch.randn(5, 7),
    "baddbmm": lambda: torch.baddbmm(torch.randn(3, 8, 5), torch.randn(3, 8, 16), torch.randn(3, 16, 5)),
    "convolution": lambda: F.conv2d(torch.randn(2, 8, 20, 20), torch.randn(16, 4, 3, 3), stride=2, padding=1, groups=2),
    "transposed": lambda: F.conv_transpose2d(torch.randn(2, 8, 10, 10), torch.randn(8, 6, 2, 2), stride=2),
}


def recorded(action, tmp_path):
    """Return the facts of the operators that an action calls, as the recorder writes them."""
    path = str(tmp_path / "1.json")
    observer = ExecutionTraceObserver()
    observer.register_callback(f"{path}.trace")
    observer.start()
    action()
    observer.stop()
    observer.unregister_callback()
    return [convert(operator, OperatorFacts) for operator in operator_recorder.read_trace(f"{path}.trace")]


def leaves(operators):
    """Return the innermost operators that have a product: those of a higher level call them."""
    names = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::mkldnn_convolution", "aten::_convolution",
             "aten::convolution_backward"}  # fmt: skip
    return [operator for operator in operators if operator.name in names]


@pytest.mark.parametrize("name", PARTS)
def test_flop_are_those_of_torchs_own_counter(name, tmp_path):
    with FlopCounterMode(display=False) as counter:
        PARTS[name]()
    works = [work_of(operator) for operator in leaves(recorded(PARTS[name], tmp_path)) if "mkldnn" not in operator.name]
    assert sum(work.flops for work in works) == counter.get_total_flops() > 0
    assert all(work.is_product for work in works)


def test_gradients_of_a_convolution_are_counted_as_torch_does(tmp_path):
    given = torch.randn(2, 8, 20, 20, requires_grad=True)
    weight = torch.randn(16, 8, 3, 3, requires_grad=True)

    def train():
        F.conv2d(given, weight, padding=1).sum().backward()

    with FlopCounterMode(display=False) as counter:
        train()
    operators = [operator for operator in leaves(recorded(train, tmp_path)) if "mkldnn" not in operator.name]
    assert sum(work_of(operator).flops for operator in operators) == counter.get_total_flops()


def attention(name, *extra):
    q, k = ({"sizes": [2, 8, length, 64], "type": "c10::BFloat16", "tensor": t, "storage": t, "strides": None}
            for t, length in ((1, 128), (2, 256)))  # fmt: skip
    return OperatorFacts(1, name, (q, k, {**k, "tensor": 3, "storage": 3}, *extra), ({**q, "tensor": 4, "storage": 4},))


def test_attention_counts_two_products_and_half_of_them_where_it_is_causal():
    whole = 2 * 2 * 2 * 8 * 128 * 256 * 64
    no_mask = attention("aten::_scaled_dot_product_flash_attention", 0.0, False)
    assert work_of(no_mask).flops == whole
    assert work_of(attention("aten::_scaled_dot_product_flash_attention", 0.0, True)).flops == whole  # 128 of 256 keys
    square = OperatorFacts(1, no_mask.name, (no_mask.inputs[0],) * 3 + (0.0, True), no_mask.outputs)
    assert work_of(square).flops == 2 * 2 * 2 * 8 * 128 * 128 * 64 // 2
    unknown = work_of(attention("vendor::new_attention"))
    assert (unknown.flops, unknown.is_product) == (None, True)


@pytest.mark.parametrize(
    ("action", "name", "size"),
    [
        (lambda: torch.randn(8, 16).add(torch.randn(16)), "aten::add", 8 * 16 * 4 * 2 + 16 * 4),
        (lambda: torch.zeros(8, 16), "aten::fill_", 0),
        (lambda: torch.ones(8, 16).zero_(), "aten::zero_", 8 * 16 * 4),
        (lambda: torch.randn(8, 16).t().contiguous(), "aten::copy_", 2 * 8 * 16 * 4),
        (lambda: F.embedding(torch.zeros(4, dtype=torch.long), torch.randn(100, 8)), "aten::index_select",
         4 * 8 + 2 * 4 * 8 * 4),
        (lambda: torch.cat([torch.randn(2, 8), torch.randn(3, 8)]), "aten::cat", 2 * 5 * 8 * 4),
        (lambda: torch._foreach_mul_([torch.ones(4), torch.ones(8)], 2.0), "aten::_foreach_mul_", 2 * 12 * 4),
    ],
)  # fmt: skip
def test_bytes_are_those_of_each_tensor_once(action, name, size, tmp_path):
    calls = [operator for operator in recorded(action, tmp_path) if operator.name == name]
    assert [work_of(call).least_bytes for call in calls[-1:]] == ([size] if size else [])


def test_the_floor_is_that_of_the_slower_rate():
    peak = find_peak("NVIDIA H200")
    big = OperatorFacts(1, "aten::mm", ({"sizes": [8192, 8192], "type": "c10::BFloat16", "tensor": 1, "storage": 1},
                                        {"sizes": [8192, 8192], "type": "c10::BFloat16", "tensor": 2, "storage": 2}),
                        ({"sizes": [8192, 8192], "type": "c10::BFloat16", "tensor": 3, "storage": 3},))  # fmt: skip
    time, limit = floor_ns(work_of(big), peak)
    assert (round(time), limit) == (round(1e9 * 2 * 8192**3 / 989.4e12), "compute")
    fp32 = OperatorFacts(1, "aten::mm", tuple({**value, "type": "float"} for value in big.inputs), big.outputs)
    assert floor_ns(work_of(fp32), peak)[0] == pytest.approx(1e9 * 2 * 8192**3 / 494.7e12)
    assert floor_ns(work_of(OperatorFacts(1, "aten::mm")), peak) is None


def operator(name, inputs, outputs=()):
    return convert({"op_id": 1, "name": f"aten::{name}", "inputs": inputs, "outputs": list(outputs)}, OperatorFacts)


TABLE, ROW, NUMBER = tensor((1_000_000, 64), 1), tensor((1, 64), 3), tensor((1,), 2, "long int")


@pytest.mark.parametrize(
    ("name", "inputs", "least"),
    [
        # A row of 64 floats with its number; where it adds, the row of the table is read as well.
        ("index_copy_", [TABLE, 0, NUMBER, ROW], 8 + 2 * 256),
        ("_index_put_impl_", [TABLE, [NUMBER], ROW, False, True], 8 + 2 * 256),
        ("index_add_", [TABLE, 0, NUMBER, ROW], 8 + 3 * 256),
        ("index_add_", [TABLE, 0, tensor((0,), 2, "long int"), tensor((0, 64), 3)], 0),
        ("linalg_cholesky_ex", [TABLE], None),
        ("linalg_vector_norm", [TABLE], 256_000_000),
    ],
)
def test_partial_writes_move_what_they_are_given_and_factorizations_are_unknown(name, inputs, least):
    work = work_of(operator(name, inputs))
    assert work.least_bytes == least
    assert (work.flops is None) == (least is None)


def test_grouped_and_depthwise_products_count():
    inputs = [tensor((4096, 1024), 1), tensor((16, 1024, 2048), 2)]
    assert work_of(operator("_grouped_mm", inputs, [tensor((4096, 2048), 3)])).flops == 2 * 4096 * 1024 * 2048
    images, weight = tensor((2, 8, 16, 16), 1), tensor((8, 1, 3, 3), 2)
    depthwise = operator("_conv_depthwise2d", [images, weight, [3, 3], None, [1, 1], [1, 1], [1, 1]], [images])
    assert work_of(depthwise).flops == 2 * 2 * 8 * 16 * 16 * 9
