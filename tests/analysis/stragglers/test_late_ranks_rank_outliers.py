"""Ranks unlike the others are far from all others, and only where the difference matters."""

import pytest

from nsysprof.analysis.stragglers.late_ranks import find_outliers
from nsysprof.results.rank_results import RankRow


def rows(*compute_ns):
    return [RankRow(rank, "t", rank=rank, compute_ns=value) for rank, value in enumerate(compute_ns)]


EVEN = [1000, 1001, 999, 1002, 998, 1000, 1001]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([*EVEN, 1300], {7: "compute +30 %"}),
        ([*EVEN, 700], {7: "compute -30 %"}),
        ([*EVEN, 1015], {}),  # certainly apart, but too little to matter
        ([1000, 1300, 700, 1200, 800, 1100, 900, 1300], {}),
        ([*EVEN, 1000, 1300, 1310], {8: "compute +30 %", 9: "compute +31 %"}),
        ([1000, 1020, 990, 1030, 980, 1010, 970, 1200], {}),  # ranks differ, and one does so most
        ([1000] * 8, {}),
        ([*EVEN[:4], 1300], {}),  # too few ranks have no usual value
        ([*EVEN, None], {}),
    ],
)
def test_what_is_far_from_the_others_is_named_with_the_quantity(values, found):
    assert find_outliers(rows(*values)) == found
