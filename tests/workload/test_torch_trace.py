import sqlite3
import time

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof import __version__  # noqa: E402
from nsysprof.workload.torch_trace import TorchTrace, global_tid, short_name  # noqa: E402


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


def test_ids_have_the_layout_of_nsys():
    tid = global_tid(0x123456, 0xABCDEF)
    assert (tid >> 24) & 0xFFFFFF == 0x123456
    assert tid & 0xFFFFFF == 0xABCDEF
    assert tid & ~0xFFFFFF == global_tid(0x123456, 0)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::Fill<float>>(int, float)",
            "vectorized_elementwise_kernel",
        ),
        ("sm80_xmma_gemm_f16f16", "sm80_xmma_gemm_f16f16"),
        ("void (anonymous namespace)::softmax_warp_forward<float, float>(float *, int)", "softmax_warp_forward"),
        (
            "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>, true>(Params)",
            "flash_fwd_kernel",
        ),
    ],
)
def test_short_names(name, short):
    assert short_name(name) == short
