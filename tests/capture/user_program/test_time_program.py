"""Times of steps from the lines that a program prints."""

import pytest

from nsysprof.capture.user_program.time_program import steps_of_lines

MS = 1_000_000


@pytest.mark.parametrize(
    ("moments", "steps"),
    [
        ([], []),
        ([5], []),
        ([0, 200, 500], [200, 300]),
        # Steps of 10 ms, of whose lines the reader got four at once.
        ([0, 40, 40, 40, 40, 80, 80, 80, 80], [10] * 8),
        # A short rest at the end belongs to the stretch before it.
        ([0, 60, 120, 130], [60, 35, 35]),
        ([0, 7, 10], [5, 5]),
    ],
)
def test_lines_that_were_read_at_once_share_the_time_that_they_took(moments, steps):
    found = steps_of_lines([moment * MS for moment in moments])
    assert found == [step * MS for step in steps]
