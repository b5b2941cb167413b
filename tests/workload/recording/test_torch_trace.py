import sqlite3
import time

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof import __version__  # noqa: E402
from nsysprof.workload.recording.torch_trace import TorchTrace  # noqa: E402


def query(path, sql):
    with sqlite3.connect(path) as database:
        rows = database.execute(sql).fetchall()
    database.close()
    return rows


@pytest.fixture
def trace_path(tmp_path):
    path = tmp_path / "torch.sqlite"
    trace = TorchTrace(str(path), time.time_ns(), "cpu")
    for name in ("RUN::math::S8", "RUN::naive::S8"):
        with trace.record():
            a = torch.ones(64, 64)
            with trace.annotate(name):
                for _ in range(3):
                    torch.bmm(a[None], a[None])
            del a
    trace.close()
    return path


def test_each_call_is_one_operator_inside_its_range(trace_path):
    rows = query(
        trace_path,
        """SELECT range.value, count(*) FROM NVTX_EVENTS AS nvtx JOIN StringIds AS range ON range.id = nvtx.textId
           JOIN CUPTI_ACTIVITY_KIND_KERNEL AS kernel ON kernel.start >= nvtx.start AND kernel.end <= nvtx.end
           JOIN StringIds AS name ON name.id = kernel.demangledName
           WHERE nvtx.eventType = 60 AND name.value = 'aten::bmm' GROUP BY 1 ORDER BY 1""",
    )
    assert rows == [("RUN::math::S8", 3), ("RUN::naive::S8", 3)]


def test_sessions_share_no_correlation_id_and_every_operator_has_its_call(trace_path):
    kernels = query(trace_path, "SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL")
    calls = query(trace_path, "SELECT correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME")
    assert len(set(kernels)) == len(kernels)
    assert sorted(kernels) == sorted(calls)


def test_everything_allocated_in_a_session_is_freed_in_it(trace_path):
    ((left, peak),) = query(
        trace_path,
        """SELECT sum(CASE memoryOperationType WHEN 0 THEN bytes ELSE -bytes END), max(bytes)
           FROM CUDA_GPU_MEMORY_USAGE_EVENTS""",
    )
    assert left == 0
    assert peak >= 64 * 64 * 4


def test_the_trace_says_what_it_is(trace_path):
    facts = dict(query(trace_path, "SELECT name, value FROM META_DATA_CAPTURE"))
    assert facts["NSYSPROF:TOOL"] == "torch"
    assert facts["NSYSPROF:WORK_KIND"] == "operator"
    assert query(trace_path, "SELECT name FROM TARGET_INFO_GPU") == [("cpu",)]
    first = query(trace_path, "SELECT value FROM NVTX_EVENTS JOIN StringIds ON id = textId ORDER BY start LIMIT 1")
    assert first == [(f"nsysprof {__version__}",)]


def test_a_session_that_fails_is_written_and_the_error_passes(tmp_path):
    trace = TorchTrace(str(tmp_path / "t.sqlite"), time.time_ns(), "cpu")
    with pytest.raises(ValueError, match="boom"), trace.record():
        torch.ones(8).exp()
        raise ValueError("boom")
    trace.close()
    assert query(tmp_path / "t.sqlite", "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL") != [(0,)]
