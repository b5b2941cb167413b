"""The user's own changes, replayed on programs whose clock is known."""

import subprocess
import sys

import pytest

from nsysprof.analysis.findings.what_if import ask
from nsysprof.analysis.overview.trace_overview import attribute
from nsysprof.errors import UsageError
from nsysprof.results.findings import WhatIfQuestion
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.programs import US, train
from tests.builders.published_schema import as_published


@pytest.fixture
def answer(tmp_path):
    def run(builder, *questions):
        path = tmp_path / "t.sqlite"
        path.unlink(missing_ok=True)
        with open_trace(builder.write(path)) as trace:
            tables = read_tables(trace)
            found = attribute(tables)
            return ask(tables, found.attributed.ranges, questions)

    return run


def test_without_waits_the_program_is_the_clean_one(answer):
    builder, faulty_ns = train(faults=("sync",))
    _, clean_ns = train()
    found = answer(builder, WhatIfQuestion("--no-sync all", "sync"))
    assert found.replayed_ns == found.recorded_ns == pytest.approx(faulty_ns, rel=0.03)
    assert found.together.step_ns == pytest.approx(clean_ns, rel=0.03)


def test_kernels_of_another_time(answer):
    builder, clean_ns = train()
    found = answer(builder, WhatIfQuestion("--kernel gemm=2", "", kernel="gemm", factor=2.0))
    assert found.together.step_ns == pytest.approx(clean_ns + 20 * 200 * US, rel=0.01)


def test_what_a_range_launches_takes_another_time_with_bounds(answer):
    builder, clean_ns = train()
    question = WhatIfQuestion("step", "", range_factors=(("step", (0.5, 0.75, 0.25)),))
    found = answer(builder, question).together
    assert found.step_ns == pytest.approx(clean_ns - 20 * 100 * US, rel=0.02)
    assert found.low_ns < found.step_ns < found.high_ns < clean_ns
    with pytest.raises(UsageError, match="No work of the steps was launched in the ranges of x"):
        answer(builder, WhatIfQuestion("x", "", range_factors=(("nowhere", (2.0, 2.0, 2.0)),)))


def test_several_changes_are_one_more_replay(answer):
    builder, _ = train(faults=("sync", "sleeping-loader"))
    questions = WhatIfQuestion("--no-sync all", "sync"), WhatIfQuestion("--no-host-work", "host-bound")
    found = answer(builder, *questions)
    assert found.together.step_ns < min(each.step_ns for each in found.answers)


def test_what_is_not_there_cannot_be_changed(answer):
    builder, _ = train()
    with pytest.raises(UsageError, match="--pin-copies would change nothing"):
        answer(builder, WhatIfQuestion("--pin-copies", "pageable-copy"))
    with pytest.raises(UsageError, match="No kernel of the steps"):
        answer(builder, WhatIfQuestion("--kernel x=1", "", kernel="nowhere"))
    faulty, _ = train(faults=("sync",))
    with pytest.raises(UsageError, match="No call of the steps is in a range 'nowhere'"):
        answer(faulty, WhatIfQuestion("--no-sync nowhere", "sync", range="nowhere"))


def test_the_command_prints_json(tmp_path):
    path = train(faults=("sync",))[0].write(tmp_path / "t.sqlite")
    command = [sys.executable, "-m", "nsysprof", "whatif", str(path), "--no-sync", "all", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    data = as_published("whatif", done.stdout)
    assert data["per"] == "step"
    assert data["together"]["step_ns"] < data["recorded_ns"]
    wrong = subprocess.run([*command[:5], "--kernel", "gemm"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "is not a text with a factor" in wrong.stderr


def test_the_command_prints_what_a_step_would_take(tmp_path):
    path = train(faults=("sync",))[0].write(tmp_path / "t.sqlite")
    command = [sys.executable, "-m", "nsysprof", "whatif", str(path), "--no-sync", "all"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "for a step as recorded" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("--no-sync all ")
