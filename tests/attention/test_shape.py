import pandas as pd
import pytest

from nsysprof.attention.shape import Case, attention_flops, least_bytes, named_columns, row_of_case, seen_keys
from nsysprof.results.roof import find_peak, settle_peak

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

FULL = Case("flash", seq=512, batch=32, heads=8, head_dim=64, causal=False)


def test_flops_of_a_shape_worked_out_by_hand():
    assert attention_flops(FULL) == 4 * 32 * 8 * 512 * 512 * 64 == pytest.approx(17.18e9, rel=1e-3)


@pytest.mark.parametrize(("pass_", "factor"), [("fwd", 1), ("bwd", 2.5), ("fwdbwd", 3.5)])
def test_passes_and_masks(pass_, factor):
    causal = Case("flash", seq=512, batch=32, heads=8, head_dim=64, causal=True, pass_=pass_)
    assert attention_flops(causal) == attention_flops(FULL) / 2 * factor


def test_least_bytes():
    tensor = 32 * 8 * 512 * 64 * 2
    assert least_bytes(FULL) == 4 * tensor
    backward = Case("flash", seq=512, batch=32, heads=8, head_dim=64, pass_="bwd")
    assert least_bytes(backward) == 8 * tensor
    both = Case("flash", seq=512, batch=32, heads=8, head_dim=64, pass_="fwdbwd")
    assert least_bytes(both) == 12 * tensor


def test_decode_reads_the_whole_cache_and_little_else():
    decode = Case("flash", seq=1, kv_seq=4096, batch=8, heads=32, kv_heads=8, head_dim=128, causal=False)
    cache, query = 2 * 8 * 8 * 4096 * 128 * 2, 8 * 32 * 128 * 2
    assert least_bytes(decode) == cache + 2 * query
    assert attention_flops(decode) == 4 * 8 * 32 * 4096 * 128


def test_a_cache_in_eight_bits_and_pages_moves_half_the_bytes_and_its_table():
    plain = {"seq": 1, "kv_seq": 4096, "batch": 8, "heads": 32, "kv_heads": 8, "head_dim": 128, "causal": False}
    query, keys = 8 * 32 * 128 * 2, 2 * 8 * 8 * 4096 * 128
    eight = Case("naive", **plain, kv_dtype="fp8")
    assert least_bytes(eight) == keys + 2 * query
    assert least_bytes(Case("naive", **plain, kv_dtype="fp8", page_size=16)) == keys + 2 * query + 8 * 256 * 4
    seen = Case("naive", **plain, page_size=16, mask="window:1023:all")
    assert least_bytes(seen) == 2 * keys // 4 + 2 * query + 8 * 64 * 4
    assert attention_flops(eight) == attention_flops(Case("naive", **plain, softcap=50.0, sinks=True))


def test_values_of_another_size_count_in_their_own_product():
    latent = {"seq": 1, "kv_seq": 8192, "batch": 4, "heads": 128, "kv_heads": 1, "head_dim": 576, "causal": False}
    case = Case("naive", **latent, head_dim_v=512)
    assert attention_flops(case) == 2 * 4 * 128 * 8192 * (576 + 512)
    assert least_bytes(case) == 2 * 4 * (8192 * (576 + 512) + 128 * (576 + 512))
    both = Case("naive", seq=64, heads=2, head_dim=24, head_dim_v=16, causal=False, pass_="bwd")
    q, k, v, out = (2 * 64 * size * 2 for size in (24, 24, 16, 16))
    assert least_bytes(both) == (q + k + v) + 2 * out + (q + k + v)


def test_a_causal_mask_of_unequal_lengths_is_from_the_top_left_as_torch_has_it():
    decode = Case("flash", seq=4, kv_seq=16, heads=1, head_dim=8)
    seen = torch.ones(4, 16, dtype=torch.bool).tril()
    q, k, v = (torch.randn(1, 1, length, 8, dtype=torch.float64) for length in (4, 16, 16))
    torch.testing.assert_close(
        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        torch.nn.functional.scaled_dot_product_attention(q, k, v, seen),
    )
    assert attention_flops(decode) == 4 * 8 * int(seen.sum())
    assert seen_keys(decode) == int(seen.any(dim=0).sum()) == 4
    assert least_bytes(decode) == (4 + 4 + 4 + 4) * 8 * 2
    longer = Case("flash", seq=16, kv_seq=4, heads=1, head_dim=8)
    assert attention_flops(longer) == 4 * 8 * int(torch.ones(16, 4).tril().sum())
    assert seen_keys(longer) == 4


def test_a_mask_is_read_and_a_learned_one_gets_a_gradient():
    plain = {"seq": 16, "batch": 2, "causal": False}
    bare, both = Case("math", **plain), Case("math", **plain, pass_="bwd")
    for mask, size in (("bool:b11k", 2 * 16), ("float:11qk", 16 * 16 * 2), ("window:4:0", 0)):
        assert least_bytes(Case("math", **plain, mask=mask)) == least_bytes(bare) + size * (mask[:6] != "window")
    learned = Case("math", **plain, mask="learned:11qk", pass_="bwd")
    assert least_bytes(learned) == least_bytes(both) + 2 * 16 * 16 * 2


def test_columns_that_tell_cases_apart():
    square = pd.DataFrame([row_of_case(Case("math", seq=seq)) for seq in (8, 16)])
    assert named_columns(square) == ["seq"]
    decode = pd.DataFrame([row_of_case(Case("math", seq=1, kv_seq=64, heads=heads)) for heads in (4, 8)])
    assert named_columns(decode) == ["seq", "heads", "kv_seq"]


@pytest.mark.parametrize(
    ("name", "bandwidth", "half"),
    [
        ("NVIDIA H200", 4.8e12, 989.4e12),
        ("NVIDIA H100 80GB HBM3", 3.35e12, 989.4e12),
        ("NVIDIA L4", 300e9, 121e12),
        ("NVIDIA L40S", 864e9, 362.05e12),
    ],
)
def test_datasheets_are_dense_peaks(name, bandwidth, half):
    peak = find_peak(name)
    assert (peak.bytes_per_s, peak.flops["fp16"]) == (bandwidth, half)


@pytest.mark.parametrize("name", [None, "", "NVIDIA L40", "NVIDIA GeForce RTX 4060 Ti", "Tesla T4"])
def test_what_is_not_in_the_table_is_unknown(name):
    assert find_peak(name) is None


def test_rates_that_were_measured_on_this_machine_come_before_the_datasheet():
    ceilings = {"bytes_per_s": 4.1e12, "flops": {"bf16": 700e12, "fp32": None}, "gpu_name": "NVIDIA H200"}
    peak = settle_peak("NVIDIA H200", ceilings)
    assert (peak.bytes_per_s, peak.flops["bf16"], peak.flops["tf32"]) == (4.1e12, 700e12, 494.7e12)
    assert peak.source_of("bf16") == "measured on this machine, bf16"
    assert peak.source_of("tf32") == "datasheet, dense tf32"
    assert settle_peak("Some new GPU", ceilings | {"gpu_name": "Some new GPU"}).flops == {"bf16": 700e12}
    assert settle_peak("NVIDIA H100 80GB HBM3", ceilings) == find_peak("NVIDIA H100 80GB HBM3")
    assert settle_peak("NVIDIA H200", {}) == find_peak("NVIDIA H200")
