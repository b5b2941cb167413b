import json
import threading
import time
from types import SimpleNamespace

import pytest

from nsysprof.workload.program_start import range_times
from nsysprof.workload.program_start.range_times import RangeTimes


@pytest.fixture
def times(tmp_path, monkeypatch):
    monkeypatch.setattr(range_times, "_LOOK_NS", 0)
    return RangeTimes(str(tmp_path))


def noted(folder):
    return [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]


def test_ranges_are_noted_while_somebody_asks_and_only_then(times, tmp_path):
    times.push("before")
    times.pop()
    (tmp_path / "on").touch()
    begun = time.monotonic_ns()
    times.push("outer")
    times.push("inner")
    times.pop()
    times.pop()
    (tmp_path / "on").unlink()
    times.push("after")
    times.pop()
    times.pop()  # one that nobody has pushed
    found = noted(tmp_path)
    assert [name for name, _, _ in found] == ["inner", "outer"]
    assert begun <= found[1][1] <= found[0][1] <= found[0][2] <= found[1][2] <= time.monotonic_ns()


def test_threads_have_ranges_of_their_own_and_many_are_written_early(times, tmp_path):
    (tmp_path / "on").touch()

    def work():
        for _ in range(700):
            times.push("step")
            times.pop()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (tmp_path / "on").unlink()
    times.push("last")
    assert len(noted(tmp_path)) == 1400


def test_the_functions_that_mark_ranges_are_still_called(monkeypatch):
    calls, seen = [], []
    nvtx = SimpleNamespace(range_push=lambda name: calls.append(name) or 3, range_pop=lambda: calls.append("pop") or 2)
    monkeypatch.setattr(range_times.importlib.util, "find_spec", lambda _name: None)
    range_times.mark_ranges(SimpleNamespace(cuda=SimpleNamespace(nvtx=nvtx)), seen.append, lambda: seen.append("end"))
    assert (nvtx.range_push("a"), nvtx.range_pop()) == (3, 2)
    assert (calls, seen) == (["a", "pop"], ["a", "end"])
