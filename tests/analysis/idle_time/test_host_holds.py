"""A host that sleeps, polls or waits for a request waits for work: no time to save, and no host work."""

import subprocess
import sys

import pytest

from nsysprof.app.analyze import analyze_trace
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import OTHER_TID, TraceBuilder

STEP_NS, STEPS, WAIT_NS = 10_000_000, 40, 6_500_000


def build(tmp_path, name, *, tid=None, where="request", part=1.0, others=()):
    """Write a trace of a service: 3 ms of work for each request, and 6.5 ms of waiting for the next."""
    trace = TraceBuilder()
    trace.gpu()
    for step in range(STEPS):
        start, number = step * STEP_NS, step + 1
        trace.range(start, start + STEP_NS - 1000, "step")
        trace.call(start + 1000, start + 6000, number)
        trace.kernel(start + 7000, start + 3_000_000, number, "work")
        trace.call(start + 10_000, start + 3_050_000, None, "cudaStreamSynchronize_v3020")
        trace.range(start + 3_100_000, start + 3_400_000 + WAIT_NS, where)
        if name:
            end = start + 3_200_000 + int(part * WAIT_NS)
            trace.system_call(start + 3_200_000, end, name, **({} if tid is None else {"tid": tid}))
        for other in others:
            trace.system_call(start + 100_000, start + 200_000, other)
    return analyze_trace(trace.write(tmp_path / "t.sqlite"))


def causes(analysis):
    table = analysis.idle.table
    return table[table["range"] == ""].set_index("cause")["idle_ns"].to_dict()


def findings(analysis):
    return {item.code: item for item in analysis.findings.items}


@pytest.mark.parametrize("name", ["clock_nanosleep", "poll", "epoll_wait", "recv", "accept4", "sem_wait"])
def test_waiting_for_work_is_a_cause_without_a_saving(tmp_path, name):
    analysis = build(tmp_path, name)
    # After the last step no work follows, so its wait ends no gap.
    assert causes(analysis)["waiting-for-work"] == (STEPS - 1) * WAIT_NS
    assert sum(causes(analysis).values()) == sum(device.idle_ns for device in analysis.idle.devices)
    left = findings(analysis).get("host-bound")
    assert left is None or left.saving_ns < STEP_NS - 3_000_000 - WAIT_NS


def test_what_is_left_beside_the_wait_is_host_work(tmp_path):
    analysis = build(tmp_path, "clock_nanosleep", part=0.5)
    finding = findings(analysis)["host-bound"]
    assert finding.saving_ns == pytest.approx(STEP_NS - 3_000_000 - WAIT_NS / 2, rel=0.03)
    assert "--trace" not in finding.text, "the system's calls were recorded"


@pytest.mark.parametrize(("name", "given"), [
    ("clock_nanosleep", {"where": "load the batch"}),  # a worker of the program may be faster
    ("clock_nanosleep", {"tid": OTHER_TID}),
    ("read", {}),  # perhaps of a file
    ("pthread_cond_timedwait", {"part": 0.8}),  # perhaps for Python's lock, which another thread holds
])  # fmt: skip
def test_other_waits_stay_host_work(tmp_path, name, given):
    analysis = build(tmp_path, name, **given)
    assert "waiting-for-work" not in causes(analysis)
    assert findings(analysis)["host-bound"].saving_ns > 0.35 * STEP_NS


@pytest.mark.parametrize(("name", "part"), [("poll", 1.0), ("", 1.0), ("pthread_cond_clockwait", 0.99)])
def test_a_wait_for_a_batch_of_the_data_loader_is_no_wait_for_work(tmp_path, name, part):
    analysis = build(tmp_path, name, where="nsysprof load", part=part)
    assert "waiting-for-work" not in causes(analysis)
    finding = findings(analysis)["host-bound"]
    assert finding.saving_ns > 0.35 * STEP_NS
    assert "takes a batch from the data loader" in finding.text
    assert "--trace" not in finding.text
    assert list(analysis.ranges["range"]) == ["step"], "it is no range of the program"


def test_without_calls_of_the_system_a_finding_says_what_to_record(tmp_path):
    text = findings(build(tmp_path, ""))["host-bound"].text
    assert "--trace=cuda,nvtx,osrt" in text


PROGRAM = """
import select, socket, threading, time
near, far = socket.socketpair()
for _ in range(3):
    time.sleep(0.02)
    threading.Timer(0.02, lambda: far.send(b"x")).start()
    select.select([near], [], [], 1)
    near.recv(1)
    begun = time.perf_counter()
    while time.perf_counter() < begun + 0.02:
        pass
"""


@pytest.mark.nsys
def test_a_recorded_program_shows_its_waits_and_not_its_work(nsys, tmp_path):
    report, path = tmp_path / "t.nsys-rep", tmp_path / "t.sqlite"
    options = ["--trace=osrt", "--sample=none", "--cpuctxsw=none", f"--output={report}"]
    for command in ([nsys, "profile", *options, sys.executable, "-c", PROGRAM],
                    [nsys, "export", "--type=sqlite", "-o", path, report]):  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, timeout=200)
    with open_trace(path) as trace:
        waits = read_tables(trace).waits
    main = waits[waits["global_tid"] % (1 << 24) == waits["global_tid"] // (1 << 24) % (1 << 24)]
    long = main[main["end_ns"] - main["start_ns"] > 15_000_000]
    assert len(long) == 6
