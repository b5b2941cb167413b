"""Events by process, and the trace of one process alone."""

import contextlib
import sqlite3

from nsysprof.trace.open import open_trace
from nsysprof.trace.recorded import count_by_process, write_process_trace


def test_the_processes_of_a_trace_add_up_and_each_can_stand_alone(trace_path, tmp_path):
    whole = trace_path("mp")
    with open_trace(whole) as trace:
        counts = count_by_process(trace)
    with contextlib.closing(sqlite3.connect(whole)) as connection:
        ((kernels,),) = connection.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL")
        ((names,),) = connection.execute("SELECT count(*) FROM StringIds")
    with_work = [pid for pid, each in counts.items() if each.has_gpu_work]
    assert len(with_work) == 2
    assert sum(counts[pid].kernels for pid in with_work) == kernels
    for pid in with_work:
        alone = tmp_path / f"{pid}.sqlite"
        write_process_trace(whole, pid, alone)
        with open_trace(alone) as trace:
            assert count_by_process(trace) == {pid: counts[pid]}
        with contextlib.closing(sqlite3.connect(alone)) as connection:
            assert connection.execute("SELECT count(*) FROM StringIds").fetchone() == (names,)
