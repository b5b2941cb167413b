"""Which names stay, and what stands for the others."""

from __future__ import annotations

import pytest

from nsysprof.attention.range_name import parse_range
from nsysprof.bundle.name_tokens import NameTokens
from nsysprof.bundle.public_names import is_public_call, is_public_kernel, is_public_range, public_backends
from nsysprof.kernels.names import categorize
from nsysprof.trace.table_readers.layer_ranges import read_layer_range


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>, std::array<char *, "
        "(unsigned long)1>>(int, T2, T3)",
        "void <unnamed>::softmax_warp_forward<float, float, float, (int)10, (bool)0, (bool)0>(T2 *, const T1 *)",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nt_align1>(T1::Params)",
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_execute_kernel__5x_cublas",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_0",
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)64, (bool)0, cutlass::half_t>>(int)",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        "nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_TNT",
        "triton_poi_fused_add_gelu_mul_3",
        "aten::addmm",
    ],
)
def test_kernels_of_libraries_stay(name: str) -> None:
    assert is_public_kernel(name)
    assert NameTokens(categorize=categorize).kernel(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "void acme_attention<float>(float *)",
        "acme::gemm(int)",
        "void at::native::elementwise_kernel<(int)128, acme::Secret<float>>(int)",
        "void at::native::elementwise_kernel<(int)128, acme>(int)",
        "(anonymous namespace)::acme()",
        "sm90_acme_kernel",
        "triton_poi_fused_acme_add_0",
        "sesame-7f3a9b-open",
        "x" * 30_000,
        "cutlassified_acme",
        "flash::ok<attn::acme>",
        "3acme<float>",
        "float.acme<int>",
        "日本語<float>",
        "at::native::日本語",
        "void at::native::copy<'acme'>(int)",
        "10.0.0.1",
        "",
    ],
)
def test_kernels_of_the_user_become_tokens(name: str) -> None:
    assert not is_public_kernel(name)
    token = NameTokens(categorize=categorize).kernel(name)
    assert token.startswith("<kernel-1")
    assert "acme" not in token or name == ""
    assert NameTokens(keep=True).kernel(name) == name


@pytest.mark.parametrize(
    "category",
    [
        "attention",
        "gemm",
        "fft",
        "softmax",
        "reduction",
        "elementwise",
        "copy",
        "fill",
        "communication",
        "wait",
        "other",
    ],
)
def test_a_token_is_of_the_category_of_its_name(category: str) -> None:
    token = NameTokens(categorize=lambda _name: category).kernel("acme")
    assert categorize(token) == category


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("RUN::math::S1024::B=8::pass=bwd", True),
        ("RUN::acme:attn::S1024", False),
        ("RUN::math::S1024 for acme", False),
        ("nsysprof 0.1.0", True),
        ("ncclAllReduce", True),
        ("aten::addmm, seq = 4, op_id = 17", True),
        ("autograd::engine::evaluate_function: AddmmBackward0", True),
        ("AcmeFunctionBackward", False),
        ("ProfilerStep#3", True),
        ("Optimizer.step#AdamW.step", True),
        ("Optimizer.step#AcmeOpt.step", False),
        ("step17", True),
        ("forward", True),
        ("forward acme", False),
        ("layer 12", True),
        ("NCCL", True),
    ],
)
def test_ranges(name: str, public: bool) -> None:
    assert is_public_range(name, public_backends()) is public
    assert (NameTokens().range(name) == name) is public


def test_calls() -> None:
    assert is_public_call("cudaLaunchKernel_v7000")
    assert is_public_call("dlopen(libcublasLt.so.13)")
    assert not is_public_call("dlopen(libacme.so)")
    assert not is_public_call("customer_list")
    assert not is_public_call("CUDA acme")
    assert NameTokens().call("dlopen(libacme.so)") == "<call-1>"


def test_equal_names_get_equal_tokens_and_names_that_differ_only_in_case_do_not() -> None:
    names = NameTokens()
    assert [names.range(text) for text in ("Acme", "acme", "Acme", "ACME")] == [
        "<range-1>", "<range-2>", "<range-1>", "<range-3>",
    ]  # fmt: skip
    assert names.replaced() == {"<range-1>": "Acme", "<range-2>": "acme", "<range-3>": "ACME"}
    assert names.counts() == {"range": 3}


def test_a_backend_keeps_its_token_in_every_text() -> None:
    names = NameTokens()
    assert names.backend("acme.kernels:attn") == "backend_1"
    assert names.backend("math") == "math"
    assert names.text("RUN::acme.kernels:attn::S64::B=2") == "RUN::backend_1::S64::B=2"
    assert names.text("acme.kernels:attn raised") == "backend_1 raised"
    assert names.text("my.acme.kernels:attn and acme.kernels:attn2") == "my.acme.kernels:attn and acme.kernels:attn2"
    assert names.text("of RUN::acme.kernels:attn::S64, and RUN::other::S1.") == (
        "of RUN::backend_1::S64, and RUN::backend_2::S1."
    )
    assert parse_range(names.range("RUN::acme.kernels:attn::S64")) is not None
    assert names.counts() == {"backend": 2}


def test_what_was_compiled_is_a_token_without_its_place_and_the_reason():
    tokens, name = NameTokens(), "nsysprof compile dynamo acme (acme/train.py:12): L['acme'] == 3"
    secret = tokens.range(name)
    assert secret == "nsysprof compile dynamo <function-1> (:0)"
    assert is_public_range(secret, frozenset())
    assert not is_public_range(name, frozenset())
    assert not is_public_range("nsysprof compile dynamo acme (:0)", frozenset())
    assert tokens.range("nsysprof gc 2") == "nsysprof gc 2"


def test_a_module_keeps_its_place_and_only_its_own_names_become_tokens():
    tokens = NameTokens()
    assert tokens.range("nsysprof forward model.layers.7.self_attn (Linear)") == (
        "nsysprof forward model.layers.7.self_attn (Linear)"
    )
    secret = tokens.range("nsysprof backward-part layers.3.acme_mixer.up_proj (AcmeMixer)")
    assert secret == "nsysprof backward-part layers.3.<module-1>.up_proj (<class-1>)"
    assert read_layer_range(secret).layer == "layers.3.<module-1>.up_proj"
    assert tokens.range("nsysprof forward layers.4.acme_mixer (AcmeMixer)").endswith("layers.4.<module-1> (<class-1>)")
    assert "acme" not in tokens.range("nsysprof optimizer AcmeAdam (AcmeAdam)").lower()
