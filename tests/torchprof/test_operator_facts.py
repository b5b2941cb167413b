"""Names of operators' ranges follow a strict grammar, and a tensor has the bytes of its memory."""

import time

import pytest

from nsysprof.torchprof.operator_facts import RangeText, Tensor, read_layer, read_range_text, tensors_of

SIZES = ", sizes = [[8, 1024], []], input_op_ids = [(0,-1)]"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("aten::mm, seq = 7, op_id = 26" + SIZES, RangeText("aten::mm", 26, 7)),
        ("aten::empty, op_id = 16" + SIZES, RangeText("aten::empty", 16, None)),
        ("Optimizer.step#AdamW.step, op_id = 3", RangeText("Optimizer.step#AdamW.step", 3, None)),
        ("## Call CompiledFxGraph fabc ##, op_id = 6", RangeText("## Call CompiledFxGraph fabc ##", 6, None)),
        ("autograd::engine::evaluate_function: MmBackward0, op_id = 9",
         RangeText("autograd::engine::evaluate_function: MmBackward0", 9, None)),
        ("aten::cat, op_id = 5, sizes = [[1, 2], [3...", RangeText("aten::cat", 5, None)),
    ],
)  # fmt: skip
def test_a_range_of_torch_is_read(text, read):
    assert read_range_text(text) == read


@pytest.mark.parametrize(
    "text",
    ["step", ", op_id = 1", "a, op_id = x", "a, op_id = 1; DROP TABLE", "a, op_id = 1 , seq = 2", "a\x1b[2J, op_id = 1",
     "a" * 301 + ", op_id = 1", "a, op_id = " + "9" * 19, "a, seq = 1", "a\n, op_id = 2"],
)  # fmt: skip
def test_other_texts_are_no_operators(text):
    assert read_range_text(text) is None


def test_hostile_texts_take_linear_time():
    begin = time.process_time()
    for text in (", op_id = " * 100_000, "a, op_id = 1" + ", sizes = [" * 100_000, "a, seq = 1" * 100_000):
        read_range_text(text)
    assert time.process_time() - begin < 1


def test_a_layer_has_a_path_and_a_line():
    assert read_layer("nsysprof layer model.layers.7 @ train.py:31") == ("model.layers.7", "train.py:31")
    assert read_layer("nsysprof layer blocks.0") == ("blocks.0", "")
    assert read_layer("nsysprof layer a b; c") is None
    assert read_layer("aten::mm") is None


def test_a_tensor_takes_what_it_has_in_memory():
    assert Tensor((8, 1024), "c10::BFloat16", 1, 2, (1024, 1)).bytes == 8 * 1024 * 2
    expanded = Tensor((8, 1024), "float", 1, 2, (0, 1))
    assert (expanded.bytes, expanded.dtype) == (4096, "fp32")
    assert Tensor((2,), "a new type", 1, 2).bytes is None


def test_what_is_no_tensor_is_left_out():
    sound = {"sizes": [2], "type": "float", "tensor": 1, "storage": 2}
    hostile = ({"sizes": [-1], "type": "float"}, {"sizes": "x"}, 7, None, [sound, 3, {}], {**sound, "sizes": [2**63]})
    assert [tensor.sizes for tensor in tensors_of((sound, *hostile))] == [(2,), (2,)]
    absent = {**sound, "type": "nullptr (uninitialized)"}
    assert list(tensors_of((absent,))) == []
