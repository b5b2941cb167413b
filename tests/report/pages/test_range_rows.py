import pytest

from nsysprof.report.pages.range_rows import range_rows
from nsysprof.report.pages.trace_tables import range_table
from tests.analysis.attribution.test_adoption import analyze, training
from tests.builders.build_trace import TraceBuilder
from tests.report import samples


def test_steps_are_one_row_and_small_ranges_fold(tmp_path):
    builder = TraceBuilder()
    for step in range(4):
        at = 10_000 * step
        builder.range(at, at + 9_000, f"step{step}")
        for name in "abcdefghijklmnopqrs":  # 19 with a launch each
            builder.range(at + 100 + 50 * ord(name), at + 140 + 50 * ord(name), f"op {name}")
            builder.launch(at + 110 + 50 * ord(name), 100 * step + ord(name))
        for name in "ABCDE":
            builder.range(at + 10 * ord(name) - 600, at + 10 * ord(name) - 595, f"compile {name}")
    rows = range_rows(analyze(builder, tmp_path))
    assert [(row.name, row.depth) for row in rows[:2]] == [("step#", 0), ("op a", 1)]
    assert len(rows) == 1 + 12 + 3 + 1 and rows[-1].name == "(9 more)"
    assert rows[0].numbers["launch_count"] == 76 and rows[-1].sum_of("kernel_count") == 28
    assert sum(row.sum_of("kernel_count") for row in rows[1:]) == rows[0].sum_of("kernel_count") == 76


def test_passes_of_a_compiler_over_many_modules_are_one_row(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 90_000, "XlaModule:#hlo_module=jit_stage,program_id=1#")
    builder.launch(100, 1)
    for number in range(6):
        at = 1_000 * (number + 1)
        builder.range(at, at + 10 + number, f"XlaPass:#name=fusion,module=dot_{'abcdef'[number]},program_id=2#")
    builder.range(50_000, 50_500, "XlaPass:#name=layout,module=dot_a,program_id=2#")
    rows = range_rows(analyze(builder, tmp_path))
    assert [(row.name, row.numbers["instances"], row.numbers["wall_ns"]) for row in rows] == [
        ("XlaModule jit_stage", 1, 90_000), ("XlaPass layout", 1, 500), ("XlaPass fusion", 6, 75),
    ]  # fmt: skip


def test_the_table_adds_up_what_was_launched_and_adopted(tmp_path):
    table = range_table(analyze(training(TraceBuilder()), tmp_path))
    titles = [column.title for column in table.columns]
    rows = {row[0].value: dict(zip(titles, (cell.value for cell in row), strict=True)) for row in table.rows}
    backward = rows["backward"]
    assert (backward["kernels"], backward["by helper threads"], backward["GPU total"]) == (27, 24, 1350)
    assert backward["GPU busy"] == 1350
    assert rows["backward"]["of wall"] == pytest.approx(100 * 1350 / rows["backward"]["wall"])
    assert "captured" not in titles and table.depths == (0, 1, 1)


def test_a_range_and_its_process_wide_twin_are_not_added_up(tmp_path):
    math, flash = range_rows(samples.analysis(tmp_path))
    assert (math.name, math.numbers["instances"], math.numbers["kernel_count"]) == ("RUN::math::S1024", 1, 20)
    assert (flash.name, flash.numbers["instances"], flash.numbers["kernel_count"]) == ("RUN::flash::S1024", 1, 2)


def test_unfolded_families_are_listed_one_by_one(tmp_path):
    builder = TraceBuilder()
    for step in range(4):
        builder.range(10_000 * step, 10_000 * step + 9_000, f"step{step}")
        builder.launch(10_000 * step + 100, step + 1)
    folded = range_rows(analyze(builder, tmp_path))
    assert [(row.name, row.sum_of("kernel_count")) for row in folded] == [("step#", 4)]
    (tmp_path / "t.sqlite").unlink()
    rows = range_rows(analyze(builder, tmp_path, unfold=True))
    assert [(row.name, row.numbers["launch_count"], row.busy_ns) for row in rows] == [
        (f"step{step}", 1, 50) for step in range(4)
    ]
