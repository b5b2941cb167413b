import pytest

from nsysprof.bundle.public_names import ALL_STEPS, is_public_call, is_public_kernel, is_public_range, public_backends
from nsysprof.results.analysis import STEPS


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int, float)", True),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", True),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute", True),
        ("triton_poi_fused_add_relu_0", True),
        ("triton_poi_fused_acme_model_0", False),
        ("void acme::secret_kernel<4>(int)", False),
        ("void at::native::acme_recipe<4>(int)", False),
        ("void at::native::vectorized_elementwise_kernel<271828182>(int)", False),
        ("", False),
        ("4, 8", False),
    ],
)
def test_a_kernel_stays_when_every_identifier_is_a_librarys(name, public):
    assert is_public_kernel(name) is public


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("cudaLaunchKernel_v7000", True),
        ("ncclAllReduce", True),
        ("dlopen(libcudnn.so.9)", True),
        ("dlopen(libacme.so)", False),
        ("CUPTI Buffer flush", True),
        ("pthread_cond_clockwait", True),
        ("acme_call", False),
    ],
)
def test_a_call_stays_when_the_name_is_nvidias(name, public):
    assert is_public_call(name) is public


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("step 12", True),
        ("aten::mm, seq = 4", True),
        ("Optimizer.step#AdamW.step", True),
        ("autograd::engine::evaluate_function: AddmmBackward0", True),
        ("RUN::flash::S4096::B=1::H=8::D=64", True),
        ("RUN::acme::S4096::B=1::H=8::D=64", False),
        ("customer 4711", False),
        ("step of customer", False),
        ("clip", True),
        ("empty_cache", True),
        ("clip_grad_norm", True),
        ("DataLoader.__next__", True),
        ("load_batch 12", True),
        ("cub::DeviceSelect::UniqueByKey", True),
        ("cub::DeviceRadixSort", True),
        ("ncclAllReduce", True),
        ("secret_project", False),
        ("alice", False),
        ("load_acme", False),
        ("forward 1234567", False),
        ("forward\u00e9", False),
        ("/home/me/train.py", False),
        ("step" * 30, False),
    ],
)
def test_a_range_stays_when_it_says_nothing_of_the_user(name, public):
    assert is_public_range(name, public_backends()) is public


def test_the_name_for_all_steps_stays_so_that_findings_slowed_by_recording_are_left_out():
    assert ALL_STEPS == STEPS
    assert is_public_range(STEPS, public_backends())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cutlass_80_simt_sgemm_128x256_8x4_nt_align1", True),
        ("cutlass_80_tensorop_s161616gemm_bf16_64x64_64x6_nn_align8", True),
        ("nvjet_tst_320x128_64x3_1x2_h_bz_coopB_TNT", True),
        ("fmha_cutlassB_bf16_aligned_64x64_k65536_sm80", True),
        ("cutlass_80_simt_sgemm_4111x1111_1111x1111_nt_align1", False),
        ("cutlass_80_simt_sgemm_128x256_8x4111_nt_align1", False),
        ("cutlass_80_simt_s471113gemm_128x256_nt_align1", False),
        ("cutlass_80_simt_sgemm_128x256_nt_align471", False),
        ("cutlass_80_simt_sgemm_0128x256_nt_align1", False),
        ("fmha_cutlassB_bf16_aligned_64x64_k47111_sm80", False),
    ],
)
def test_sizes_in_names_are_those_of_tiles(name: str, expected: bool) -> None:
    assert is_public_kernel(name) is expected
