import numpy as np

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.table_readers.gpus import read_gpus
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import OTHER_PID, PID, TraceBuilder


def gpus(builder, tmp_path):
    with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        return read_gpus(trace)


def test_processes_that_number_the_gpus_differently_meet_on_the_same_one(tmp_path):
    builder = TraceBuilder()
    builder.gpu(0, "first", cuda=0)
    builder.gpu(1, "second", cuda=1)
    for gpu, ordinal, pid in ((0, 0, PID), (1, 1, PID), (0, 1, OTHER_PID), (1, 0, OTHER_PID)):
        builder.cuda_device(gpu, ordinal, pid)
    builder.kernel(0, 100, None, device=0)
    builder.kernel(50, 150, None, device=1, pid=OTHER_PID)
    builder.kernel(0, 100, None, device=0, pid=OTHER_PID)
    builder.allocate(0, 1, 10, device=0)
    builder.allocate(1, 1, 20, device=1, pid=OTHER_PID)
    with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        analysis = summarize(read_tables(trace))
    assert [(device.device_id, device.name) for device in analysis.devices] == [(0, "first"), (1, "second")]
    assert analysis.timeline.gpu.sort_values("end_ns")["device_id"].tolist() == [0, 1, 0]
    assert analysis.totals.gpu_busy_ns == 150 + 100, "the first GPU's kernels overlap"
    assert analysis.totals.peak_vram_bytes == {0: 30}


def test_without_the_table_of_devices_ordinals_are_the_machines(tmp_path):
    builder = TraceBuilder()
    builder.gpu(0, "far", cuda=3)
    found = gpus(builder, tmp_path)
    assert [row.number for row in found.rows] == [3]
    assert found.number(PID, 3) == 3
    ordinal = np.array([3, 9])
    assert found.numbers(np.array([PID, PID]), ordinal).tolist() == [3, 9]


def test_gpus_that_processes_saw_alone_keep_their_ids(tmp_path):
    builder = TraceBuilder()
    builder.gpu(4)
    builder.gpu(5)
    builder.cuda_device(4, 0, PID)
    builder.cuda_device(5, 0, OTHER_PID)
    found = gpus(builder, tmp_path)
    assert [row.number for row in found.rows] == [4, 5], "both are 0 to their process"
    assert (found.number(PID, 0), found.number(OTHER_PID, 0)) == (4, 5)
