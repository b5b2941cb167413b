"""Tiny traces with GPU metrics: what is found among many, and that bad input is a note and never an error."""

import random
import sqlite3

import pytest

from nsysprof.errors import TraceError
from nsysprof.trace.open import open_trace
from nsysprof.trace.table_readers.gpus import read_gpu_metrics, read_gpus
from tests.builders.build_trace import METRIC_TYPE, TraceBuilder

CLOCK = 1_980_000_000


def read(builder, tmp_path, change=None):
    """Return the metrics of a built trace and the codes of the notes that reading left."""
    path = builder.write(tmp_path / "t.sqlite")
    if change:
        with sqlite3.connect(path) as database:
            database.execute(change)
        database.close()
    with open_trace(path) as trace:
        return read_gpu_metrics(trace, read_gpus(trace)), [note.code for note in trace.notes]


def sampled(*values, gpu=0, builder=None):
    """Return samples every 100 ns from -100 on, of (clock, SM, read, write)."""
    builder = builder or TraceBuilder()
    if builder.tables.get("TARGET_INFO_GPU") is None:
        builder.sampled_gpu()
    builder.metric_names(gpu=gpu)
    for i, (read_pct, write_pct) in enumerate(values):
        builder.sample(100 * i - 100, (CLOCK, 90, read_pct, write_pct), gpu=gpu)
    return builder


def test_dram_counters_are_found_among_the_others_from_negative_times_on(tmp_path):
    metrics, notes = read(sampled((1, 2), (30, 40), (5, 6)), tmp_path)
    (series,) = metrics.series
    assert series.time_ns.tolist() == [-100, 0, 100]
    assert series.read_pct.tolist() == [1, 30, 5]
    assert series.write_pct.tolist() == [2, 40, 6]
    assert (series.gpu, series.device_id, series.period_ns) == (0, 0, 100)
    assert (series.peak_bytes_per_s, series.sm_active_max_pct, series.impossible) == (10**11, 90, 0)
    assert notes == []


@pytest.mark.parametrize(
    "names",
    [
        ("SM Active", "DRAM Read Throughput", "DRAM Write Throughput"),
        ("SMs Active [Throughput %]", "VRAM Read Bandwidth [Throughput %]", "VRAM Write Bandwidth [Throughput %]"),
        ("SM Active [%]", "DRAM Read Bandwidth [%]", "DRAM Write Bandwidth [%]"),
    ],
)
def test_the_names_of_other_versions_and_gpus(tmp_path, names):
    builder = TraceBuilder()
    builder.sampled_gpu()
    builder.metric_names(names)
    for at in (0, 100):
        builder.sample(at, (50, 10, 20))
    (series,) = read(builder, tmp_path)[0].series
    assert (series.read_pct[0], series.write_pct[0], series.sm_active_max_pct) == (10, 20, 50)


def test_links_and_pipes_are_read_beside_dram_in_percent_alone(tmp_path):
    builder = TraceBuilder()
    builder.sampled_gpu()
    builder.metric_names(
        ("SMs Active [Throughput %]", "DRAM Read Bandwidth [Throughput %]", "DRAM Write Bandwidth [Throughput %]",
         "Tensor Active [Throughput %]", "NVLink RX Responses User Data [Throughput %]", "NVLink bytes [Avg]",
         "PCIe TX Throughput [Throughput %]", "Pixel Warps in Flight [Throughput %]")
    )  # fmt: skip
    for at in (0, 100):
        builder.sample(at, (50, 10, 20, 30, 40, 4096, 60, 70))
    found = {series.metric: int(series.use_pct[0]) for series in read(builder, tmp_path)[0].use}
    assert found == {
        "SMs Active": 50, "Tensor Active": 30, "NVLink RX Responses User Data": 40, "PCIe TX Throughput": 60,
    }  # fmt: skip


def test_the_same_counter_in_another_unit_is_not_taken(tmp_path):
    builder = TraceBuilder()
    builder.sampled_gpu()
    kinds = ("Read Bandwidth [Avg]", "Read Bandwidth [Throughput %]", "Write Bandwidth [Throughput %]")
    builder.metric_names([f"DRAM {kind}" for kind in kinds])
    for at in (0, 100):
        builder.sample(at, (77, 10, 20))
    (series,) = read(builder, tmp_path)[0].series
    assert (series.read_pct[0], series.write_pct[0], series.sm_active_max_pct) == (10, 20, None)


def test_rows_out_of_order_and_twice(tmp_path):
    builder = sampled()
    for at, value in ((200, 3), (0, 1), (100, 2), (100, 9)):
        builder.sample(at, (CLOCK, 0, value, value))
    (series,) = read(builder, tmp_path)[0].series
    assert series.time_ns.tolist() == [0, 100, 200]
    assert series.read_pct.tolist() == [1, 2, 3]
    assert series.impossible == 1


def test_values_that_are_no_percentage_count_as_not_sampled(tmp_path):
    values = [(1, 1), (None, 1), (2, "12"), (-1, 1), (2**32 - 1, 1), (2.6, 1), (3, 3)]
    metrics, notes = read(sampled(*values), tmp_path, "UPDATE GPU_METRICS SET value = 'x' WHERE value = 12")
    (series,) = metrics.series
    assert series.read_pct.tolist() == [1, 3, 3]
    assert series.impossible == 4
    assert notes == ["gpu-metrics-impossible"]


def test_each_gpu_by_its_number_on_the_machine(tmp_path):
    builder = TraceBuilder()
    builder.sampled_gpu(0, cuda=1)
    builder.sampled_gpu(1, cuda=0)
    for gpu in (0, 1):
        sampled((gpu, 0), (gpu, 0), gpu=gpu, builder=builder)
    metrics = read(builder, tmp_path)[0]
    assert [(series.gpu, series.device_id, series.read_pct[0]) for series in metrics.series] == [(0, 1, 0), (1, 0, 1)]
    assert [metrics.gpu_of(device) for device in (0, 1, 7)] == [1, 0, None]


def test_of_two_types_of_one_gpu_the_one_with_samples(tmp_path):
    builder = sampled((1, 1), (2, 2), (3, 3))
    builder.metric_names(gpu=0x300)
    for at in (1000, 2000):
        builder.sample(at, (CLOCK, 0, 50, 50), gpu=0x300)
    (series,) = read(builder, tmp_path)[0].series
    assert series.read_pct.tolist() == [1, 2, 3]


@pytest.mark.parametrize("peak", [None, 0, -5, "fast", 3])
def test_a_peak_that_is_not_recorded_is_unknown(tmp_path, peak):
    builder = TraceBuilder()
    builder.sampled_gpu(peak=peak)
    metrics, notes = read(sampled((1, 1), (1, 1), builder=builder), tmp_path)
    assert metrics.series[0].peak_bytes_per_s is None
    assert notes == ["gpu-metrics-unusable"]


def test_a_trace_without_gpu_metrics_has_nothing_to_say(tmp_path):
    builder = TraceBuilder()
    builder.launch(0, 1)
    assert read(builder, tmp_path) == (None, [])


def test_an_empty_table_of_a_full_export_has_nothing_to_say(tmp_path):
    assert read(sampled((1, 1), (1, 1)), tmp_path, "DELETE FROM GPU_METRICS") == (None, [])


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE GPU_METRICS DROP COLUMN value",
        "DROP TABLE TARGET_INFO_GPU_METRICS",
        "DELETE FROM TARGET_INFO_GPU_METRICS WHERE metricName LIKE 'DRAM Write%'",
        "UPDATE TARGET_INFO_GPU_METRICS SET metricName = NULL",
        "UPDATE GPU_METRICS SET value = 'text'",
        "UPDATE GPU_METRICS SET timestamp = NULL",
        "UPDATE GPU_METRICS SET timestamp = 5",
    ],
)
def test_what_cannot_be_used_is_a_note(tmp_path, change):
    assert read(sampled((1, 1), (1, 1), (1, 1)), tmp_path, change) == (None, ["gpu-metrics-unusable"])


def test_a_gpu_that_the_trace_does_not_describe(tmp_path):
    metrics, notes = read(sampled((1, 1), (1, 1)), tmp_path, "DROP TABLE TARGET_INFO_GPU")
    assert metrics.series[0].device_id is metrics.series[0].peak_bytes_per_s is None
    assert notes == ["gpu-metrics-unusable"]


def test_json_events_of_older_versions(tmp_path):
    builder = TraceBuilder()
    builder.sampled_gpu()
    data = '{"SM Active": "80", "DRAM Read Throughput": "%s", "DRAM Write Throughput": %s}'
    for at, values in ((0, ("1", "2")), (100, ("3", "4")), (200, ("x", "4")), (300, ("5", '"6"'))):
        builder.json_sample(at, data % values)
    for junk in ("", "{", "[1]", '"text"', "[" * 100_000, '{"a": 1}'):
        builder.json_sample(400, junk)
    builder.json_sample(400, '{"comm": "another kind of event"}', gpu=1 << 8)
    metrics, notes = read(builder, tmp_path)
    (series,) = metrics.series
    assert series.time_ns.tolist() == [0, 100, 300]
    assert series.read_pct.tolist() == [1, 3, 5]
    assert series.write_pct.tolist() == [2, 4, 6]
    assert (series.gpu, series.sm_active_max_pct) == (METRIC_TYPE & 0xFF, 80)
    assert notes == ["gpu-metrics-impossible"]


def test_json_events_of_other_kinds_have_nothing_to_say(tmp_path):
    builder = TraceBuilder()
    builder.json_sample(0, '{"comm": "bash"}')
    assert read(builder, tmp_path) == (None, [])
    assert read_without_columns(builder, tmp_path) == (None, [])


def read_without_columns(builder, tmp_path):
    (tmp_path / "t.sqlite").unlink()
    return read(builder, tmp_path, "ALTER TABLE GENERIC_EVENTS DROP COLUMN data")


def test_the_real_trace(trace_path):
    with open_trace(trace_path("gm10k")) as trace:
        metrics = read_gpu_metrics(trace, read_gpus(trace))
        assert trace.notes == []
    (series,) = metrics.series
    assert len(series) == 5847
    assert series.time_ns[0] == -41240
    assert series.period_ns == 99999
    assert series.peak_bytes_per_s == 4_814_304_000_000
    assert (series.read_pct.max(), series.write_pct.max(), series.sm_active_max_pct) == (75, 32, 100)


def test_damage_is_a_note_or_leaves_fewer_samples(trace_path, tmp_path):
    content = trace_path("gm10k").read_bytes()
    source = random.Random(0)
    path = tmp_path / "broken.sqlite"
    outcomes = {"whole": 0, "noted": 0, "refused": 0}
    for _ in range(40):
        broken = bytearray(content)
        for _ in range(source.choice((1, 3, 10))):
            page = source.randrange(len(broken) // 4096) * 4096
            broken[page : page + 4096] = source.choice((bytes(4096), source.randbytes(4096)))
        path.write_bytes(broken)
        try:
            with open_trace(path) as trace:
                metrics = read_gpu_metrics(trace, read_gpus(trace))
                assert metrics is not None or trace.notes
                outcomes["noted" if trace.notes else "whole"] += 1
        except TraceError:
            outcomes["refused"] += 1
    assert outcomes["noted"] > 0
    assert outcomes["whole"] > 0
