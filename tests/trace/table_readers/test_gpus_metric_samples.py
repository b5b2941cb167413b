import pytest

from nsysprof.trace.open import open_trace
from nsysprof.trace.table_readers.gpus import read_gpus, read_metric_samples
from tests.builders.build_trace import METRICS, TraceBuilder


@pytest.fixture
def read(tmp_path):
    def run(builder):
        with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
            return {s.name: list(zip(s.time_ns.tolist(), s.value.tolist(), strict=True)) for s in (
                read_metric_samples(trace, read_gpus(trace))
            )}  # fmt: skip

    return run


def test_every_metric_in_order_of_time(read):
    builder = TraceBuilder()
    builder.sampled_gpu()
    builder.metric_names()
    builder.sample(200, (1_980_000_000, 80, 1, 2))
    builder.sample(-100, (1_980_000_000, 70, 3, 4))
    found = read(builder)
    assert found.pop("GPC Clock Frequency [Hz]") == [(-100, 1_980_000_000), (200, 1_980_000_000)]
    assert found == {METRICS[1]: [(-100, 70), (200, 80)], METRICS[2]: [(-100, 3), (200, 1)], METRICS[3]: [
        (-100, 4), (200, 2)
    ]}  # fmt: skip


def test_samples_without_a_time_a_value_or_a_name_are_left_out(read):
    builder = TraceBuilder()
    builder.metric_names(("A [%]", None, "C [MHz]"))
    builder.sample(None, (1, 2, 3))
    builder.sample(5, ("text", 2, 1980))
    assert read(builder) == {"C [MHz]": [(5, 1980)]}


def test_json_events_of_older_versions(read):
    builder = TraceBuilder()
    builder.json_sample(10, '{"SM Active": "80", "DRAM Read Throughput": 3, "type": 7}')
    for junk in ("", "{", "[1]", "[" * 100_000, '{"SM Active": "x", "prev_pid": 5}', '{"SM Active": 1e999}'):
        builder.json_sample(20, junk)
    assert read(builder) == {"SM Active": [(10, 80)], "DRAM Read Throughput": [(10, 3)]}


def test_a_trace_without_metrics(read):
    builder = TraceBuilder()
    builder.launch(10, 1)
    assert read(builder) == {}
