"""What stands first in a comparison: the range whose time changed the most, and never more than its verdict says."""

from dataclasses import replace

from nsysprof.report.pages.compare import kernel_table, wall_line
from nsysprof.results.comparison import KernelChange, LatencyVerdict, StepChange
from tests.builders.range_changes import MS, wall_change
from tests.report.fixed_results import compared


def line(change):
    return wall_line(replace(compared(), headline=change))


def test_the_headline_is_told_with_its_verdict():
    assert line(wall_change("step", 100 * MS, 50 * MS, verdict=LatencyVerdict.FASTER)) == (
        "step takes 50.0 ms instead of 100 ms on average (-50.0 %): FASTER "
        "(its median instance 0.500 [0.400, 0.600] times as long)."
    )


def test_beside_the_time_of_a_step_it_says_whose_time_it_is():
    found = replace(
        compared(), step=StepChange("step#", 4 * MS, 2 * MS, is_marked=True), headline=wall_change("load", MS, 30 * MS)
    )
    assert wall_line(found).startswith("On the host, load takes 30.0 ms instead of 1.00 ms on average (30x)")


def test_without_a_verdict_it_says_so():
    assert line(wall_change("prepare", 100 * MS, 150 * MS, calls=1)).endswith("too few instances for a verdict.")


def test_without_a_headline_nothing_is_said():
    assert line(None) == ""


def test_a_page_has_no_more_kernels_than_somebody_reads():
    """Two traces of 4 MB whose 30,000 kernels have other names made a page of 300,000 rows in 42 s and 2 GB."""
    kernels = tuple(KernelChange("vanished", "gemm", f"k{number}", None, 1, 0, 5, 0) for number in range(2000))
    table = kernel_table(replace(compared(), ranges=(replace(wall_change("step", MS, MS), kernels=kernels),)))
    assert (len(table.rows), table.row_count, table.source) == (500, 2000, "compare.json")
