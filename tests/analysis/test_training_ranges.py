"""Real trainings: backward holds every kernel that autograd's thread launched, although that thread has no range."""

import contextlib
import sqlite3

import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables

# Kernels by the thread of the call that launched them, straight from the file.
_BY_THREAD = """
SELECT call.globalTid, count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL AS kernel JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS call
ON call.correlationId = kernel.correlationId AND (call.globalTid & -16777216) = kernel.globalPid
WHERE call.eventClass != 67 GROUP BY 1
"""
_MAIN = """
SELECT globalTid FROM NVTX_EVENTS AS event LEFT JOIN StringIds ON StringIds.id = event.textId
WHERE coalesce(event.text, value) = 'backward' LIMIT 1
"""


def launched_by_autograd(path):
    """Return how many kernels the threads launched that never open the range `backward`."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (main,) = connection.execute(_MAIN).fetchone()
        return sum(count for thread, count in connection.execute(_BY_THREAD) if thread != main)


@pytest.mark.parametrize(
    "name", ["h200-faults/none", pytest.param("h200-programs/fsdp-even_rank0", marks=pytest.mark.slow)]
)
def test_backward_holds_all_of_autograds_kernels(name, trace_path):
    path = trace_path(name)
    with open_trace(path) as trace:
        ranges = summarize(read_tables(trace)).ranges.set_index("range")
    expected = launched_by_autograd(path)
    assert expected > 3000
    assert ranges.loc["backward", "adopted_kernel_count"] == expected
    of_others = ranges.drop(index="backward")
    # Steps enclose backward passes; nothing else adopts.
    assert set(of_others.loc[of_others["adopted_kernel_count"] > 0, "family"]) <= {"step#"}
    assert of_others.loc[of_others["family"] == "step#", "adopted_kernel_count"].sum() == expected
