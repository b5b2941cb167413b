"""Start recording a captured program's memory, stacks and attention. Python imports this module when it starts.

It needs only the standard library, since the program's Python need not have nsysprof. Torch's CUDA allocator is
recorded from the moment at which CUDA is initialised, so that a program that forks first still can. At its end, each
process that used CUDA writes a snapshot into the folder NSYSPROF_MEMORY_FOLDER. The stacks of a process that imports
torch, cupy or jax go into the folder NSYSPROF_STACKS_FOLDER, and its attention calls into NSYSPROF_ATTENTION_FOLDER. A
fault here is printed and never ends the program.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import pickle
import sys
from collections.abc import Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

FOLDER = "NSYSPROF_MEMORY_FOLDER"
STACKS = "NSYSPROF_STACKS_FOLDER"
POLICY = "NSYSPROF_POLICY"
ATTENTION = "NSYSPROF_ATTENTION_FOLDER"
STEPS = "NSYSPROF_STEPS_FOLDER"
TORCH = "NSYSPROF_TORCH_FOLDER"
ATTN_IMPLEMENTATION = "NSYSPROF_ATTN_IMPLEMENTATION"
RANGES = "NSYSPROF_RANGES_FOLDER"
STEP_ENDS = "NSYSPROF_STEP_ENDS_FOLDER"
CUPTI = "NSYSPROF_CUPTI_FOLDER"
OPERATORS = "NSYSPROF_OPERATORS_FOLDER"
LAYERS = "NSYSPROF_LAYERS_FOLDER"
COLLECTIONS = "NSYSPROF_GC"
REMEDIES, REMEDIES_FOLDER = "NSYSPROF_REMEDIES", "NSYSPROF_REMEDIES_FOLDER"
END_STEPS = "NSYSPROF_END_STEPS"
# Libraries that use the GPU from Python; a process without any of them is a launcher or a helper.
_OF_GPU = ("torch", "cupy", "jax", "cuda", "numba.cuda", "tensorflow", "pycuda")
# Older events are overwritten; what is held at the end is known whatever its age.
_MOST_EVENTS = 200_000


class _WatchImports:
    """A finder that leaves the search to others. It samples stacks once a library of the GPU is wanted."""

    def __init__(self) -> None:
        self._has_begun = self._is_searching = False
        self._sampler: Any = None

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        if name in _OF_GPU and not self._has_begun and os.environ.get(STACKS):
            self._has_begun = True
            _attempt(self._sample)
        if name != "torch" or self._is_searching:
            return None
        self._is_searching = True  # the program may only ask whether there is a torch
        try:
            spec: ModuleSpec | None = importlib.util.find_spec(name)
        finally:
            self._is_searching = False
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if self not in sys.meta_path:
                return
            sys.meta_path.remove(self)
            if os.environ.get(FOLDER):
                _attempt(lambda: module.cuda._lazy_call(lambda: _attempt(lambda: _begin(module))))
            if self._sampler is not None:
                _attempt(lambda: self._sampler.mark_waits(module))

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def _sample(self) -> None:
        sampler = _beside("stack_sampler").StackSampler(os.environ[STACKS])
        sampler.start()
        self._sampler = sampler


def _begin(torch: Any) -> None:
    torch.cuda.memory._record_memory_history(max_entries=_MOST_EVENTS, stacks="python")
    process = os.getpid()
    atexit.register(lambda: _attempt(lambda: _write(torch, process)))


def _write(torch: Any, process: int) -> None:
    """Write the snapshot, unless this is a fork of the process that recorded."""
    if os.getpid() != process:
        return
    path = os.path.join(os.environ[FOLDER], f"{process}.pickle")  # noqa: PTH118
    snapshot = torch.cuda.memory._snapshot()
    with open(f"{path}.part", "wb") as file:  # noqa: PTH123
        pickle.dump(snapshot, file, protocol=4)
    os.replace(f"{path}.part", path)  # noqa: PTH105


def _beside(name: str) -> Any:
    """Return a module of this folder, which the program's own path does not have."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")  # noqa: PTH100, PTH118, PTH120
    spec = importlib.util.spec_from_file_location(f"nsysprof_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _begin_remedies(torch: Any) -> None:
    """Load the folder applied_remedies as a package of its own, and let it begin."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "applied_remedies")  # noqa: PTH100, PTH118, PTH120
    path = os.path.join(folder, "__init__.py")  # noqa: PTH118
    spec = importlib.util.spec_from_file_location("nsysprof_remedies", path, submodule_search_locations=[folder])
    assert spec is not None
    sys.modules["nsysprof_remedies"] = importlib.util.module_from_spec(spec)
    watch = importlib.import_module("nsysprof_remedies.watch_program")
    _attempt(lambda: watch.begin(torch, _beside("step_watch").EndedSteps(torch)))


def _attempt(action: Any) -> None:
    try:
        action()
    except Exception as error:  # noqa: BLE001
        print(f"nsysprof: the program's memory, stacks or attention are not recorded: {error}", file=sys.stderr)  # noqa: T201


def _import_the_next() -> None:
    """Import the program's own sitecustomize, which this module hides, and restore its path."""
    own = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != own]  # noqa: PTH100
    this = sys.modules.pop(__name__)
    try:
        importlib.import_module(__name__)
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
    finally:
        # The import of this module is still running, and needs it there.
        sys.modules.setdefault(__name__, this)


_OURS = (
    FOLDER, STACKS, POLICY, ATTENTION, STEPS, TORCH, ATTN_IMPLEMENTATION, RANGES, STEP_ENDS, CUPTI, OPERATORS, LAYERS,
    COLLECTIONS, REMEDIES, REMEDIES_FOLDER, END_STEPS,
)  # fmt: skip
if os.environ.get(POLICY):
    _attempt(lambda: _beside("policy_start").begin())
if os.environ.get(ATTENTION):
    _attempt(lambda: _beside("attention_hook").AttentionHook(os.environ[ATTENTION]).start())
if os.environ.get(ATTN_IMPLEMENTATION):
    _attempt(lambda: _beside("transformers_attention").begin())
if os.environ.get(STEPS):
    _attempt(lambda: _beside("policy_start").after_torch("steps", _beside("step_watch").watch))
if os.environ.get(TORCH):
    _attempt(
        lambda: _beside("policy_start").after_torch("torch", partial(_beside("torch_recorder").begin, beside=_beside))
    )
if os.environ.get(CUPTI):
    _attempt(lambda: _beside("cupti_recorder").begin())
if os.environ.get(RANGES):
    _attempt(lambda: _beside("policy_start").after_torch("ranges", _beside("range_times").watch))
if os.environ.get(STEP_ENDS):
    _attempt(lambda: _beside("policy_start").after_torch("ends", partial(_beside("step_ends").watch, beside=_beside)))
if os.environ.get(OPERATORS):
    _attempt(
        lambda: _beside("policy_start").after_torch(
            "operators", partial(_beside("operator_recorder").begin, beside=_beside)
        )
    )
if os.environ.get(COLLECTIONS) == "1":
    _attempt(
        lambda: _beside("policy_start").after_torch("gc", partial(_beside("collection_ranges").begin, beside=_beside))
    )
if os.environ.get(LAYERS):
    _attempt(
        lambda: _beside("policy_start").after_torch("layers", partial(_beside("layer_recorder").begin, beside=_beside))
    )
if any(os.environ.get(name) for name in (REMEDIES, REMEDIES_FOLDER, END_STEPS)):
    _attempt(lambda: _beside("policy_start").after_torch("remedies", _begin_remedies))
if os.environ.get(FOLDER) or os.environ.get(STACKS):
    sys.meta_path.insert(0, _WatchImports())
if any(os.environ.get(name) for name in _OURS):
    _import_the_next()
