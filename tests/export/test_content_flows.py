import numpy as np

from nsysprof.export.content import Flows
from tests.builders.build_trace import TraceBuilder
from tests.export.contents import content_of


def flows_of(builder, tmp_path):
    content = content_of(builder.write(tmp_path / "t.sqlite"))
    return content, Flows(content.work)


def pairs(content, flows):
    """Return call and work by the number of their arrow, as each of the two sides tells it."""
    rows, calls = content.work.numbers(), np.arange(len(content.calls))
    into = {int(flow): int(row) for row, flow in zip(rows, flows.into(rows), strict=True) if flow}
    out = {int(flow): int(call) for call, flow in zip(calls, flows.out_of(calls), strict=True) if flow}
    count, more = flows.more_out_of(calls)
    out |= dict(zip(more.tolist(), np.repeat(calls, count).tolist(), strict=True))
    return into, out


def test_each_work_of_a_call_has_an_arrow_of_its_own(tmp_path):
    builder = TraceBuilder()
    for call, correlation in enumerate((7, 8, 9)):
        builder.call(10 * call, 10 * call + 5, correlation)
    for start, correlation in ((100, 7), (120, 9), (110, 9), (130, None), (140, 9)):
        builder.kernel(start, start + 5, correlation)
    content, flows = flows_of(builder, tmp_path)
    into, out = pairs(content, flows)
    assert into.keys() == out.keys()
    assert len(into) == flows.count == 4
    start = content.work.start_ns
    assert sorted((out[flow], int(start[row])) for flow, row in into.items()) == [
        (0, 100),
        (2, 110),
        (2, 120),
        (2, 140),
    ]


def test_without_launches_there_is_no_arrow(tmp_path):
    builder = TraceBuilder()
    builder.kernel(1, 2, None)
    content, flows = flows_of(builder, tmp_path)
    assert (pairs(content, flows), flows.count) == (({}, {}), 0)
