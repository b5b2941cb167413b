import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof.attention.shape import Case  # noqa: E402
from nsysprof.workload.backends import load_attention  # noqa: E402
from nsysprof.workload.correctness_check import (  # noqa: E402
    FACTOR,
    Inputs,
    check_attention,
    choose_rows,
    reference_pieces,
    rounding_of,
)
from nsysprof.workload.refusal import IneligibleError, WrongResultError, eligibility  # noqa: E402
from tests.workload import wrong_kernels  # noqa: E402

DTYPES = ["fp16", "bf16", "fp32"]


def check(backend, case, **options):
    select, attention = load_attention(backend)
    with select, eligibility(backend):
        return check_attention(attention, case, "cpu", **options)


SHAPES = st.builds(
    lambda kv_heads, members, **fields: Case("math", heads=kv_heads * members, kv_heads=kv_heads, **fields),
    kv_heads=st.integers(1, 3),
    members=st.integers(1, 3),
    seq=st.integers(1, 300),
    batch=st.integers(1, 2),
    head_dim=st.sampled_from([1, 2, 7, 16, 64, 128]),
    dtype=st.sampled_from(DTYPES),
    causal=st.booleans(),
    pass_=st.sampled_from(["fwd", "fwdbwd"]),
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(SHAPES, st.sampled_from(["math", "flash", "auto", "naive"]))
def test_right_backends_pass_for_any_shape(case, backend):
    try:
        result = check(backend, case)
    except IneligibleError:
        return  # flash without gradients of grouped heads, say
    assert result.ok, result.reason
    assert result.reason == ""
    assert set(result.errors) == ({"out"} if case.pass_ == "fwd" else {"out", "dq", "dk", "dv"})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", ["math", "flash", "naive"])
def test_right_backends_stay_far_from_the_tolerance(backend, dtype):
    """What the choice of FACTOR rests on: no backend is 1.6 times as far from the exact result as the yardstick."""
    for seq in (256, 512):
        case = Case(backend, seq=seq, heads=2, head_dim=64, dtype=dtype, pass_="fwdbwd")
        result = check(backend, case)
        for name, error in result.errors.items():
            assert error < result.tolerances[name] * 1.6 / FACTOR, name


FORWARD = [
    ("scaled", "out differs from the float64 reference by 0.05"),
    ("other_scale", "out differs"),
    ("without_mask", "out differs"),
    ("mask_off_by_one", "out differs"),
    ("last_rows", "out differs"),
    ("one_head", "out differs"),
    ("heads_grouped_wrongly", "out differs"),
    ("not_a_number", "out holds NaN"),
    ("overwrites_q", "overwrites its input q"),
]
BACKWARD = [
    ("gradient_of_q", "dq differs from the float64 reference by 0.05"),
    ("gradient_of_k", "dk differs from the float64 reference by 0.05"),
    ("gradient_of_v", "dv differs from the float64 reference by 0.05"),
    ("no_gradient_of_k", "does not depend on k"),
]


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "reason"), FORWARD)
def test_each_wrong_kernel_is_found(name, reason, dtype, kv_heads):
    case = Case("x", seq=500, heads=4, head_dim=32, dtype=dtype, kv_heads=kv_heads)
    result = check_attention(getattr(wrong_kernels, name), case, "cpu")
    assert not result.ok
    assert reason in result.reason


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "reason"), BACKWARD)
def test_a_gradient_alone_that_is_wrong_is_found(name, reason, dtype):
    kernel = getattr(wrong_kernels, name)
    assert check_attention(kernel, Case("x", seq=200, heads=2, head_dim=32, dtype=dtype), "cpu").ok
    result = check_attention(kernel, Case("x", seq=200, heads=2, head_dim=32, dtype=dtype, pass_="bwd"), "cpu")
    assert not result.ok
    assert reason in result.reason


def test_one_wrong_row_in_thousands_is_found_and_located():
    case = Case("x", seq=4000, heads=3, head_dim=64, dtype="bf16", causal=False)
    result = check_attention(wrong_kernels.last_rows, case, "cpu", whole_work=1e12)
    assert result.errors["out"] < 2 * result.tolerances["out"], "the whole norm alone would hardly show it"
    assert "in queries 3968 to 3999 of batch 0, head" in result.reason


def test_fewer_bits_than_the_dtype_says_are_found_in_fp32():
    case = Case("x", seq=128, heads=2, head_dim=64, dtype="fp32")
    assert not check_attention(wrong_kernels.of_fewer_bits, case, "cpu").ok


@pytest.mark.parametrize("name", ["last_rows", "gradient_of_k", "without_mask", "right", "gradient_of_q"])
def test_a_long_sequence_is_checked_in_its_first_last_and_random_blocks(name):
    case = Case("x", seq=2000, heads=2, head_dim=16, dtype="fp16", pass_="fwdbwd")
    result = check_attention(getattr(wrong_kernels, name), case, "cpu", whole_work=1e8)
    assert result.checked == "720 of 2000 queries in blocks of 64"
    assert result.ok == (name == "right"), result.reason


def test_the_rows_that_are_compared():
    case = Case("x", seq=1000, heads=1)
    assert choose_rows(case, 1e12).tolist() == list(range(1000))
    few = choose_rows(case, 0).tolist()
    assert few == [*range(64), *range(960, 1000)]
    some = choose_rows(case, 3e7).tolist()
    assert some == sorted(set(some)) and 104 < len(some) < 1000
    assert choose_rows(Case("x", seq=1), 0).tolist() == [0]


@pytest.mark.parametrize("block_bytes", [1, 40_000, 1 << 28])
@pytest.mark.parametrize("causal", [True, False])
def test_the_reference_is_that_of_autograd_however_it_is_cut(causal, block_bytes):
    generator = torch.Generator().manual_seed(5)
    q, grad = (torch.randn(2, 6, 70, 8, generator=generator, dtype=torch.float64) for _ in range(2))
    k, v = (torch.randn(2, 3, 70, 8, generator=generator, dtype=torch.float64) for _ in range(2))
    leaves = [tensor.clone().requires_grad_() for tensor in (q, k, v)]
    expected = load_attention("naive")[1](*leaves, causal)
    gradients = torch.autograd.grad(expected, leaves, grad)
    found = {
        name: torch.zeros(6, 2 if name in ("out", "dq") else 1, 70, 8, dtype=torch.float64)
        for name in ("out", "dq", "dk", "dv")
    }
    for piece in reference_pieces(Inputs(q, k, v, grad, causal), torch.arange(70), block_bytes=block_bytes):
        for name, tensor in found.items():
            part = getattr(piece, name)
            if part is not None:
                rows = piece.rows if name in ("out", "dq") else torch.arange(70)
                tensor[piece.kv_heads, :, rows] = part
    for name, right in zip(("out", "dq", "dk", "dv"), (expected.detach(), *gradients), strict=True):
        torch.testing.assert_close(found[name].view(right.shape), right, rtol=1e-10, atol=1e-12)


def test_a_block_stays_within_its_bytes(monkeypatch):
    largest = 0
    softmax = torch.softmax

    def watch(scores, dim):
        nonlocal largest
        largest = max(largest, scores.numel() * 8)
        return softmax(scores, dim)

    monkeypatch.setattr(torch, "softmax", watch)
    q, k, v = (torch.randn(2, 4, 512, 8) for _ in range(3))
    list(reference_pieces(Inputs(q, k, v, None, False), torch.arange(512), block_bytes=1 << 20))
    assert 0 < largest * 8 <= 1 << 20


def test_tf32_keeps_ten_bits_of_the_fraction():
    cut = rounding_of("fp32", "cuda")
    values = torch.tensor([1 + 2**-10, 1 + 2**-11, -(1 + 2**-11), 1e-30, 3.0, math.pi], dtype=torch.float64)
    assert cut(values)[:3].tolist() == [1 + 2**-10, 1.0, -1.0]
    assert ((cut(values) - values).abs() <= values.abs() * 2**-10).all()


def test_what_the_kernel_itself_raises_passes_through():
    def fails(q, k, v, is_causal):
        raise ValueError("this kernel is wrong")

    with pytest.raises(ValueError, match="this kernel"):
        check_attention(fails, Case("x", seq=8), "cpu")


def test_a_result_of_another_form_is_a_wrong_one():
    result = check_attention(lambda q, k, v, c: q[:, :, :1], Case("x", seq=8), "cpu")
    assert not result.ok
    assert "returned the shape" in result.reason
    assert issubclass(WrongResultError, Exception)
