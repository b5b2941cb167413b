import pytest

from nsysprof.analysis.kernel_names.categories import CATEGORIES, categorize


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>(Flash_fwd_params)", "attention"),
        ("fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)", "attention"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7", "attention"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8", "gemm"),
        ("nvjet_hsh_128x128_64x6_1x2_h_bz_TNT", "gemm"),
        ("void at::native::cunn_SoftMaxForwardReg<float>(float *)", "softmax"),
        ("void at::native::reduce_kernel<(int)512, at::native::ReduceOp>", "reduction"),
        ("void at::native::vectorized_elementwise_kernel<(int)8, at::native::float16_copy_kernel_cuda>", "copy"),
        ("void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>>", "fill"),
        ("void at::native::elementwise_kernel<(int)128, masked_fill_kernel>", "elementwise"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)", "nccl"),
        ("aten::normal_", "other"),
        ("aten::bmm", "gemm"),
        ("", "other"),
        ("x" * 10_000_000, "other"),
    ],
)
def test_names_of_real_kernels(name, category):
    assert categorize(name) == category
    assert category in CATEGORIES
