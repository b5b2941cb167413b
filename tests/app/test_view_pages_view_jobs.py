"""Work behind pages: one after the other, once, and ended with the view."""

import threading
import time
from pathlib import Path

from nsysprof.app.view import Jobs
from nsysprof.errors import TraceError


def wait(jobs, key):
    for _ in range(500):
        if jobs.of(key).is_over:
            return jobs.of(key)
        time.sleep(0.01)
    raise AssertionError(jobs.of(key))


def test_each_is_done_once_and_failures_stop_nothing():
    jobs, done = Jobs(), []

    def fails(progress):
        raise TraceError("It is broken.", "Mend it.")

    def is_faulty(progress):
        raise ZeroDivisionError("of ours")

    def works(progress):
        done.append(1)
        return Path("here")

    jobs.start("bad", fails)
    jobs.start("worse", is_faulty)
    jobs.start("good", works)
    jobs.start("good", works)
    assert wait(jobs, "good").result == Path("here")
    assert wait(jobs, "bad").error.next_step == "Mend it."
    assert "ZeroDivisionError" in wait(jobs, "worse").error.text
    assert done == [1]
    assert jobs.of("other") is None
    jobs.close()


def test_the_end_stops_work_at_its_next_step_and_drops_the_rest():
    jobs, is_there, go_on, done = Jobs(), threading.Event(), threading.Event(), []

    def long(progress):
        with progress.rows("write", 10) as advance:
            advance(4)
            is_there.set()
            go_on.wait(10)
            advance(1)
        done.append("long")
        return Path("here")

    def never(progress):
        done.append("never")
        return Path("here")

    jobs.start("long", long)
    assert jobs.start("never", never).step == "waits for 1 before it"
    assert is_there.wait(10)
    assert jobs.of("long").step == "write: 4 of 10"
    threading.Timer(0.1, go_on.set).start()
    jobs.close()
    assert done == []
    assert "ended" in jobs.of("long").error.text
