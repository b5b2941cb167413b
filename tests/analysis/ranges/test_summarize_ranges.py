from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import OTHER_TID, TraceBuilder


def test_places_come_after_what_encloses_them_and_count_all_of_their_instances(tmp_path):
    builder = TraceBuilder()
    for step in range(3):
        at = 10_000 * step
        builder.range(at, at + 9_000, f"step{step}")
        builder.range(at + 100, at + 3_000, "forward")
        builder.range(at + 3_100, at + 8_900, "backward")
        builder.launch(at + 200, 100 * step + 1)
        for number in range(5):
            builder.launch(at + 4_000 + 100 * number, 100 * step + 10 + number, tid=OTHER_TID)
    builder.range(50_000, 51_000, "forward")
    with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        tree = summarize(read_tables(trace)).range_tree
    rows = [
        (row["path"], row["depth"], row["instances"], row["kernel_count"], row["adopted_kernel_count"])
        for row in tree.to_dict("records")
    ]
    assert rows == [
        ("step#", 0, 3, 3, 15),
        ("step# > backward", 1, 3, 0, 15),
        ("step# > forward", 1, 3, 3, 0),
        ("forward", 0, 1, 0, 0),
    ]
    assert tree["wall_ns"].tolist() == [27_000, 17_400, 8_700, 1_000]
