from nsysprof.attention.shape import Case
from nsysprof.workload.job import EventReader, Job, append_event


def test_job_round_trip(tmp_path):
    job = Job((Case("math", seq=8),), ("B",), "timed", "none", "cpu", 9.0, "e", "s", 1, (0,), warmup_calls=3)
    job.write(tmp_path / "job.json")
    assert Job.read(tmp_path / "job.json") == job


def test_reader_returns_whole_lines_once_and_skips_broken_ones(tmp_path):
    path = tmp_path / "events"
    reader = EventReader(str(path))
    assert reader.read() == []
    append_event(str(path), "start", case=1)
    with path.open("ab") as stream:
        stream.write(b'{"event": "do')
    assert [event["event"] for event in reader.read()] == ["start"]
    with path.open("ab") as stream:
        stream.write(b'ne"}\nnot json\n')
    append_event(str(path), "last")
    assert [event["event"] for event in reader.read()] == ["done", "last"]
    assert reader.read() == []
