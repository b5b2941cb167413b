"""Kernel names of real profiles belong to the right backend."""

import pytest

from nsysprof.attention.kernel_family import backends_by_name, dispatched_operator, kernel_family, operator_family

FLASH = (
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::half_t> >"
    "(pytorch_flash::Flash_fwd_params)"
)
EFFICIENT = (
    "fmha_cutlassF_f16_aligned_32x128_gmem_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::half_t, cutlass::arch"
    "::Sm80, true, 32, 128, 65536, true, true>::Params)"
)
CUDNN = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_kernel0_0"
SOFTMAX = "void at::native::(anonymous namespace)::softmax_warp_forward<float, float, float, 4, false, false>(...)"


@pytest.mark.parametrize(
    ("names", "family"),
    [
        ([FLASH], "flash"),
        (["void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<...>(...)"], "flash"),
        ([EFFICIENT], "efficient"),
        ([CUDNN], "cudnn"),
        (["fill", CUDNN], "cudnn"),
        ([SOFTMAX, "nvjet_hsh_64x16_64x16_1x1_h_bz_TNT"], "math"),
        (["ampere_sgemm_32x32_sliced1x4_tn", SOFTMAX], "math"),
        (["void gemv2T_kernel_val<int, int, __half>", "void cunn_SoftMaxForward<4>"], "math"),
        (["aten::bmm", "aten::_softmax"], "math"),
        ([SOFTMAX], "other"),
        (["void at::native::vectorized_elementwise_kernel<4>"], "other"),
        ([], None),
    ],
)
def test_the_family_of_a_calls_kernels(names, family):
    assert kernel_family(names) == family


def test_the_operator_that_torch_handed_the_call_to():
    names = ["aten::scaled_dot_product_attention", "aten::_scaled_dot_product_cudnn_attention", "aten::empty"]
    assert dispatched_operator(names) == "aten::_scaled_dot_product_cudnn_attention"
    assert operator_family(dispatched_operator(names)) == "cudnn"
    assert dispatched_operator(["aten::bmm"]) is None
    assert operator_family(None) is None


def test_a_convolution_of_cudnn_is_not_attention():
    name = (
        "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_128x128_32x5_nhwc_align8>(P)"
    )
    assert kernel_family([name]) == "other"


def test_every_backend_of_a_trace_has_its_place():
    names = [
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<1>(T1)",
        "flashinfer::BatchPrefillWithRaggedKVCacheKernel<1>",
        "void pytorch_flash::flash_fwd_kernel<x>",
        "kernel_unified_attention_2d",
        "fmhaSm100aKernel_QkvBfloat16",
        "qk_int_sv_f16_accum_f32_attn_kernel",
        "void vllm::paged_attention_v1_kernel<x>",
        "Sm100FmhaMlaKernelTmaWarpspecialized",
        "flash::FlashAttnFwdSm90",
        "some_other_kernel",
    ]
    backends, places = backends_by_name(names)
    assert backends[:4] == ("flash", "efficient", "cudnn", "flex")
    assert backends[-1] == "math"
    assert [backends[place] if place >= 0 else None for place in places] == [
        "flashinfer-decode", "flashinfer-prefill", "flash", "vllm-unified", "trtllm-gen", "sage", "vllm-paged",
        "cutlass-mla", "flash3", None,
    ]  # fmt: skip
