import pytest

from nsysprof.torchprof.session_rows import global_tid, short_name


def test_ids_have_the_layout_of_nsys():
    tid = global_tid(0x123456, 0xABCDEF)
    assert (tid >> 24) & 0xFFFFFF == 0x123456
    assert tid & 0xFFFFFF == 0xABCDEF
    assert tid & ~0xFFFFFF == global_tid(0x123456, 0)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::Fill<float>>(int, float)",
            "vectorized_elementwise_kernel",
        ),
        ("sm80_xmma_gemm_f16f16", "sm80_xmma_gemm_f16f16"),
        ("void (anonymous namespace)::softmax_warp_forward<float, float>(float *, int)", "softmax_warp_forward"),
        (
            "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>, true>(Params)",
            "flash_fwd_kernel",
        ),
    ],
)
def test_short_names(name, short):
    assert short_name(name) == short
