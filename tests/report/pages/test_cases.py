import pytest

from nsysprof.report.document import KERNELS, OPERATORS, Unit
from nsysprof.report.pages.cases import comparison_table, verdict_lines
from tests.report import samples


def lines(tmp_path, device="cuda", **changes):
    return verdict_lines(samples.record(samples.analysis(tmp_path), device, **changes))


def test_the_fastest_is_named_with_its_interval_and_the_others_factors(tmp_path):
    flash = {"latency_median_ns": 60, "latency_ci_low_ns": 58, "latency_ci_high_ns": 62}
    math = {"latency_median_ns": 520, "latency_ci_low_ns": 515, "latency_ci_high_ns": 525}
    (line,) = lines(tmp_path, flash=flash, math=math)
    assert line == "S=1024: flash is the fastest at 60.0 [58.0, 62.0] ns; math takes 8.7x as long."


def test_overlapping_intervals_show_no_difference(tmp_path):
    close = {"latency_median_ns": 510, "latency_ci_low_ns": 495, "latency_ci_high_ns": 530}
    base = {"latency_median_ns": 500, "latency_ci_low_ns": 490, "latency_ci_high_ns": 505}
    (line,) = lines(tmp_path, "cpu", flash=base, math=close)
    assert "flash and math are the fastest; their 95 % intervals overlap or their medians lie within 2 %" in line


def test_half_a_percent_is_no_difference_however_narrow_the_intervals(tmp_path):
    close = {"latency_median_ns": 1005, "latency_ci_low_ns": 1004, "latency_ci_high_ns": 1006}
    base = {"latency_median_ns": 1000, "latency_ci_low_ns": 999, "latency_ci_high_ns": 1001}
    (line,) = lines(tmp_path, "cpu", flash=base, math=close)
    assert "no difference is shown" in line


def test_a_slower_case_that_waits_for_the_cpu_is_marked(tmp_path):
    (line,) = lines(tmp_path, flash={"latency_median_ns": 60, "latency_ci_low_ns": 58, "latency_ci_high_ns": 62})
    assert "math takes 33x as long (math: launch-bound)" in line


def test_an_unknown_interval_could_be_anywhere(tmp_path):
    (line,) = lines(tmp_path, "cpu", math={"latency_ci_low_ns": None})
    assert "no difference is shown" in line


def test_launch_bound_cases_are_not_ranked_by_their_dispatch(tmp_path):
    # Kernels fill 50 of 800 ns of flash, 500 of 2000 ns of math: in both the GPU waits.
    (line,) = lines(tmp_path, flash={"latency_median_ns": 800, "latency_ci_low_ns": 790, "latency_ci_high_ns": 810})
    assert "flash and math are launch-bound: kernels fill less than 75 % of their latency" in line
    assert "flash 50 ns, math 500 ns" in line
    assert "another process may take up to 2 times as long" in line


def test_kernels_longer_than_the_best_call_are_slower_whatever_the_dispatch(tmp_path):
    (line,) = lines(tmp_path)  # flash takes 130 ns in all, the kernels of math 500
    assert line == (
        "S=1024: flash is the fastest at 130 [120, 140] ns, and another process may take up to 2 times as long, for "
        "the host sets the pace; math takes 15x as long (math: launch-bound)."
    )


def test_only_equal_work_is_compared(tmp_path):
    record = samples.record(samples.analysis(tmp_path), math={"batch": 2})
    assert [line.split(":")[0] for line in verdict_lines(record)] == ["S=1024, batch=2", "S=1024, batch=1"]
    table = comparison_table(record, KERNELS)
    assert [row[3].value for row in table.rows] == [1, 1], "each is its own baseline"


def test_ratios_against_the_first_backend(tmp_path):
    table = comparison_table(samples.record(samples.analysis(tmp_path)), KERNELS)
    assert (table.columns[3].title, table.columns[3].unit) == ("latency, math / this", Unit.RATIO)
    flash = next(row for row in table.rows if row[1].value == "flash")
    assert [flash[number].value for number in (3, 5, 6)] == [pytest.approx(2000 / 130), 15, 1]
    assert all(row[1].value != "cudnn" for row in table.rows), "what did not run is not compared"


def test_no_result_no_verdict(tmp_path):
    record = samples.record(samples.analysis(tmp_path), math={"status": "error"}, flash={"status": "error"})
    assert verdict_lines(record) == ()


def test_on_the_cpu_operators_are_counted_and_a_column_of_nothing_is_left_out(tmp_path):
    record = samples.record(samples.analysis(tmp_path), "cpu")
    record.results["peak_allocated_bytes"] = None
    table = comparison_table(record, OPERATORS).known()
    assert [column.title for column in table.columns] == [
        "shape", "backend", "untraced latency [95 % of this process]", "latency, math / this", "operators per call",
    ]  # fmt: skip
