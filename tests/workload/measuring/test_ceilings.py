"""The ceilings of a device: what is not above the DRAM's rate is not the rate of the L2."""

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof.workload.measuring import ceilings  # noqa: E402


@pytest.mark.parametrize(("l2", "known"), [(2.0e12, None), (3.0e12, None), (5.5e12, 5.5e12), (None, None)])
def test_a_copy_within_the_l2_that_is_no_faster_than_dram_is_unknown(monkeypatch, l2, known):
    """An H100 copied 2.7 TB/s in pieces that fit its L2, and 3.0 TB/s from DRAM: it timed their starts."""
    monkeypatch.setattr(ceilings, "_copy_rate", lambda _device: 3.0e12)
    monkeypatch.setattr(ceilings, "_l2_rate", lambda _device: l2)
    assert ceilings.measure_ceilings("cpu", [])["l2_bytes_per_s"] == known
