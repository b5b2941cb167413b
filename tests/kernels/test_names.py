import contextlib
import re
import sqlite3
import time

import pytest

from nsysprof.app.analyze import AnalyzeRequest, analyze
from nsysprof.errors import UsageError
from nsysprof.kernels import names as names_module
from nsysprof.kernels.names import CATEGORIES, OWN_NAMES, categorize, kind_of, known_rules, read_rules
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
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)", "communication"),
        ("void vector_fft<(unsigned int)16384, EPT<(unsigned int)16>, (padding_t)70>(kernel_arguments_t<T9>)", "fft"),
        ("stream_executor::gpu::<unnamed>::DelayKernel(volatile stream_executor::GpuSemaphoreState *)", "wait"),
        ("at::cuda::<unnamed>::spin_kernel(long)", "wait"),
        ("saxpy(int, float, const float *, float *)", "elementwise"),
        ("scale(unsigned long, float, float *)", "elementwise"),
        ("jacobi(const float *, float *)", "elementwise"),
        ("solve_sudoku(int *)", "other"),
        ("aten::normal_", "random"),
        ("aten::bmm", "gemm"),
        ("", "other"),
        ("x" * 10_000_000, "other"),
    ],
)
def test_names_of_real_kernels(name, category):
    assert categorize(name) == category


@pytest.mark.parametrize("rule", known_rules(), ids=lambda rule: rule.pattern)
def test_each_rule_has_a_name_that_no_rule_before_it_takes(rule):
    text = rule.example.lower().removeprefix("void ")
    assert next(known for known in known_rules() if known.matches(text)) is rule


@pytest.mark.parametrize(
    ("name", "category", "unit"),
    [
        # What a product computes on is in its name: FMA units, or tensor cores in TF32 and bf16.
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize256x64x8_stage3_warpsize2x2x1_ffma_aligna4", "gemm", "plain"),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x256x32_warpgroupsize2x1x1_execute", "gemm", "tensor"),
        (
            "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>(T1::Params)",
            "gemm",
            "tensor",
        ),
        ("void fused_moe_kernel(float *)", "gemm", "tensor"),
        ("void deep_ep::internode_ll::combine<true, 7168>(void *)", "communication", "other"),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData *)", "communication", "other"),
        (
            "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_twoshot_sync<1>(int)",
            "communication",
            "other",
        ),
        ("triton_poi_fused_gelu_3", "elementwise", "memory"),
    ],
)
def test_names_tell_what_a_kernel_runs_on(name, category, unit):
    assert (kind_of(name).category, kind_of(name).unit) == (category, unit)


def test_names_of_the_user_go_before_those_of_the_package(tmp_path, monkeypatch):
    own = tmp_path / "names.tsv"
    own.write_text("# ours\nattention\ttensor\tmine\tblock*product\n")
    monkeypatch.setenv(OWN_NAMES, str(own))
    assert kind_of("void block_sparse_PRODUCT_gemm(float *)").backend == "mine"
    assert categorize("ampere_sgemm_128x64_tn") == "gemm"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("gemm\ttensor\tpattern", "line 2: It has 3 fields"),
        ("product\ttensor\t\tpattern", f"line 2: There is no category 'product'; there are {CATEGORIES[0]}"),
        ("gemm\tcuda\t\tpattern", "line 2: There is no unit 'cuda'"),
        ("gemm\ttensor\t\t^*", "line 2: The pattern matches every name"),
        *(
            (f"gemm\ttensor\t\t{pattern}", f"line 2: The pattern has {shown!r}, as regular expressions do")
            for pattern, shown in [
                ("my_gemm_v\\d", "\\d"),
                ("my_.*gemm", ".*"),
                ("(flash|fmha)_fwd", "|"),
                ("my_gemm$", "$"),
                ("a^b", "^"),
                ("gemm[0-9]", "[0-9]"),
                ("gemm_?fwd", "?"),
                ("gemm_v\\w{2}", "\\w"),
                ("gemm_v{2,3}", "{2,3}"),
            ]
        ),
    ],
)
def test_a_wrong_line_of_the_user_is_named(tmp_path, line, message):
    own = tmp_path / "names.tsv"
    own.write_text(f"# ours\n{line}\n")
    with pytest.raises(UsageError, match=re.escape(message)):
        read_rules(own)


def test_all_that_names_hold_may_be_in_a_pattern(tmp_path):
    own = tmp_path / "names.tsv"
    patterns = [
        "void my::k<(int)2, float*>(T1 &&)",
        "{lambda()#1}::operator()",
        "at::native::[lambda(float)]",
        "fusion.1",
    ]
    own.write_text("".join(f"gemm\ttensor\t\t{pattern}\n" for pattern in patterns))
    assert [rule.pattern for rule in read_rules(own)] == [pattern.lower() for pattern in patterns]


def test_a_file_of_names_that_is_no_text_or_is_missing_is_an_error(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("binary", "missing"):
        with pytest.raises(UsageError, match="cannot be read"):
            read_rules(tmp_path / name)


def test_a_pattern_of_the_user_takes_linear_time(tmp_path, monkeypatch):
    own = tmp_path / "names.tsv"
    own.write_text("".join(f"gemm\ttensor\t\t{'a*' * 4_000}b{number}\n" for number in range(20)))
    monkeypatch.setenv(OWN_NAMES, str(own))
    begin = time.process_time()
    for number in range(50):
        assert kind_of(f"{'a' * 100_000}{number}").category != "gemm"
    assert time.process_time() - begin < 5


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
    assert _other_pct(trace_path(name)) < 2


@pytest.mark.slow
def test_nearly_every_kernel_of_every_trace_has_a_category(trace_path):
    names = [str(path.relative_to(REPOSITORY / "traces")) for path in (REPOSITORY / "traces").rglob("*.sqlite.xz")]
    found = {name: _other_pct(trace_path(name.removesuffix(".sqlite.xz"))) for name in names}
    assert len(found) > 40
    assert {name: pct for name, pct in found.items() if pct >= 2} == {}


def test_analyze_takes_names_of_the_user_and_forgets_them_afterwards(trace_path, tmp_path):
    own = tmp_path / "names.tsv"
    own.write_text("attention\ttensor\tmine\tnvjet\n")
    request = AnalyzeRequest((trace_path("h200-busy/gpt-none"),), out=tmp_path / "out", kernel_names=own, figures=False)
    kernels = analyze(request).analysis.kernels
    assert set(kernels.loc[kernels["name"].str.startswith("nvjet"), "category"]) == {"attention"}
    assert categorize("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT") == "gemm"


def test_the_names_of_a_large_trace_are_looked_up_once_each():
    names = [f"k{number}" for number in range(20_000)]
    before = names_module._kind_of.cache_info().misses
    for _ in range(3):
        assert all(kind_of(name).category == "other" for name in names)
    assert names_module._kind_of.cache_info().misses - before <= len(names)


def test_a_name_is_compared_with_few_rules(monkeypatch):
    """A name that no rule knows took 0.3 ms, and a trace of 6 MB has 45,000."""
    tried = []
    matches = names_module.KernelRule.matches
    monkeypatch.setattr(names_module.KernelRule, "matches", lambda *both: tried.append(both) or matches(*both))
    assert {kind_of(f"zzyzx_{number}").category for number in range(100)} == {"other"}
    assert kind_of("zzyzx_gemm").category == "gemm"
    assert len(tried) < 10
