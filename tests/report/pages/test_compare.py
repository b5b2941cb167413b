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


def appeared(instances, name="k", before=0):
    how = "both" if before else "appeared"
    return KernelChange(how, "gemm", name if before else None, name, before, before + instances, before, 9)


def ranges_with_kernels(table):
    return [(row[0].value, row[1].value) for row in table.rows]


def test_a_kernel_of_a_range_inside_the_step_stands_once():
    """The step has the kernels of the optimizer too, and one kernel of it has more launches elsewhere in the step."""
    other = KernelChange("both", "gemm", "m", "m", 1, 2, 5, 9)
    step = replace(wall_change("step", MS, MS), kernels=(appeared(75), appeared(75, "all", before=1), other))
    optimizer = replace(wall_change("optimizer", MS, MS), kernels=(appeared(75), appeared(75, "all")))
    table = kernel_table(replace(compared(), ranges=(step, optimizer)))
    assert ranges_with_kernels(table) == [("step", "m"), ("optimizer", "k"), ("optimizer", "all")]


def test_a_trace_with_more_steps_has_not_more_of_every_kernel():
    same = replace(appeared(0, "k", before=4), is_notable=False)
    step = replace(wall_change("step", MS, MS), kernels=(same,))
    whole = replace(wall_change("(whole trace)", MS, MS), kernels=(appeared(8, "k", before=32), appeared(1, "outside")))
    more_steps = replace(step, candidate_calls=step.candidate_calls + 2)
    assert ranges_with_kernels(kernel_table(replace(compared(), ranges=(whole, more_steps)))) == [
        ("(whole trace)", "outside")
    ]
    both = kernel_table(replace(compared(), ranges=(whole, step)))
    assert ranges_with_kernels(both) == [("(whole trace)", "k"), ("(whole trace)", "outside")]
