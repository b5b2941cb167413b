"""Each collection of Python's garbage is a range, and nothing else."""

import gc

from nsysprof.trace.table_readers.layer_ranges import split_host_ranges
from nsysprof.workload.program_start.collection_ranges import mark_collections


def test_each_collection_opens_and_closes_one_range():
    events = []
    mark = mark_collections(events.append, lambda: events.append("pop"))
    gc.callbacks.append(mark)
    try:
        gc.collect()
        gc.collect(0)
    finally:
        gc.callbacks.remove(mark)
    assert events == ["nsysprof gc 2", "pop", "nsysprof gc 0", "pop"]


def test_an_empty_trace_has_no_collections():
    assert split_host_ranges(None) == (None, None, None, None)
