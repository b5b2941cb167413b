import pandas as pd
import pytest

from nsysprof.results.roof import COUNTED, SAMPLED, dram_of, known, roof_of

SAMPLES = {
    "traced_calls": 4, "sampled_read_bytes": 400, "sampled_write_bytes": 100, "sampled_read_error_bytes": 40,
    "sampled_write_error_bytes": 20,
}  # fmt: skip


def test_the_roof_is_the_lower_of_memory_and_arithmetic():
    roof = roof_of({"ceilings": {"bytes_per_s": 1e12, "flops": {"fp16": 1e15}}, "gpu_name": "NVIDIA H200"})
    assert roof.flops_at(10, "fp16") == 1e13
    assert roof.flops_at(10_000, "fp16") == 1e15
    assert roof.flops_at(10, "fp8") is None
    assert roof.datasheet.bytes_per_s == pytest.approx(4.8e12, rel=0.02)


@pytest.mark.parametrize("environment", [{}, {"ceilings": None}, {"ceilings": {"bytes_per_s": None}}])
def test_without_a_measured_bandwidth_there_is_no_roof(environment):
    assert roof_of(environment) is None


def test_counted_bytes_come_before_sampled_ones():
    assert dram_of({**SAMPLES, "counted_read_bytes": 90, "counted_write_bytes": 10}) == (100, None, COUNTED)
    assert dram_of({**SAMPLES, "counted_read_bytes": 90, "counted_write_bytes": pd.NA}) == (125, 15, SAMPLED)
    assert dram_of({**SAMPLES, "traced_calls": pd.NA}) == (None, None, "")


def test_no_kind_of_unknown_is_a_number():
    assert [known(value) for value in (None, pd.NA, float("nan"), 0, "")] == [None, None, None, 0, ""]
