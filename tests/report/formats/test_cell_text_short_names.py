import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysprof.report.formats.cell_text import shorten_names

VECTORIZED = (
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::{}, std::array<char *, (unsigned long)2>>"
    "(int, T2, T3)"
)
XMMA = "sm80_xmma_gemm_f32f32_f32f32_f32_{}_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas"


def test_a_function_alone_is_its_name():
    assert shorten_names([VECTORIZED.format("FillFunctor<float>")], 44) == ["vectorized_elementwise_kernel"]


def test_functions_of_one_name_show_the_arguments_that_differ():
    names = [
        VECTORIZED.format(each) for each in ("FillFunctor<float>", "CUDAFunctor_add<float>", "BUnaryFunctor<float>")
    ]
    assert shorten_names(names, 52) == [
        "vectorized_elementwise_kernel<FillFunctor>",
        "vectorized_elementwise_kernel<CUDAFunctor_add>",
        "vectorized_elementwise_kernel<BUnaryFunctor>",
    ]
    assert shorten_names(names, 24)[0] == "vector…rnel<FillFunctor>"
    assert all(each.endswith(">") for each in shorten_names(names, 24))


def test_long_names_show_where_they_differ():
    short = shorten_names([XMMA.format(each) for each in ("tn_n_tilesize128x128x8", "nn_n_tilesize64x64x8")], 40)
    assert "tn_n_tilesize128x128x8"[:20] in short[0]
    assert "nn_n_tilesize64x64x8"[:20] in short[1]


def test_ranges_stay_as_they_are_where_there_is_room():
    assert shorten_names(["RUN::math::S1024", "step (warm)", "a<b"], 20) == ["RUN::math::S1024", "step (warm)", "a<b"]


@pytest.mark.parametrize("name", ["", "(", "<<<<", ")" * 5000, "a<b>(" * 3000, "x\x1b[31m", "\u202e" * 100 + ")"])
def test_hostile_names_end_and_hold_no_control(name):
    (short,) = shorten_names([name], 20)
    assert len(short) <= 20
    assert "\x1b" not in short


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=80), min_size=2, max_size=20, unique=True))
def test_no_two_names_look_the_same_and_none_is_too_long(names):
    readable = [name for name in names if name.isprintable()]
    short = shorten_names(readable, 24)
    assert len(set(short)) == len(set(readable))
    assert all(len(each) <= 24 for each in short)
