import contextlib
import sqlite3

import pytest

from nsysprof.analysis.kernel_names.categories import categorize
from tests.conftest import REPOSITORY


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
        ("void vector_fft<(unsigned int)16384, EPT<(unsigned int)16>, (padding_t)70>(kernel_arguments_t<T9>)", "fft"),
        ("stream_executor::gpu::<unnamed>::DelayKernel(volatile stream_executor::GpuSemaphoreState *)", "wait"),
        ("at::cuda::<unnamed>::spin_kernel(long)", "wait"),
        ("saxpy(int, float, const float *, float *)", "elementwise"),
        ("scale(unsigned long, float, float *)", "elementwise"),
        ("jacobi(const float *, float *)", "elementwise"),
        ("solve_sudoku(int *)", "other"),
        ("aten::normal_", "other"),
        ("aten::bmm", "gemm"),
        ("", "other"),
        ("x" * 10_000_000, "other"),
    ],
)
def test_names_of_real_kernels(name, category):
    assert categorize(name) == category


def _other_pct(path):
    """Return the share of kernel time in the category `other` (percent); 0 without kernels."""
    query = (
        "SELECT s.value, sum(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = "
        "k.demangledName GROUP BY 1"
    )
    with contextlib.closing(sqlite3.connect(path)) as connection:
        has = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'").fetchone()
        found = connection.execute(query).fetchall() if has else []
    total = sum(time for _, time in found)
    return 100 * sum(time for name, time in found if categorize(name) == "other") / max(total, 1)


# Of programs that are not torch's: XLA, CuPy and CUDA C++.
@pytest.mark.parametrize("name", ["h200-programs/cupy", "h200-programs/threads", "h200-forms/two_processes"])
def test_nearly_every_kernel_of_a_program_has_a_category(name, trace_path):
    assert _other_pct(trace_path(name)) < 1


@pytest.mark.slow
def test_nearly_every_kernel_of_every_trace_has_a_category(trace_path):
    names = [str(path.relative_to(REPOSITORY / "traces")) for path in (REPOSITORY / "traces").rglob("*.sqlite.xz")]
    found = {name: _other_pct(trace_path(name.removesuffix(".sqlite.xz"))) for name in names}
    assert len(found) > 40
    assert {name: pct for name, pct in found.items() if pct >= 1} == {}
