"""Record torch's CUDA allocator in a captured program, and write what it held: at the end, and where memory runs out.

It needs only torch, because it runs in the program's own Python. Recording begins when CUDA is initialised, so that a
program that forks first still can. Torch calls an observer when an allocation fails, before the exception leaves. The
first failure goes into PROCESS.oom-first.pickle, the last one into PROCESS.oom-last.pickle, which
nsysprof.torchprof.failed_allocation reads. A process that reaches its end also writes PROCESS.pickle, unless a failure
ended it. No fault of this module reaches the program.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import pickle
import sys
import threading
from collections.abc import Iterator
from typing import Any

from .watched_program.after_import import attempt
from .watched_program.module_places import named_modules
from .watched_program.process_file import process_path

FOLDER = "NSYSPROF_MEMORY_FOLDER"
# The key of a failure in a snapshot, as in nsysprof.torchprof.failed_allocation.
FAILURE = "nsysprof_failure"
# Older events are overwritten; what is held at the end is known whatever its age.
_MOST_EVENTS = 200_000
_FAULT = "the program's memory is not recorded"
# A program that tries again and again writes so many snapshots of failures; then the one that ends it, at its end.
_MOST_WRITTEN = 8
_MOST_TENSORS, _LONGEST = 200_000, 300


class MemoryRecorder:
    """The recording of this process."""

    def __init__(self, torch: Any, folder: str) -> None:
        self._torch, self._folder, self._process = torch, folder, os.getpid()
        self._busy = threading.Lock()
        self._failures = self._written = 0
        self._last: dict[str, Any] = {}
        # How many allocations there were on the device when one failed; None where torch does not tell.
        self._allocations: int | None = None

    def start(self) -> None:
        """Record from now on. CUDA is initialised."""
        self._torch.cuda.memory._record_memory_history(max_entries=_MOST_EVENTS, stacks="python")
        atexit.register(lambda: attempt(self.end, _FAULT))
        attach = getattr(self._torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is None:
            _say("this torch does not tell when memory runs out; the snapshot is written at the end alone")
        else:
            attempt(lambda: attach(self.observe), _FAULT)

    def observe(self, device: int, asked: int, limit: int, free: int) -> None:
        """Write a snapshot of a failed allocation. Torch calls this on the thread that allocates.

        limit: the memory of the device, or how much of it torch may use.
        """
        # A thread that fails while another one writes leaves no snapshot of its own.
        if os.getpid() != self._process or not self._busy.acquire(blocking=False):
            return
        try:
            self._failures += 1
            facts = {
                "device": int(device), "asked_bytes": int(asked), "limit_bytes": int(limit), "free_bytes": int(free),
                "total_bytes": _total_bytes(self._torch, device), "process": self._process,
                "rank": os.environ.get("RANK", "")[:_LONGEST],
                "world_size": os.environ.get("WORLD_SIZE", "")[:_LONGEST], "failure": self._failures,
            }  # fmt: skip
            self._last = facts
            self._allocations = self._count_allocations()
            if self._failures <= _MOST_WRITTEN:
                self._write_failure()
        except BaseException as error:  # noqa: BLE001 - whatever leaves would replace the program's own exception
            _say(f"the snapshot of an allocation that failed is not written: {error!r}")
        finally:
            self._busy.release()

    def end(self) -> None:
        """Write the snapshot of the end, unless this is a fork of the process that recorded, or a failure ended it."""
        if os.getpid() != self._process:
            return
        if not self._is_ended_by_failure():
            self._write(".pickle", {})
        elif self._failures != self._written:
            self._write_failure()

    def _is_ended_by_failure(self) -> bool:
        """Return whether the program ends because memory ran out: with that exception, or without another allocation.

        Python keeps the exception that ends a program, and with it what its frames hold.
        """
        if not self._failures:
            return False
        error = getattr(sys, "last_type", None)
        if error is not None and error.__name__ == "OutOfMemoryError":
            return True
        return self._allocations is not None and self._allocations == self._count_allocations()

    def _count_allocations(self) -> int | None:
        with contextlib.suppress(Exception):
            return int(self._torch.cuda.memory_stats(self._last["device"])["allocation.all.allocated"])
        return None

    def _write_failure(self) -> None:
        facts = dict(self._last)
        try:
            facts |= find_kinds(self._torch)
        except Exception as error:  # noqa: BLE001 - the snapshot is worth more
            facts["no_kinds"] = repr(error)[:_LONGEST]
        self._write(f".oom-{'last' if self._written else 'first'}.pickle", {FAILURE: facts})
        self._written = self._failures

    def _write(self, ending: str, more: dict[str, Any]) -> None:
        snapshot = {**self._torch.cuda.memory._snapshot(), **more}
        path = process_path(self._folder, ending)
        try:
            with open(f"{path}.part", "wb") as file:  # noqa: PTH123
                pickle.dump(snapshot, file, protocol=4)
            os.replace(f"{path}.part", path)  # noqa: PTH105
        except BaseException:
            with contextlib.suppress(OSError):
                os.remove(f"{path}.part")  # noqa: PTH107
            raise


def find_kinds(torch: Any, device_type: str = "cuda") -> dict[str, Any]:
    """Return which addresses hold parameters, buffers, gradients, the state of optimizers, and tensors of Python.

    `tensors` has kind, name, address and bytes of an element; a storage is of the first kind that it has. `losses`
    counts the tensors of one element that keep a graph alive. `has_frozen` says whether gc.freeze() hides some objects.
    """
    modules, optimizers, tensors = _find_objects(torch)
    kinds: dict[int, tuple[str, str, int, int]] = {}
    losses = 0

    def add(kind: str, name: str, tensor: Any) -> None:
        with contextlib.suppress(Exception):  # a tensor without memory of its own, or of the program's own kind
            local = getattr(tensor, "_local_tensor", tensor)  # of a DTensor
            if local.device.type == device_type and len(kinds) < _MOST_TENSORS:
                address = int(local.untyped_storage().data_ptr())
                if address:
                    kinds.setdefault(address, (kind, name[:_LONGEST], address, int(local.element_size())))

    # Classes of the program's own kinds answer as plain tensors do.
    with torch._C.DisableTorchFunctionSubclass():
        for owned in (*_of_modules(modules), *_of_optimizers(optimizers)):
            add(*owned)
        for tensor in tensors:
            with contextlib.suppress(Exception):
                has_graph = tensor.grad_fn is not None
                add("graph" if has_graph else "held", "", tensor)
                losses += has_graph and tensor.numel() == 1 and tensor.device.type == device_type
    return {"tensors": list(kinds.values()), "losses": int(losses), "has_frozen": gc.get_freeze_count() > 0}


def _find_objects(torch: Any) -> tuple[list[Any], ...]:
    """Return the modules, the optimizers and the tensors that are alive, told by their types alone."""
    wanted = (torch.nn.Module, torch.optim.Optimizer, torch.Tensor)
    groups: tuple[list[Any], ...] = ([], [], [])
    group_of: dict[type, list[Any] | None] = {}
    for value in gc.get_objects():
        kind = type(value)
        if kind not in group_of:
            bases = zip(wanted, groups, strict=True)
            group_of[kind] = next((group for base, group in bases if issubclass(kind, base)), None)
        group = group_of[kind]
        if group is not None:
            group.append(value)
    return groups


def _values(owner: Any, attribute: str) -> list[Any]:
    """Return the values of a dictionary that an object has; none where the object is of the program's own kind."""
    with contextlib.suppress(Exception):
        return list(getattr(owner, attribute).values())
    return []


def _of_modules(modules: list[Any]) -> list[tuple[str, str, Any]]:
    """Return the kind, the module's path and the tensor of all parameters, buffers and gradients."""
    inner = {id(child) for module in modules for child in _values(module, "_modules")}
    names: dict[int, str] = {}
    for root in modules:
        if id(root) not in inner:
            with contextlib.suppress(Exception):  # a module of the program's own kind
                for path, module in named_modules(root):
                    names.setdefault(id(module), path or type(module).__name__)
    owned = [
        (kind, names.get(id(module), type(module).__name__), tensor)
        for kind, attribute in (("parameters", "_parameters"), ("buffers", "_buffers"))
        for module in modules
        for tensor in _values(module, attribute)
        if tensor is not None
    ]
    return owned + [("gradients", name, gradient) for _, name, tensor in owned for gradient in _gradient(tensor)]


def _of_optimizers(optimizers: list[Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield the parameters of optimizers, the gradients of these, and what optimizers keep for each."""
    for optimizer in optimizers:
        name = type(optimizer).__name__
        for group in list(getattr(optimizer, "param_groups", ())):
            for tensor in list(group.get("params", ())):
                yield "parameters", name, tensor
                for gradient in _gradient(tensor):
                    yield "gradients", name, gradient
        for state in _values(optimizer, "state"):
            for tensor in _tensors(state):
                yield "optimizer-state", name, tensor


def _gradient(tensor: Any) -> tuple[Any, ...]:
    with contextlib.suppress(Exception):
        if tensor.is_leaf and tensor.grad is not None:
            return (tensor.grad,)
    return ()


def _tensors(value: Any, depth: int = 4) -> Iterator[Any]:
    """Yield the tensors in an optimizer's state, which may be lists and dictionaries in each other."""
    if hasattr(value, "untyped_storage"):
        yield value
    elif depth and isinstance(value, (dict, list, tuple)):
        for part in list(value.values() if isinstance(value, dict) else value):
            yield from _tensors(part, depth - 1)


def _total_bytes(torch: Any, device: int) -> int | None:
    with contextlib.suppress(Exception):
        return int(torch.cuda.get_device_properties(device).total_memory)
    return None


def _say(text: str) -> None:
    with contextlib.suppress(Exception):
        print(f"nsysprof: {text}", file=sys.stderr)  # noqa: T201


def begin(torch: Any) -> None:
    """Record this process, which has just imported torch, from when it uses CUDA."""
    torch.cuda._lazy_call(lambda: attempt(MemoryRecorder(torch, os.environ[FOLDER]).start, _FAULT))
