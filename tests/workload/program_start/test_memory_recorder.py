"""A failed allocation leaves a snapshot that says what is what, and the program's own exception as it is."""

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch.distributed.fsdp import fully_shard

from nsysprof.capture.user_program.program_hook import collect_recorded, hook_environment
from nsysprof.torchprof.allocator_history import read_plain_pickle
from nsysprof.workload.program_start.memory_recorder import FAILURE, find_kinds

# The part of torch that needs a GPU: an allocator that fails when asked to, and calls its observers as torch does.
TORCH = """
class OutOfMemoryError(RuntimeError): pass
class _C:
    def _cuda_attach_out_of_memory_observer(observer): cuda.observers.append(observer)
class cuda:
    queued, observers, allocated = [], [], 0
    def _lazy_call(call): cuda.queued.append(call)
    def init(): [call() for call in cuda.queued]
    def memory_stats(device): return {"allocation.all.allocated": cuda.allocated}
    class memory:
        def _record_memory_history(**options): pass
        def _snapshot(): return {"segments": [], "device_traces": []}
def fail(size):
    for observer in cuda.observers: observer(0, size, 1000, 30)
    raise OutOfMemoryError(f"Tried to allocate {size}")
cuda.init.__globals__["fail"] = fail
"""


def run(folder: Path, program: str, more: str = "") -> tuple[subprocess.CompletedProcess[str], dict[str, int | None]]:
    """Return the finished program, and how much was asked for in each snapshot, by what its name ends with."""
    (folder / "torch.py").write_text(TORCH + more)
    (folder / "program.py").write_text("import os, torch\ntorch.cuda.init()\n" + program)
    report = folder / "nsys.nsys-rep"
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), "RANK": "3", "WORLD_SIZE": "4"}
    done = subprocess.run(
        [sys.executable, str(folder / "program.py")],
        env=base | hook_environment(report, base, ("memory",)), capture_output=True, text=True, check=False,
    )  # fmt: skip
    collect_recorded(report, ("memory",))
    snapshots = {}
    for path in folder.glob("nsys.memory-*.pickle"):
        data = read_plain_pickle(path)
        snapshots["".join(path.name.partition(".oom")[1:]) or "end"] = data.get(FAILURE, {}).get("asked_bytes")
    return done, snapshots


def test_the_exception_leaves_after_the_snapshot(tmp_path: Path) -> None:
    done, snapshots = run(tmp_path, "torch.fail(70)")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "torch.OutOfMemoryError: Tried to allocate 70"
    assert snapshots == {".oom-first.pickle": 70}
    (path,) = tmp_path.glob("*.pickle")
    failure = read_plain_pickle(path)[FAILURE]
    assert {key: failure[key] for key in ("device", "limit_bytes", "free_bytes", "rank", "world_size", "failure")} == {
        "device": 0, "limit_bytes": 1000, "free_bytes": 30, "rank": "3", "world_size": "4", "failure": 1,
    }  # fmt: skip


RETRY = """
for size in range({count}):
    try:
        torch.fail(100 - size)
    except torch.OutOfMemoryError:
        pass
"""


@pytest.mark.parametrize(
    ("program", "snapshots"),
    [
        ("", {"end": None}),
        # It went on, and allocated.
        (RETRY.format(count=3) + "torch.cuda.allocated += 1", {".oom-first.pickle": 100, ".oom-last.pickle": 98,
                                                               "end": None}),
        # It caught the exception and ended, as workers of multiprocessing do.
        (RETRY.format(count=1) + "os.sys.exit(1)", {".oom-first.pickle": 100}),
        # Of very many failures, those in the middle leave nothing; the one that ends the program does.
        (RETRY.format(count=40) + "torch.fail(7)", {".oom-first.pickle": 100, ".oom-last.pickle": 7}),
        # A process that is killed has left the snapshot before.
        (RETRY.format(count=1) + "os.kill(os.getpid(), 9)", {".oom-first.pickle": 100}),
    ],
)  # fmt: skip
def test_first_and_last_failure_are_kept(tmp_path: Path, program: str, snapshots: dict[str, int | None]) -> None:
    assert run(tmp_path, program)[1] == snapshots


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("del _C._cuda_attach_out_of_memory_observer", "does not tell when memory runs out"),
        ("def broken(): raise SystemExit('x')\ncuda.memory._snapshot = broken", "is not written: SystemExit"),
        ("def full(): raise OSError(28, 'No space left')\ncuda.memory._snapshot = full", "No space left"),
        # What fails while a snapshot is written does not begin another one.
        ("def again(): fail(1)\ncuda.memory._snapshot = again", "Tried to allocate 1"),
        ("cuda.memory._snapshot = lambda: {'segments': [lambda: 0]}", "is not written"),
    ],
)
def test_no_fault_replaces_the_exception(tmp_path: Path, more: str, said: str) -> None:
    done, snapshots = run(tmp_path, "torch.fail(70)", more)
    assert done.stderr.splitlines().count("torch.OutOfMemoryError: Tried to allocate 70") == 1
    assert done.returncode == 1
    assert said in done.stderr
    assert ".oom-first.pickle" not in snapshots
    assert not list(tmp_path.rglob("*.part"))


class Odd(torch.nn.Module):
    """A module that does not answer."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)


class Looking(torch.nn.Linear):
    """Asks what its weight is while it runs."""

    seen: ClassVar[list[tuple[str, str]]] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kinds = {address: (kind, name) for kind, name, address, _ in find_kinds(torch, "cpu")["tensors"]}
        self.seen.append(kinds[self.weight.untyped_storage().data_ptr()])
        return super().forward(x)


def test_kinds_of_a_rank_of_fsdp_are_of_its_shards_and_of_what_is_gathered() -> None:
    """What a layer has gathered while it runs is parameters too, under its path."""
    distributed = torch.distributed
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = distributed.device_mesh.init_device_mesh("cpu", (1,))
        model = torch.nn.Sequential(Looking(4, 8), torch.nn.Linear(8, 4))
        for layer in model:
            fully_shard(layer, mesh=mesh)
        optimizer = torch.optim.AdamW(fully_shard(model, mesh=mesh).parameters())
        for _ in range(2):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        found = [(kind, name) for kind, name, _, _ in find_kinds(torch, "cpu")["tensors"]]
    finally:
        distributed.destroy_process_group()
    assert Looking.seen == [("parameters", "0")] * 2
    assert found.count(("parameters", "0")) == found.count(("parameters", "1")) == 2
    assert {("gradients", "0"), ("gradients", "1"), ("optimizer-state", "AdamW")} <= set(found)


def test_kinds_are_what_modules_and_optimizers_say() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8))
    plain = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.AdamW([*model.parameters(), plain])
    odd = Odd()
    cache = torch.zeros(50)
    (model(torch.ones(2, 4)).sum() + plain.sum()).backward()
    optimizer.step()
    losses = [model(torch.ones(2, 4)).sum() for _ in range(5)]

    facts = find_kinds(torch, "cpu")
    kinds = {address: (kind, name, size) for kind, name, address, size in facts["tensors"]}

    def kind_of(tensor: torch.Tensor) -> tuple[str, str, int]:
        return kinds[tensor.untyped_storage().data_ptr()]

    assert kind_of(model[0].weight) == ("parameters", "0", 4)
    assert model[0].weight.grad is not None
    assert kind_of(model[0].weight.grad) == ("gradients", "0", 4)
    assert kind_of(model[1].running_mean) == ("buffers", "1", 4)
    assert kind_of(plain) == ("parameters", "AdamW", 4)
    assert kind_of(optimizer.state[plain]["exp_avg"]) == ("optimizer-state", "AdamW", 4)
    assert kind_of(cache)[0] == "held"
    assert kind_of(losses[0])[0] == "graph"
    assert facts["losses"] >= len(losses)
    assert facts["has_frozen"] == (gc.get_freeze_count() > 0)
    assert find_kinds(torch, "cuda")["tensors"] == []
    assert type(odd) is Odd
