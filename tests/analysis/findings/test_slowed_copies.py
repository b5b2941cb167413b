"""Copies behind memory that was given back: what a trace shows of them counts, and nothing without that."""

import pytest

from tests.analysis.programs import MS, US, Program

STEPS, UNSLOWED, SLOWED = 8, 30 * MS, 70 * MS
CALLS = 4 * MS


def training(times, *, host=0):
    """Return steps that copy 256 MiB in these times (ns), and then give memory back and allocate it again."""
    program = Program()
    for time in times:
        begin = program.now
        program.copy(256 << 20, time, host=host)
        for _ in range(20):
            program.launch(200 * US)
        program.call("cudaFree_v3020", CALLS // 2, waits=True)
        program.call("cudaMalloc_v3020", CALLS // 2)
        program.step(begin)
    return program.builder


def by_code(findings, builder):
    """Return the findings by their codes."""
    return {item.code: item for item in findings(builder).items}


def test_a_pinned_copy_that_is_slowed_belongs_to_what_gave_memory_back(findings):
    item = by_code(findings, training([UNSLOWED] + [SLOWED] * (STEPS - 1), host=1))["alloc-in-loop"]
    assert item.saving_ns == pytest.approx(CALLS + SLOWED - UNSLOWED, rel=0.05)
    # The copies may be slow for another reason.
    assert item.saving_low_ns == pytest.approx(CALLS, rel=0.05)
    assert "slows 1 copy of 256 MiB to 70.0 ms each, from 30.0 ms before." in item.text


def test_each_of_two_remedies_would_save_the_whole_time_but_not_both(findings):
    found = findings(training([UNSLOWED] + [SLOWED] * (STEPS - 1)))
    items = {item.code: item for item in found.items}
    extra, plain = SLOWED - UNSLOWED, by_code(findings, training([UNSLOWED] * STEPS))
    for code, other in (("alloc-in-loop", "pageable-copy"), ("pageable-copy", "alloc-in-loop")):
        item, without = items[code], plain[code].saving_ns
        assert item.saving_ns == pytest.approx(without + extra, rel=0.05)
        assert item.saving_low_ns <= 1.05 * without
        # The rate of an unknown bus has a wide interval of its own.
        # The host of another process copies up to a quarter longer.
        assert item.saving_high_ns == pytest.approx(plain[code].saving_high_ns + 1.25 * extra, rel=0.05)
        assert item.text.endswith(f" Up to 40.0 ms of this would be saved by {other}, too.")
    assert found.together_ns == pytest.approx(sum(item.saving_ns for item in found.items) - extra, rel=0.05)


@pytest.mark.parametrize(
    "times",
    [
        # No copy before memory was given back was faster.
        [SLOWED] * STEPS,
        # One behind memory that was given back is as fast as the first one.
        [UNSLOWED, *[SLOWED] * (STEPS - 2), UNSLOWED],
        # Pageable copies differ by as much from each other.
        [UNSLOWED] + [UNSLOWED * 6 // 5] * (STEPS - 1),
    ],
)
def test_without_evidence_only_the_calls_count(findings, times):
    item = by_code(findings, training(times))["alloc-in-loop"]
    assert item.saving_ns == pytest.approx(CALLS, rel=0.05)
    assert "slows" not in item.text
    assert "would be saved" not in item.text
