import pandas as pd

from nsysprof.analysis.comparison.compare_owners import compare_owners
from nsysprof.results.allocator_memory import AllocatorMemory, OwnedInSlices, OwnedOverTime


def memory(name, **owners):
    table = pd.DataFrame({"owner": list(owners), "peak_bytes": list(owners.values())})
    over_time = OwnedOverTime((), False, OwnedInSlices.none())
    return AllocatorMemory(name, "", 0, (), 0, table, over_time)


def changes(found):
    return [(change.owner, change.now, change.difference_bytes) for change in found.changes]


def test_owners_are_joined_by_line_then_by_function_and_add_up():
    before = memory("a", **{"m.py:10 f": 100, "m.py:20 f": 50, "m.py:5 g": 7, "gone.py:1 h": 3})
    after = memory("b", **{"m.py:11 f": 100, "m.py:21 f": 80, "m.py:5 g": 7, "new.py:1 k": 4})
    found = compare_owners(before, after)
    assert changes(found) == [
        ("m.py:20 f", "m.py:21 f", 30), ("new.py:1 k", "", 4), ("gone.py:1 h", "", -3), ("m.py:10 f", "m.py:11 f", 0),
        ("m.py:5 g", "", 0),
    ]  # fmt: skip
    assert found.candidate_peak_bytes - found.baseline_peak_bytes == sum(change[2] for change in changes(found)) == 31


def test_a_function_with_another_number_of_lines_is_not_guessed():
    found = compare_owners(memory("a", **{"m.py:1 f": 5}), memory("b", **{"m.py:2 f": 5, "m.py:3 f": 5}))
    assert {change[0] for change in changes(found)} == {"m.py:1 f", "m.py:2 f", "m.py:3 f"}
