"""When a step begins and ends, and that all that is said about steps is about the same ones."""

import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.analysis.steps.step_bounds import bound_steps, mark_slow_steps
from nsysprof.report.document import Lines
from nsysprof.report.pages.analysis import findings_sections, overview_sections
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from nsysprof.units import format_ns
from tests.analysis.programs import MS, US, Program

TRACES = Path(__file__).parents[3] / "traces"
PID = 1 << 48  # any other process than the builder's


def ahead(steps=8, kernel_ns=2 * MS, host_ns=500 * US):
    """Return a program whose host issues a step in half a millisecond and never waits."""
    program = Program()
    for _ in range(steps):
        begin = program.now
        program.launch(kernel_ns)
        program.host(host_ns)
        program.step(begin)
    return program


def analyze(path):
    with open_trace(path) as trace:
        return summarize(read_tables(trace))


def texts(sections):
    return " ".join(text for each in sections for part in each.parts if isinstance(part, Lines) for text in part.texts)


def assert_one_step_time(analysis):
    """Check that the overview, the findings and steps.csv have one time of a step, from the same steps."""
    times, found = analysis.step_times, analysis.findings
    if times is None or found is None:
        return
    assert found.per == times.per
    assert found.step_ns == round(times.step_ns)
    steps = times.steps
    instances = analysis.range_instances.merge(analysis.ranges[["range", "style", "domain", "family"]])
    of_step = instances[instances["family"] == times.per]
    if len(of_step) == steps["step"].nunique():
        assert of_step["is_warmup"].sum() == steps.drop_duplicates("step")["is_warmup"].sum()
    usual = ~(steps["is_warmup"] | steps["is_slow"]).to_numpy(dtype=bool)
    assert (found.usual_steps, found.warmup) == (usual.sum(), steps["is_warmup"].sum())
    for device in times.devices:
        assert sum(part.mean_ns for part in times.parts_of(device)) == pytest.approx(times.step_ns)
    said = format_ns(times.step_ns)
    overview = texts(overview_sections(analysis))
    assert f"of {said}" in overview or (not times.are_steps and "of the trace lie before this" in overview)
    about_findings = texts(findings_sections(analysis))
    assert f"of the {said} of " in about_findings
    replayed = steps["wall_ns"].to_numpy()[found.first_step : found.last_step + 1]
    if times.are_steps:
        assert found.recorded_ns == pytest.approx(replayed.mean(), rel=0.03)
    # What was replayed takes as long as the step that the savings are a part of, or the report says what it is.
    if abs(found.recorded_ns - found.step_ns) > 0.01 * found.step_ns:
        assert "The savings are computed on" in about_findings
        assert format_ns(found.recorded_ns) in about_findings


def test_a_step_lasts_until_the_gpu_has_done_it(tmp_path):
    analysis = analyze(ahead().builder.write(tmp_path / "t.sqlite"))
    walls = analysis.step_times.steps["wall_ns"].to_numpy()
    assert walls[1:] == pytest.approx(2 * MS, rel=0.01), "the host begins one every half a millisecond"
    assert analysis.findings.step_ns == pytest.approx(2 * MS, rel=0.01)
    assert_one_step_time(analysis)


def test_work_that_outlasts_a_whole_step_leaves_the_times_of_the_host(tmp_path):
    program = ahead(kernel_ns=100 * US)
    program.builder.call(1, 2, 77_777)
    program.builder.kernel(3, 100 * MS, 77_777, stream=99)
    walls = analyze(program.builder.write(tmp_path / "t.sqlite")).step_times.steps["wall_ns"].to_numpy()
    assert walls[1:] == pytest.approx(500 * US, rel=0.05)


def test_work_of_another_process_does_not_delay_a_step(tmp_path):
    with open_trace(ahead().builder.write(tmp_path / "t.sqlite")) as trace:
        tables = read_tables(trace)
        issued = np.array([0, 1 * MS, 2 * MS])
        assert bound_steps(tables, PID, issued).tolist() == issued.tolist()


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=3, max_size=12),
    st.booleans(),
)
def test_bounds_follow_each_other_and_end_with_the_last_work(tmp_path_factory, steps, waits):
    program = Program()
    for kernel, host in steps:
        begin = program.now
        program.launch(kernel * 100 * US)
        if waits:
            program.wait()
        program.host(host * 100 * US)
        program.step(begin)
    with open_trace(program.builder.write(tmp_path_factory.mktemp("t") / "t.sqlite")) as trace:
        tables = read_tables(trace)
    calls, work = tables.calls, tables.work
    begun = np.sort(calls.start_ns[tables.launch])
    issued = np.append(begun, max(calls.ends_ns().max(), begun[-1] + 1))
    bounds = bound_steps(tables, int(work.pid_of[0]), issued)
    assert (np.diff(bounds) > 0).all()
    assert (bounds >= issued).all()
    assert bounds[-1] == max(issued[-1], work.ends_ns().max())


def test_few_slow_steps_are_exceptions_and_many_are_how_a_program_works():
    few, eighth, many = np.full(30, 1000), np.full(32, 1000), np.full(30, 1000)
    few[[7, 19]], eighth[::8], many[::3] = 3000, 3000, 3000
    assert np.flatnonzero(mark_slow_steps(few)).tolist() == [7, 19]
    assert np.flatnonzero(mark_slow_steps(eighth)).tolist() == [0, 8, 16, 24]
    assert not mark_slow_steps(many).any()


# Whose host runs ahead, whose steps differ, whose steps have no range, and that has no steps.
@pytest.mark.parametrize("name", ["ddp_rank0", "h200-programs/cupy", "h200-forms/emit_nvtx", "two_gpus"])
def test_one_step_time_is_said(trace_path, name):
    assert_one_step_time(analyze(trace_path(name)))


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(TRACES.rglob("*.sqlite.xz")), ids=lambda path: str(path.relative_to(TRACES)))
def test_one_step_time_is_said_of_every_trace(tmp_path, path):
    unpacked = tmp_path / "t.sqlite"
    unpacked.write_bytes(lzma.decompress(path.read_bytes()))
    assert_one_step_time(analyze(unpacked))
