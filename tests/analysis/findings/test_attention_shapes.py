import numpy as np
import pandas as pd
import pytest

from nsysprof.analysis.findings.attention_shapes import CallShape, causal_of, shapes_at

SIZES = "[[2, 16, 512, 64], [2, 4, 1024, 64], [2, 4, 1024, 64], [], []]"


def shape_of(name, sizes=""):
    ranges = pd.DataFrame(
        {"name": [name], "sizes": [sizes], "start_ns": [0], "end_ns": [100], "global_tid": [1], "domain": [""]}
    )
    return shapes_at(ranges, np.array([1]), np.array([50]))[0]


@pytest.mark.parametrize(
    ("name", "sizes", "shape"),
    [
        ("aten::scaled_dot_product_attention", SIZES, CallShape(2, 16, 4, 512, 1024, 64)),
        ("aten::_flash_attention_forward", "[[2, 512, 16, 64], [2, 1024, 4, 64], [2, 1024, 4, 64]]",
         CallShape(2, 16, 4, 512, 1024, 64)),
        ("aten::mm", SIZES, None),
        ("aten::scaled_dot_product_attention", "[[2, 16]]", None),
        ("RUN::flash::S4096::B=1::H=8::D=64::dtype=fp16::causal=1", "",
         CallShape(1, 8, 8, 4096, 4096, 64, True, "fp16")),
        ("RUN::flash::S4096", "", None),
    ],
)  # fmt: skip
def test_a_shape_is_read_from_the_operators_sizes_or_our_ranges_name(name, sizes, shape):
    assert shape_of(name, sizes) == shape


def test_without_ranges_no_time_has_a_shape():
    assert shapes_at(pd.DataFrame(), np.array([1]), np.array([5])) == [None]


def test_the_kernels_name_says_whether_it_masks_what_comes_later():
    traits = "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>, (bool)0, (bool){}, (bool)0>(Flash_fwd_params)"
    assert causal_of([traits.format(1), traits.format(0), "gemm"]) == [True, False, None]
