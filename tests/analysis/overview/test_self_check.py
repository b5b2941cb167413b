import runpy
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from nsysprof.analysis.overview.self_check import check_recording
from nsysprof.results.checks import CudaProcess, Lost, WatchedGpu
from nsysprof.trace.open import open_trace
from nsysprof.trace.recorded import read_recorded
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import OTHER_PID, TraceBuilder


def check(path, watched=WatchedGpu()):  # noqa: B008
    with open_trace(path) as trace:
        return check_recording(read_tables(trace), read_recorded(trace), watched)


def program(tmp_path, *, kernels=20, calls=20, pid=None):
    builder = TraceBuilder()
    for number in range(1, calls + 1):
        builder.call(1000 * number, 1000 * number + 10, number)
        if number <= kernels:
            builder.kernel(1000 * number + 100, 1000 * number + 150, number)
    return builder


def codes(found):
    return [note.code for note in found.remarks.notes]


def test_a_real_trace_has_lost_nothing(trace_path):
    found = check(trace_path("sdpa"))
    assert (found.lost, found.kernels, found.launches) == ((), 1086, 1086)
    for name in ("graph_node", "graph_whole", "mp"):
        assert check(trace_path(name)).lost == (), name


# What the stand-in of tests/captured_programs/prove_captures.py plants, and by what it is found.
PLANTED = {
    "none": (),
    "a third of the kernels": (Lost.KERNELS, Lost.GRAPH_NODES),
    "one kernel in fifty": (Lost.KERNELS, Lost.GRAPH_NODES),
    "all kernels": (Lost.KERNELS,),
    "nodes of graphs": (Lost.GRAPH_NODES,),
    "all nodes of graphs": (Lost.KERNELS,),
    "the second half": (Lost.KERNELS,),
    "kernels of a process": (Lost.KERNELS,),
    "all of a process": (Lost.PROCESS,),
    "all of CUDA": (Lost.PROCESS,),
}


@pytest.mark.parametrize("loss", PLANTED)
def test_losses_that_are_planted_in_a_real_trace_are_found(trace_path, tmp_path, loss):
    losses = runpy.run_path(str(Path(__file__).parents[3] / "scripts/planted/lossy_nsys.py"))["LOSSES"]
    assert losses.keys() == PLANTED.keys()
    shutil.copyfile(trace_path("graph_node"), tmp_path / "t.sqlite")
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as database:
        (pid,) = database.execute("SELECT (globalPid >> 24) & 16777215 FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
        for statement in losses[loss]:
            with suppress(sqlite3.OperationalError):  # the trace has no such table
                database.execute(statement)
        database.commit()
    assert check(tmp_path / "t.sqlite", WatchedGpu((CudaProcess(pid, "p"),), is_whole=True)).lost == PLANTED[loss]


def test_what_older_versions_of_nsys_lost_on_a_new_driver(trace_path):
    assert check(trace_path("sdpa22")).lost == (), "not even a launch is in it"
    seen = WatchedGpu((CudaProcess(77, "python"),), busy_s=4.0, is_whole=True)
    assert set(check(trace_path("sdpa22"), seen).lost) == {Lost.PROCESS, Lost.KERNELS}
    # Its launches were lost together with their kernels, so that only the GPU's own busy time tells.
    assert codes(check(trace_path("sdpa23"))) == []
    assert codes(check(trace_path("sdpa23"), seen))[-1] == "busy-without-work"


@pytest.mark.parametrize(
    ("severity", "text", "lost"),
    [
        (2, "GPU Metrics [0]: Sampling buffer overflow", (Lost.SAMPLES,)),
        (3, "GPU Metrics [1]: Sampling buffer overflow", (Lost.SAMPLES,)),
        (2, "CUPTI dropped 17 records. Some CUPTI events might be missing.", (Lost.KERNELS,)),
        (2, "Couldn't allocate CUPTI buffers 3 times.Some CUPTI events might be missing.", (Lost.KERNELS,)),
        (2, "CUPTI dropped 0 records. Some CUPTI events might be missing.", ()),
        (2, "Not all CUDA events might have been collected.", ()),
    ],
)
def test_buffers_that_were_full_are_a_loss_whatever_severity_nsys_gives_that(tmp_path, severity, text, lost):
    builder = program(tmp_path)
    builder.row("DIAGNOSTIC_EVENT", "severity INTEGER, text TEXT", (severity, text))
    found = check(builder.write(tmp_path / "t.sqlite"))
    assert found.lost == lost
    assert len(found.remarks.notes) == 1
    assert bool(found.remarks.losses) is bool(lost)


def test_some_lost_launches(tmp_path):
    builder = program(tmp_path)
    builder.call(500, 510, 99)
    found = check(builder.write(tmp_path / "t.sqlite"))
    assert (found.lost, codes(found)) == ((Lost.KERNELS,), ["launches-without-kernels"])


def test_a_process_whose_kernels_are_all_lost_though_it_is_small(tmp_path):
    builder = program(tmp_path, calls=1000, kernels=1000)
    builder.call(500, 510, 7, tid=OTHER_PID | 1)
    found = check(builder.write(tmp_path / "t.sqlite"))
    assert found.lost == (Lost.KERNELS,)
    assert "process 200" in found.remarks.losses[0].note.text


def test_a_process_of_which_the_trace_has_nothing(tmp_path):
    path = program(tmp_path).write(tmp_path / "t.sqlite")
    seen = (CudaProcess(100, "main"), CudaProcess(321, "worker"))
    found = check(path, WatchedGpu(seen, is_whole=True))
    assert found.lost == (Lost.PROCESS,)
    assert found.remarks.losses[0].note.text.startswith("worker (321) used CUDA")
    assert check(path, WatchedGpu(seen)).lost == (), "only a part was recorded"


def test_a_gpu_that_worked_though_the_trace_has_nothing(tmp_path):
    nothing = TraceBuilder()
    nothing.range(10, 20, "a")
    path = nothing.write(tmp_path / "n.sqlite")
    ours = (CudaProcess(100, "main"),)
    assert check(path, WatchedGpu(ours, busy_s=3.0, is_whole=True)).lost == (Lost.PROCESS, Lost.KERNELS)
    assert check(path, WatchedGpu(busy_s=3.0, is_whole=True)).lost == (), "another program may have used it"
    for seen in (WatchedGpu(ours, 3.0, is_whole=True, is_shared=True), WatchedGpu(ours, 0.2, is_whole=True)):
        assert Lost.KERNELS not in check(path, seen).lost
    some = check(program(tmp_path).write(tmp_path / "t.sqlite"), WatchedGpu(ours, busy_s=4.0, is_whole=True))
    assert (some.lost, codes(some)) == ((), ["busy-without-work"])


def test_counters_that_show_work_though_the_trace_has_none(tmp_path):
    def sampled(percent, *, kernel=False):
        builder = TraceBuilder()
        builder.sampled_gpu(0, cuda=0)
        builder.metric_names()
        for number in range(400):
            builder.sample(100_000 * number, [1_000_000_000, percent, 5, 5])
        if kernel:
            builder.launch(1000, 1)
        return builder.write(tmp_path / f"{percent}{kernel}.sqlite")

    busy = sampled(50)
    found = check(busy)
    assert found.lost == (Lost.KERNELS,)
    assert "about 0.02 s by the sampled counters" in found.remarks.losses[0].note.text
    assert check(busy, WatchedGpu(is_shared=True)).lost == ()
    assert check(sampled(1)).lost == ()
    assert check(sampled(50, kernel=True)).lost == ()


def test_what_a_process_did_before_it_replaced_itself_is_missed(tmp_path):
    path = program(tmp_path).write(tmp_path / "t.sqlite")  # its first call is 1 us after the beginning
    began_ns, second = 1_700_000_000 * 10**9, 10**9

    def seen(after_ns, pid=100, **more):
        return WatchedGpu((CudaProcess(pid, "launcher", after_ns),), **{"is_whole": True, **more})

    def lost(watched, began_ns=began_ns):
        with open_trace(path) as trace:
            return check_recording(read_tables(trace), read_recorded(trace), watched, began_ns=began_ns)

    found = lost(seen(began_ns - second))
    assert found.lost == (Lost.REPLACED,), "all that is recorded came after"
    assert found.remarks.losses[0].note.text.startswith("launcher (100) used CUDA and then replaced itself")
    assert lost(seen(began_ns + second)).lost == (), "the trace has calls from before"
    assert lost(seen(None)).lost == ()
    assert lost(seen(began_ns - second, is_whole=False)).lost == (), "only a part was recorded"
    assert lost(seen(began_ns + second, pid=7)).lost == (Lost.REPLACED,), "nothing of it is recorded, before or after"
    assert lost(seen(began_ns + second), None).lost == (Lost.REPLACED,), "a trace without a clock proves nothing"
