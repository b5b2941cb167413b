"""The energy of the GPUs beside the trace of each rank, by stand-ins for nsys and NVML."""

import json
import os
import sys
from pathlib import Path

import pytest

from nsysprof.ranks.rank_energy import parse_power
from tests.builders.build_trace import TraceBuilder
from tests.builders.run_command import run
from tests.builders.stand_in_nsys import write_stand_in

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs are captured on Linux alone")
STAND_IN = Path(__file__).parents[1] / "stand_in_nvml"


@pytest.fixture
def record(tmp_path):
    """`record(0)`: what `nsysprof capture --power` does as this rank of two."""
    builder = TraceBuilder()
    builder.launch(1000, 1)
    trace = builder.write(tmp_path / "chosen.sqlite")

    def call(rank, **variables):
        nsys = write_stand_in(tmp_path / "tool", [("", trace)])
        environment = {
            **os.environ, "NSYSPROF_NSYS": str(nsys), "PYTHONPATH": str(STAND_IN), "OMPI_COMM_WORLD_RANK": str(rank),
            "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "PMIX_NAMESPACE": "1", **variables,
        }  # fmt: skip
        return run("capture", "--power", "--out", tmp_path / "c", "--", "true", cwd=tmp_path, env=environment)

    return call


def test_each_rank_has_the_energy_of_its_host_beside_its_trace(record, tmp_path):
    for rank in (0, 1):
        done = record(rank)
        assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        boards = parse_power(tmp_path / f"c/ranks/rank0000{rank}.power.csv", 0)
        assert [board.uuid for board in boards] == ["GPU-0", "GPU-1"]
        first, second = (int(board.energy_mj[-1] - board.energy_mj[0]) for board in boards)
        assert second == pytest.approx(2 * first, rel=0.2, abs=500)
    notes = json.loads((tmp_path / "c/manifest.json").read_text())["notes"]
    assert "no-power" not in [note["code"] for note in notes]


def test_a_rank_without_a_counter_says_so(record, tmp_path):
    done = record(0, NO_ENERGY="1")
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "c/ranks").glob("*.power.csv"))
    notes = json.loads((tmp_path / "c/manifest.json").read_text())["notes"]
    assert "no-power" in [note["code"] for note in notes]
