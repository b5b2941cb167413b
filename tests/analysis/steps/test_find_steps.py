"""Which range is the step of a program."""

import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.programs import MS, US, Program


def test_a_layer_that_was_compiled_first_is_no_step(tmp_path):
    program = Program()

    def layers(host_ns):
        for number in range(4):
            begin = program.now
            program.host(host_ns)
            program.launch(50 * US)
            program.step(begin, f"layer{number}")

    layers(800 * MS)
    for number in range(6):
        begin = program.now
        layers(1 * MS)
        program.wait()
        program.step(begin, f"step{number}")
    with open_trace(program.builder.write(tmp_path / "t.sqlite")) as trace:
        assert summarize(read_tables(trace)).step_times.per == "step#"


@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_a_program_that_also_runs_its_layers_before_has_its_own_steps(trace_path, way):
    with open_trace(trace_path(f"h200-ranges/layers-{way}")) as trace:
        times = summarize(read_tables(trace)).step_times
    assert (times.per, times.steps["step"].nunique()) == ("step#", 6)


@pytest.mark.parametrize("name", ["step", "trace", "mean step", "epoch"])
def test_a_step_range_may_be_called_as_what_has_no_range(tmp_path, name):
    program = Program()
    for _ in range(6):
        begin = program.now
        program.launch(50 * US)
        program.wait()
        program.step(begin, name)
    with open_trace(program.builder.write(tmp_path / "t.sqlite")) as trace:
        times = summarize(read_tables(trace)).step_times
    assert times.are_steps and times.found_pct is None and times.steps["step"].nunique() == 6
    assert times.per == (f"range {name}" if name in ("trace", "mean step") else name)
