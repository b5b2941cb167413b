"""Which range is the step of a program."""

import numpy as np
import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.analysis.steps import find_steps
from nsysprof.native import load
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.programs import MS, US, Program
from tests.builders.random_tables import random_tables


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


def test_compiled_code_finds_the_shares_that_numpy_finds(monkeypatch):
    for seed in range(20):
        random = np.random.default_rng(seed)
        tables = random_tables(random)
        low = random.choice(tables.calls.start_ns, 30)
        high, group = low + random.integers(0, 30_000, 30), random.integers(0, 4, 30)
        found = []
        for least in (0, 1 << 60):
            monkeypatch.setattr(load, "is_wanted", lambda _unit, least=least: least == 0)
            shares = find_steps._work_inside(tables, tables.launch, (group, low, high), low[:4])
            found.append([each.tolist() for each in shares])
        assert found[0] == found[1]
        assert max(found[0][0]) > 0
