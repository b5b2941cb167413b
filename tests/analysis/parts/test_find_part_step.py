"""A step alone has the time, the idle causes and the work that steps.csv gives it."""

import pytest

from nsysprof.analysis.overview.summarize import SummaryOptions, run_summary
from nsysprof.analysis.parts.find_part import WantedPart, wanted_part
from nsysprof.errors import UsageError
from nsysprof.results.column_registry.analysis_columns import WORK_CATEGORIES, cause_column, work_column
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.programs import train
from tests.builders.build_trace import TraceBuilder


def analyze(path, step=None, name=None):
    with open_trace(path) as trace:
        options = SummaryOptions(part=wanted_part(name, step))
        return run_summary(read_tables(trace), options).analysis


# Steps that a range marks, one of the warm-up among them, and steps that kernels alone tell.
@pytest.mark.parametrize(
    ("name", "step"),
    [("ddp_rank0", 0), ("ddp_rank0", 7), ("h200-programs/train-all", 3), ("h200-programs/decode", 5)],
)
def test_its_time_and_its_causes_are_those_of_its_row_in_steps(trace_path, name, step):
    whole, part = analyze(trace_path(name)), analyze(trace_path(name), step)
    (row,) = whole.step_times.table.query(f"step == {step}").to_dict("records")
    assert part.step_times.table.to_dict("records") == [row]
    assert (part.part.range, part.part.step, part.part.wall_ns) == (None, step, row["wall_ns"])
    assert part.part.usual_ns == pytest.approx(whole.step_times.step_ns, abs=1)
    of_device = part.idle.table[part.idle.table["range"] == ""]
    assert dict(zip(of_device["cause"], of_device["idle_ns"], strict=True)) == {
        cause: row[cause_column(cause)] for cause in of_device["cause"]
    }
    (device,) = part.idle.devices
    assert device.span_ns == row["wall_ns"] - row["outside_ns"]
    assert device.busy_ns == sum(row[work_column(category)] for category in WORK_CATEGORIES)
    assert part.findings is None
    assert "all steps together" in part.no_findings


def test_the_steps_have_all_work_of_the_program_between_them(trace_path):
    trace = trace_path("ddp_rank0")
    whole = analyze(trace)
    parts = [analyze(trace, step) for step in whole.step_times.steps["step"]]
    in_steps = whole.range_tree[whole.range_tree["path"] == "step#"]
    kernels = sum(part.totals.kernel_count for part in parts)
    assert kernels >= (in_steps["kernel_count"] + in_steps["adopted_kernel_count"]).iloc[0]
    assert kernels <= whole.totals.kernel_count
    tables = [part.range_tree.set_index("path")["kernel_count"] for part in parts]
    forward = sum(next(count for path, count in table.items() if path.endswith("> forward")) for table in tables)
    assert forward == whole.range_tree.set_index("path")["kernel_count"]["step# > forward"]


@pytest.mark.parametrize(("step", "hint"), [(8, "0 to 7"), (-1, "0 to 7")])
def test_a_step_that_is_not_there_says_which_are(tmp_path, step, hint):
    trace = train(steps=8)[0].write(tmp_path / "t.sqlite")
    with pytest.raises(UsageError, match=f"no step {step}") as error:
        analyze(trace, step)
    assert hint in error.value.next_step


def test_a_trace_in_which_nothing_repeats_has_no_step(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 1_000, "once")
    builder.launch(100, 1)
    with pytest.raises(UsageError, match="no steps"):
        analyze(builder.write(tmp_path / "t.sqlite"), 0)


def test_what_is_wanted():
    assert wanted_part(None, None) is None
    assert wanted_part("forward", None) == WantedPart("forward")
    assert wanted_part(None, 0) == WantedPart(step=0)
    assert wanted_part("forward", 0) == WantedPart("forward", 0)


def test_a_range_in_one_step_has_its_row_of_that_step(trace_path):
    path = trace_path("h200-programs/train-all")
    whole, part = analyze(path), analyze(path, 7, "forward")
    instance = whole.range_instances.query("range == 'forward'").iloc[7]
    assert (part.part.range, part.part.step, part.part.instances) == ("forward", 7, 1)
    assert part.part.wall_ns == instance["wall_ns"]
    row = part.ranges.query("range == 'forward'").iloc[0]
    assert (row["kernel_count"], row["kernel_total_ns"]) == (instance["kernel_count"], instance["kernel_total_ns"])
    assert part.totals.kernel_count == row["kernel_count"]
    assert part.step_times is None
    assert part.findings is None


def test_a_range_that_is_not_in_the_step_is_an_error(tmp_path):
    builder = TraceBuilder()
    for step in range(10):
        builder.range(step * 1000, step * 1000 + 900, "step")
        builder.launch(step * 1000 + 100, step + 1)
    builder.range(3_100, 3_200, "save")
    path = builder.write(tmp_path / "t.sqlite")
    assert analyze(path, 3, "save").part.instances == 1
    with pytest.raises(UsageError, match="Step 4 has no range 'save'"):
        analyze(path, 4, "save")
