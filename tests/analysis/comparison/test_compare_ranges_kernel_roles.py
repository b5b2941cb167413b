import time

from nsysprof.analysis.comparison.compare_ranges import kernel_role, pair_kernels
from nsysprof.kernels.names import categorize
from nsysprof.results.comparison import KernelFacts


def kernels(*names, total=100):
    return {name: KernelFacts(categorize(name), name.split("(")[0], 10, total) for name in names}


def test_a_new_version_of_a_kernel_takes_its_place():
    old = kernels("cudnn_generated_fort_native_sdpa_sm90_knob_7_64x64(int)")
    new = kernels("cudnn_generated_fort_native_sdpa_sm90_knob_3_128x64(int)")
    assert pair_kernels(old, new) == [(*old, *new)]


def test_another_backend_is_paired_by_what_it_is_for():
    old, new = kernels("pytorch_flash::flash_fwd_kernel(p)"), kernels("cudnn_generated_fort_native_sdpa_fprop(int)")
    assert pair_kernels(old, new) == [(*old, *new)]


def test_forward_is_never_paired_with_backward():
    old, new = kernels("flash_fwd_kernel(p)"), kernels("flash_bwd_kernel(p)")
    assert pair_kernels(old, new) == []
    assert kernel_role("flash_bwd_kernel", new["flash_bwd_kernel(p)"]) == "attention backward"


def test_of_several_the_most_alike():
    old = kernels("sm90_xmma_gemm_f16_tn_128x64(int)", "nvjet_hsh_64x8(int)")
    new = kernels("nvjet_hsh_128x8(int)", "sm90_xmma_gemm_f16_tn_256x64(int)")
    assert set(pair_kernels(old, new)) == {
        ("sm90_xmma_gemm_f16_tn_128x64(int)", "sm90_xmma_gemm_f16_tn_256x64(int)"),
        ("nvjet_hsh_64x8(int)", "nvjet_hsh_128x8(int)"),
    }


def test_strangers_of_no_known_role_are_not_paired():
    assert pair_kernels(kernels("solve(int)"), kernels("advect(int)")) == []
    assert pair_kernels(kernels("advect_v1(int)"), kernels("advect_v2(int)")) == [("advect_v1(int)", "advect_v2(int)")]


def test_thousands_of_names_are_no_hang():
    old, new = (kernels(*(f"gemm_{side}_{i}(int)" for i in range(5000))) for side in "ab")
    begun = time.thread_time()
    assert len(pair_kernels(old, new)) == 100
    assert time.thread_time() - begun < 3, "each side is sorted once"
