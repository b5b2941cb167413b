import numpy as np
import pandas as pd
import pytest

from nsysprof.analysis.findings.attention_alternative import CallInTrace, calls_at, causal_of
from nsysprof.attention.shape import Shape

OPERATOR = CallInTrace(
    Shape(batch=2, heads=16, kv_heads=4, seq=512, kv_seq=1024, head_dim=64), frozenset({"causal", "dtype"})
)
SIZES = "[[2, 16, 512, 64], [2, 4, 1024, 64], [2, 4, 1024, 64], [], []]"


def call_of(name, sizes=""):
    ranges = pd.DataFrame(
        {"name": [name], "sizes": [sizes], "start_ns": [0], "end_ns": [100], "global_tid": [1], "domain": [""]}
    )
    return calls_at(ranges, np.array([1]), np.array([50]))[0]


@pytest.mark.parametrize(
    ("name", "sizes", "shape"),
    [
        ("aten::scaled_dot_product_attention", SIZES, OPERATOR),
        ("aten::_flash_attention_forward", "[[2, 512, 16, 64], [2, 1024, 4, 64], [2, 1024, 4, 64]]",
         OPERATOR),
        ("aten::mm", SIZES, None),
        ("aten::scaled_dot_product_attention", "[[2, 16]]", None),
        ("RUN::flash::S4096::B=1::H=8::D=64::dtype=fp16::causal=1", "",
         CallInTrace(Shape(seq=4096, heads=8))),
        ("RUN::flash::S1::B=1::H=8::D=64::dtype=fp16::causal=0::K=4096", "",
         CallInTrace(Shape(seq=1, kv_seq=4096, heads=8, causal=False))),
        ("RUN::flash::S4096", "", None),
    ],
)  # fmt: skip
def test_a_shape_is_read_from_the_operators_sizes_or_our_ranges_name(name, sizes, shape):
    assert call_of(name, sizes) == shape


def test_without_ranges_no_time_has_a_shape():
    assert calls_at(pd.DataFrame(), np.array([1]), np.array([5])) == [None]


def test_the_kernels_name_says_whether_it_masks_what_comes_later():
    traits = "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>, (bool)0, (bool){}, (bool)0>(Flash_fwd_params)"
    split = (
        traits.format(1).replace("flash_fwd_kernel", "flash_fwd_splitkv_kernel").replace("(bool)0, (bool)1", "(bool)1")
    )
    assert causal_of([traits.format(1), traits.format(0), split, "gemm"]) == [True, False, True, None]


def test_the_call_that_a_thread_is_in_at_a_time():
    sizes = "[[2, 16, 512, 64], [2, 4, 1024, 64], [2, 4, 1024, 64]]"
    rows = [
        ("aten::scaled_dot_product_attention", sizes, 0, 100),
        ("aten::_flash_attention_forward", "[[2, 512, 16, 64], [2, 1024, 4, 64], [2, 1024, 4, 64]]", 10, 20),
        ("aten::add", sizes, 30, 40),
        ("RUN::flash::S128::B=1::H=8::D=64::dtype=fp16::causal=0", "", 200, 300),
        ("RUN::flash::S128", "", 400, 500),
    ]
    ranges = pd.DataFrame(rows, columns=["name", "sizes", "start_ns", "end_ns"]).assign(global_tid=1, domain="")
    times = np.array([15, 35, 150, 250, 450])
    ours = CallInTrace(Shape(seq=128, heads=8, causal=False))
    assert calls_at(ranges, np.ones(5, dtype=np.int64), times) == [OPERATOR, OPERATOR, None, ours, None]
