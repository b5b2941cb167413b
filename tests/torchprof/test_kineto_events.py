import json

import pytest

from nsysprof.errors import TraceDamagedError, TraceForeignError
from nsysprof.torchprof.kineto_events import int64, nanoseconds, read_event, read_events, read_header

EVENT = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2, "args": {"device": 0}}


def write(path, text):
    path.write_text(text)
    return path


def test_times_keep_their_nanoseconds_whatever_their_size():
    assert nanoseconds("1795338682534790.380") == 1795338682534790380
    assert nanoseconds("0.0005") == 0, "half of a nanosecond is rounded to the even one"
    assert [nanoseconds(bad) for bad in (None, True, "soon", "NaN", "1e30", [1])] == [None] * 6


@pytest.mark.parametrize(
    ("value", "number"),
    [(5, 5), ("5", 5), (5.0, 5), (5.5, None), (2**63, None), (-(2**63), -(2**63)), ("1e999999", None), (True, None)],
)
def test_only_whole_numbers_of_64_bits_are_numbers(value, number):
    assert int64(value) == number


def test_an_event_has_its_end_in_nanoseconds():
    event = read_event(EVENT)
    assert (event.category, event.name, event.tid, event.start_ns, event.end_ns) == ("kernel", "gemm", 7, 1500, 3500)
    assert read_event({**EVENT, "cat": "Kernel"}).category == "kernel"
    assert read_event({"ph": "i", "name": "[memory]", "ts": 1}).category == "memory"


@pytest.mark.parametrize("raw", [None, 5, [], {**EVENT, "ph": "B"}, {**EVENT, "cat": "python_function"}, {}])
def test_what_is_of_no_use_is_no_event(raw):
    assert read_event(raw) is None


def test_the_header_says_whether_kineto_wrote_the_file(tmp_path):
    path = write(tmp_path / "t.json", json.dumps({"baseTimeNanoseconds": 7, "deviceProperties": [{"id": 0}, 3],
                                                  "traceEvents": [EVENT, "x"]}))  # fmt: skip
    assert read_header(path)[:3] == (7, ({"id": 0},), True)
    assert [event.name for event in read_events(path)] == ["gemm"]
    other = write(tmp_path / "o.json", json.dumps({"traceEvents": []}))
    assert read_header(other)[:3] == (0, (), False)


def test_damage_is_told_from_a_foreign_file(tmp_path):
    with pytest.raises(TraceForeignError, match="no traceEvents"):
        read_header(write(tmp_path / "a.json", "[1, 2]"))
    cut = write(tmp_path / "b.json", json.dumps({"schemaVersion": 1, "traceEvents": [EVENT, EVENT]})[:-30])
    events = read_events(cut)
    assert next(events).name == "gemm"
    with pytest.raises(TraceDamagedError, match="after 2 complete values|after 1 complete values|complete values"):
        list(events)
