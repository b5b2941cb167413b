"""Real traces with real damage: whatever is read adds up, and whatever is not read says so."""

import random

import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.errors import TraceError
from nsysprof.native import load
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables, split_diagnostics
from tests.builders.build_trace import TraceBuilder


def damage(content, source):
    broken = bytearray(content)
    kind = source.randrange(3)
    if kind == 0:
        for _ in range(source.choice((1, 5, 50, 500))):
            broken[source.randrange(len(broken))] = source.randrange(256)
    elif kind == 1:
        page = source.randrange(len(broken) // 4096) * 4096
        broken[page : page + 4096] = source.choice((bytes(4096), source.randbytes(4096)))
    else:
        del broken[source.randrange(len(broken)) :]
    return broken


@pytest.mark.parametrize(
    "name", ["mem", "sdpa22", *(pytest.param(name, marks=pytest.mark.slow) for name in ("graph_node", "mp"))]
)
def test_flipped_bytes_lost_pages_and_cut_ends(trace_path, tmp_path, name):
    content = trace_path(name).read_bytes()
    source = random.Random(name)
    path = tmp_path / "broken.sqlite"
    outcomes = {"read": 0, "refused": 0}
    for _ in range(40):
        broken = damage(content, source)
        path.write_bytes(broken)
        try:
            with open_trace(path) as trace:
                analysis = summarize(read_tables(trace))
        except TraceError as error:
            assert error.next_step
            outcomes["refused"] += 1
        else:
            coverage = analysis.coverage
            assert coverage.kernels == coverage.attributed_kernels + sum(coverage.reasons.values())
            outcomes["read"] += 1
        assert path.read_bytes() == broken
    assert min(outcomes.values()) > 0


def test_an_error_of_sqlite_that_quotes_the_damage_is_an_error_of_ours(trace_path, tmp_path):
    content = bytearray(trace_path("mem").read_bytes())
    at = content.index(b"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY")
    content[at + 13 : at + 15] = b"\xff\xfe"
    path = tmp_path / "broken.sqlite"
    path.write_bytes(content)
    with pytest.raises(TraceError, match="damaged"), open_trace(path):
        pass


def test_messages_of_nsys_with_a_lost_text(tmp_path, monkeypatch):
    """Their processes were read apart from their texts, which lie on other pages: exit 70."""
    builder = TraceBuilder("2025.3")
    builder.launch(0, 1)
    for number in range(3):
        builder.put(
            "DIAGNOSTIC_EVENT", timestamp=number, timestampType=1, source=1, severity=2, text="x" * 9000, globalPid=1
        )
    path = builder.write(tmp_path / "t.sqlite")
    content = path.read_bytes()
    size = int.from_bytes(content[16:18], "big")
    chain = (at for at in range(0, len(content), size) if content[at + 4 : at + size] == b"x" * (size - 4))
    at = next(at for at in chain if any(content[at : at + 4]))
    path.write_bytes(content[:at] + b"\xff" * 4 + content[at + 4 :])  # the next page of the text is none
    monkeypatch.setattr(load, "is_wanted", lambda _unit: False)
    with open_trace(path) as trace:
        assert split_diagnostics(trace, ()) == ([], [])
        assert [loss.note.code for loss in trace.losses] == ["table-unreadable"]
