"""`nsysprof capture -- PROGRAM` on GPUs: kernels of every rank, NCCL, capture ranges of CUDA, sampled counters."""

import csv
import json
import sqlite3
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from tests.conftest import REPOSITORY  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.nsys]
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

GPUS = torch.cuda.device_count()
TRAIN = [str(REPOSITORY / "scripts" / "train_ddp.py"), "--width", "4096", "--batch", "4096", "--steps", "10"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(GPUS)]


def capture(nsys, folder, *arguments):
    command = [sys.executable, "-m", "nsysprof", "capture", "--nsys", str(nsys), "--out", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "manifest.json").read_text())


def analysed(trace, out):
    command = [sys.executable, "-m", "nsysprof", "analyze", str(trace), "--out", str(out), "--no-figures"]
    subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    with (out / "ranges.csv").open(newline="") as stream:
        ranges = {row["range"]: row for row in csv.DictReader(stream) if row["style"] == "PushPop"}
    return json.loads((out / "summary.json").read_text()), ranges


def test_every_rank_has_its_kernels_and_the_straggler_works_for_two(nsys, tmp_path):
    last = GPUS - 1
    straggle = ["--straggle", str(last), "--in", "forward"]
    said = capture(nsys, tmp_path / "c", "--per-rank", "--", *TORCHRUN, *TRAIN, *straggle)
    assert said["complete"]
    assert said["environment"]["gpu_name"]
    assert [rank["exit_code"] for rank in said["ranks"]] == [0] * GPUS
    counts = []
    for rank in said["ranks"]:
        summary, ranges = analysed(tmp_path / "c" / rank["trace"], tmp_path / f"a{rank['rank']}")
        assert summary["totals"]["kernel_count"] > 0
        assert not [note for note in summary["notes"] if note["severity"] == "error"]
        assert int(ranges["step"]["instances"]) == 10
        counts.append(int(ranges["forward"]["kernel_count"]))
    if GPUS > 1:
        # Each of its forward passes is two; some kernels run once.
        assert 0 <= 2 * counts[0] - counts[last] < 10
        with sqlite3.connect(f"file:{tmp_path}/c/ranks/rank00000.sqlite?mode=ro", uri=True) as trace:
            query = "SELECT count(*) FROM StringIds WHERE value LIKE 'ncclDevKernel%'"
            assert trace.execute(query).fetchone()[0] > 0


def test_a_range_of_cuda_profiler_start_and_stop(nsys, tmp_path):
    program = tmp_path / "p.py"
    program.write_text(
        "import torch\n"
        "a = torch.randn(512, 512, device='cuda')\n"
        "for step in range(9):\n"
        "    if step == 3: torch.cuda.synchronize(); torch.cuda.profiler.start()\n"
        "    torch.cuda.nvtx.range_push(f'step{step}'); a @ a; torch.cuda.nvtx.range_pop()\n"
        "    if step == 4: torch.cuda.synchronize(); torch.cuda.profiler.stop()\n"
    )
    capture(nsys, tmp_path / "c", "--capture-range", "cudaProfilerApi", "--", sys.executable, str(program))
    summary, ranges = analysed(tmp_path / "c", tmp_path / "a")
    assert set(ranges) == {"step3", "step4"}
    kernels = [int(line["kernel_count"]) for line in ranges.values()]
    assert kernels[0] == kernels[1] > 0
    assert summary["totals"]["kernel_count"] == sum(kernels)


def test_one_trace_of_the_node_has_all_ranks(nsys, tmp_path):
    capture(nsys, tmp_path / "c", "--", *TORCHRUN, *TRAIN)
    summary, ranges = analysed(tmp_path / "c", tmp_path / "a")
    assert len(summary["devices"]) == GPUS
    assert int(ranges["step"]["instances"]) == 10 * GPUS


def test_counters_are_sampled_once_a_host(nsys, tmp_path):
    said = capture(nsys, tmp_path / "c", "--per-rank", "--gpu-metrics", "--", *TORCHRUN, *TRAIN)
    if any(note["code"] == "gpu-metrics-failed" for note in said["notes"]):
        pytest.skip("counters cannot be read here")
    sampling = [
        "--gpu-metrics-frequency" in json.dumps(step) for step in said["steps"] if step["name"][:7] == "program"
    ]
    assert sampling == [True] + [False] * (GPUS - 1)


@pytest.mark.parametrize("how", ["graph", "reduce-overhead"])
def test_kernels_of_replayed_graphs_have_the_operators_that_were_captured(nsys, tmp_path, how):
    """pytest tests/cli/test_program_gpu.py -k operators -q: the recording is open while torch captures a graph."""
    program = [sys.executable, str(REPOSITORY / "scripts/programs/three_ways.py"), "--how", how, "--steps", "12"]
    capture(nsys, tmp_path / "c", "--operators", "--", *program)
    analysed(tmp_path / "c", tmp_path / "a")
    with (tmp_path / "a/operators.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    known = [row for row in rows if row["shapes"]]
    assert {"aten::addmm"} <= {row["operator"] for row in known}
    if how == "graph":  # the forward pass of each layer, and its backward pass on autograd's thread
        assert {"aten::native_layer_norm", "aten::gelu"} <= {row["operator"] for row in known}
        assert {"forward", "backward"} <= {row["pass"] for row in known}
    total = sum(int(row["kernel_total_ns"]) for row in rows)
    assert sum(int(row["kernel_total_ns"]) for row in known) > 0.9 * total > 0
    with (tmp_path / "a/kernels.csv").open(newline="") as stream:
        assert 12 * total > 0.5 * sum(int(row["total_ns"]) for row in csv.DictReader(stream))
