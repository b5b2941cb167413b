import pytest

from nsysprof.attention.case import Case
from nsysprof.attention.shape import attention_flops, least_bytes
from nsysprof.results.device_limits import find_peak

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
