"""Tensors of a case lie in memory as in the program, and no mask hides every key of a query."""

import os
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from nsysprof.attention.shape import (  # noqa: E402
    Case,
    attention_flops,
    seen_keys,
)
from nsysprof.workload import other_libraries  # noqa: E402
from nsysprof.workload.backends import attention_for, load_attention  # noqa: E402
from nsysprof.workload.correctness_check import check_attention  # noqa: E402
from nsysprof.workload.measuring.case_tensors import draw_inputs, make_mask, page_table, plain_keys  # noqa: E402
from nsysprof.workload.measuring.measure import check_case, prepared  # noqa: E402
from nsysprof.workload.program_start.attention_facts import facts_of  # noqa: E402
from nsysprof.workload.refusal import IneligibleError, WrongResultError  # noqa: E402

pytestmark = pytest.mark.torch
SHAPE = {
    "seq": 12,
    "kv_seq": 20,
    "batch": 2,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 8,
    "dtype": "fp32",
    "causal": False,
}


@pytest.fixture
def flex_as_python(monkeypatch):
    """Let flex be traced, but run as Python: its compiler takes seconds for each shape. SLOW=1 compiles it."""
    other_libraries._compiled_flex.cache_clear()
    if os.environ.get("SLOW") != "1":
        monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    yield
    other_libraries._compiled_flex.cache_clear()


@pytest.mark.parametrize("layout", ["bhsd", "bshd", "sbhd", "bshd+", "bhsd+", "bshd,bhsd+,bhsd+"])
@pytest.mark.parametrize("mask", ["none", "bool:b11k", "bool:b1qk", "float:11qk", "float:bhqk", "learned:1hqk"])
def test_a_call_with_these_tensors_is_described_as_the_case(layout, mask):
    case = Case("math", **SHAPE, layout=layout, mask=mask)
    q, k, v = draw_inputs(case, "cpu", torch.Generator().manual_seed(0))
    facts = facts_of("sdpa", (q, k, v), {"attn_mask": make_mask(case, "cpu")}, None)
    named = {"seq": "seq_q", "kv_seq": "seq_kv"}
    wanted = {name: getattr(case, name) for name in (*SHAPE, "layout", "mask")}
    assert {name: facts[named.get(name, name)] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("mask", "stride"),
    [
        (None, None),
        (torch.zeros(4, 4), 1),
        (torch.zeros(4, 4, 2).permute(2, 0, 1)[None], 2),
        (torch.zeros(1, 1, 1, 1).expand(1, 1, 4, 4), 0),
        (torch.zeros(4, 1), None),
    ],
)
def test_the_last_stride_of_a_mask_is_described(mask, stride):
    q = torch.zeros(1, 2, 4, 8)
    assert facts_of("sdpa", (q, q, q), {"attn_mask": mask}, None)["mask_stride"] == stride


@pytest.mark.parametrize("mask", ["bool:b11k", "bool:11qk", "float:bhqk", "learned:1hqk"])
@pytest.mark.parametrize("pass_", ["fwd", "fwdbwd"])
def test_masked_calls_of_other_lengths_are_checked_and_run(mask, pass_):
    case = Case("math", **SHAPE, mask=mask, pass_=pass_, layout="bshd")
    assert check_case(case, "cpu")["errors"]
    with prepared(case, "cpu") as call:
        call()


def test_a_forgotten_mask_is_found():
    case = Case("math", **SHAPE, mask="bool:b11k")
    result = check_attention(load_attention("math")[1], case, "cpu")
    assert not result.ok


def test_a_backend_without_masks_says_so():
    case = Case("xformers", **SHAPE, mask="bool:b11k")
    with pytest.raises(IneligibleError, match="xformers does not take --mask; math, flash, .*naive, flex may"):
        check_case(case, "cpu")
    naive = load_attention("naive")[1]
    assert attention_for("naive", Case("naive", **SHAPE), None, "cpu")[1] is naive


@pytest.mark.usefixtures("flex_as_python")
@pytest.mark.filterwarnings("ignore")  # of the compiler, or that there is none
@pytest.mark.parametrize("backend", ["math", "flash", "naive", "flex"])
@pytest.mark.parametrize(
    "mask", ["window:3:0", "window:all:0", "window:2:4", "window:5:all", "bool:b1qk", "float:1hqk"]
)
def test_windows_and_masks_agree_with_the_reference(backend, mask):
    case = Case(backend, **SHAPE, mask=mask)
    assert check_case(case, "cpu")["errors"]["out"] < 1e-5
    assert not check_attention(load_attention("math")[1], case, "cpu").ok


@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (3, 8), (1, 9)])
@pytest.mark.parametrize("window", [(2, 0), (None, 0), (1, 2), (3, None), (0, 0)])
def test_a_window_is_that_of_flash_attention(window, queries, keys):
    sides = ":".join("all" if side is None else str(side) for side in window)
    case = Case("math", seq=queries, kv_seq=keys, causal=False, mask=f"window:{sides}", heads=1, head_dim=8)
    mask = make_mask(case, "cpu")
    left, right = (keys if side is None else side for side in window)
    wanted = [
        [i + keys - queries - left <= j <= i + keys - queries + right for j in range(keys)] for i in range(queries)
    ]
    assert mask[0, 0].tolist() == wanted
    assert attention_flops(case) == 4 * 8 * sum(map(sum, wanted))
    assert seen_keys(case) == sum(any(row[j] for row in wanted) for j in range(keys))


SERVED = [
    {"head_dim_v": 16},
    {"kv_dtype": "fp8", "page_size": 4},
    {"seq": 1, "page_size": 5},
    {"softcap": 2.0, "head_dim_v": 4},
    {"sinks": True, "mask": "window:3:0"},
    {"softcap": 2.0, "sinks": True, "mask": "float:b11k", "page_size": 10},
    {"softcap": 2.0, "sinks": True, "head_dim_v": 4, "pass_": "fwdbwd"},
]


@pytest.mark.parametrize("backend", ["math", "naive", "flex"])
@pytest.mark.parametrize("served", SERVED)
@pytest.mark.usefixtures("flex_as_python")
@pytest.mark.filterwarnings("ignore")  # of the compiler, or that there is none
def test_attention_of_served_models_agrees_with_the_reference(backend, served):
    case = Case(backend, **{**SHAPE, **served})
    refused = backend == "math" and (case.softcap or case.sinks)
    if refused or (backend == "flex" and case.sinks):
        with pytest.raises(IneligibleError, match="naive.* may|no gradients"):
            check_case(case, "cpu")
        return
    assert check_case(case, "cpu")["errors"]["out"] < 1e-5
    with prepared(case, "cpu") as call:
        call()


@pytest.mark.parametrize("forgotten", [{"softcap": 0.0}, {"sinks": False}])
def test_a_forgotten_cap_or_sink_is_found(forgotten):
    case = Case("naive", **SHAPE, softcap=1.0, sinks=True)
    other = Case("naive", **{**SHAPE, "softcap": 1.0, "sinks": True, **forgotten})
    attention = attention_for("naive", other, None, "cpu")[1]
    assert not check_attention(attention, case, "cpu").ok


def test_pages_hold_the_keys_of_their_sequence_in_any_order():
    case = Case("naive", **SHAPE, page_size=4, kv_dtype="fp8")
    flat = Case("naive", **SHAPE, kv_dtype="fp8")
    draw = lambda of: draw_inputs(of, "cpu", torch.Generator().manual_seed(3))  # noqa: E731
    (_, k, v), (_, flat_k, flat_v) = draw(case), draw(flat)
    assert k.shape == (10, 4, 2, 8)
    assert k.dtype == torch.float8_e4m3fn
    table = page_table(case, "cpu")
    assert sorted(table.flatten().tolist()) == list(range(10))
    assert table.flatten().tolist() != list(range(10))
    for plain, expected in zip(plain_keys(case, k, v, table), (flat_k, flat_v), strict=True):
        torch.testing.assert_close(plain, expected.float())


def rough(q, k, v, is_causal):
    return 1.005 * torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)


def test_an_error_beyond_rounding_is_wrong_unless_it_is_allowed():
    case = Case("tests.workload.measuring.test_case_tensors:rough", seq=32, dtype="fp32")
    with pytest.raises(WrongResultError, match="differs from the float64 reference by 0.005"):
        check_case(case, "cpu")
    with pytest.raises(WrongResultError):
        check_case(case, "cpu", allow_error=1e-3)
    assert check_case(case, "cpu", allow_error=1e-2)["approximate"]
    assert not check_case(Case("math", seq=32, dtype="fp32"), "cpu", allow_error=1e-2)["approximate"]
