"""One block on a real GPU: run by hand with `pytest -m gpu`, never in CI."""

import dataclasses

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof.attention.shape import Case  # noqa: E402
from nsysprof.workload.job import Job  # noqa: E402
from nsysprof.workload.measuring.ceilings import measure_ceilings  # noqa: E402
from nsysprof.workload.measuring.measure import measure_block  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")]


def test_the_peak_is_the_cases_and_not_that_of_the_flush(tmp_path):
    case = Case("flash", seq=2048, batch=4)
    job = Job(
        (case,), (), "timed", "none", "cuda", 60.0, str(tmp_path / "e"), str(tmp_path / "s"), 0, samples=20,
        sample_seconds=0.2, warmup_seconds=0.1, graph="never",
    )  # fmt: skip
    peaks = [measure_block(case, dataclasses.replace(job, flush=flush))["peak_bytes"] for flush in (True, False)]
    assert peaks[0] == peaks[1]
    assert case.input_bytes + case.output_bytes < peaks[0] < 1.2 * (case.input_bytes + case.output_bytes)


def test_ceilings_are_in_their_order():
    found = measure_ceilings("cuda", ["fp16", "fp32"])
    assert found["bytes_per_s"] > 1e11
    assert found["l2_bytes_per_s"] is None or found["l2_bytes_per_s"] > found["bytes_per_s"]
    assert found["flops"]["fp16"] > 3 * found["flops"]["fp32"]
    assert all(100 < clock < 4000 for clock in found["sm_clock_mhz"].values())
