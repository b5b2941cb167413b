"""Record the operators of a few steps of a captured program: their shapes as NVTX ranges, their types in a file.

It needs only torch, because it runs in the program's own Python. A step is a step of an optimizer, else a call of the
outermost module; the recording begins and ends where the module is called, or where the optimizer of a program without
modules clears its gradients. After NSYSPROF_OPERATORS_SKIP steps (5 by default), torch writes each operator of three
steps as an NVTX range. In the last of them, torch's observer writes down the tensors of each operator as well, which go
into NSYSPROF_OPERATORS_FOLDER/PROCESS.json. These steps lie in a range `nsysprof operators`, since their times are not
those of the program. The operators of a CUDA graph are recorded in the same way while torch captures it, whenever that
is.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import threading
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any

from .attention_facts import shorten_path
from .watched_program.after_import import attempt
from .watched_program.module_places import find_place, named_modules
from .watched_program.process_file import process_path, write_json
from .watched_program.program_steps import FirstOptimizer, ModuleCalls

FOLDER, SKIP = "NSYSPROF_OPERATORS_FOLDER", "NSYSPROF_OPERATORS_SKIP"
# The same names as in nsysprof.torchprof.operator_facts.
MARK, LAYER = "nsysprof operators", "nsysprof layer "
_STEPS = 3
# Where there is an optimizer, so many calls of a module without a step of it mean that it takes none. Cells of a
# recurrent net, rollouts and accumulated gradients are many calls in a step.
_MOST_CALLS = 1_000
# More operators than these are not written, and the operators of more graphs not recorded.
_MOST_OPERATORS, _MOST_CAPTURES = 60_000, 200
_FAULT, _FAULT_OF_GRAPHS = "operators are not recorded", "operators of CUDA graphs are not recorded"


class OperatorRecorder:
    """The recording of this process: of some steps, once, and of the graphs that it captures."""

    def __init__(self, torch: Any) -> None:
        self._torch, self._process = torch, os.getpid()
        self._path = process_path(os.environ[FOLDER])
        self._skip = int(os.environ.get(SKIP) or 5)
        self._calls = ModuleCalls(torch, self._go_on)
        self._has_optimizer, self._optimizer_steps = False, 0
        self._seen = -1
        self._first = self._skip
        self._open = contextlib.ExitStack()
        self._observer: Any = None
        self._operators: list[dict[str, Any]] = []
        self._recordings = 0
        self._is_in_step = self._is_done = False
        # How many graphs are being captured, how many were recorded, and the thread that records one.
        self._captures = self._recorded = 0
        self._recording_thread: int | None = None
        self._lock = threading.RLock()

    def start(self) -> None:
        """Count steps from now on, and watch captures."""
        FirstOptimizer(self._count).watch()
        atexit.register(lambda: attempt(self.close, _FAULT))
        self._calls.begin()
        attempt(self._watch_optimizers, _FAULT)
        attempt(lambda: watch_captures(self._torch, self._before_capture, self._after_capture), _FAULT_OF_GRAPHS)

    def close(self) -> None:
        """End whatever is being recorded. A step that the program's end cuts off is not written."""
        self._leave()
        self._calls.end()

    def _leave(self) -> None:
        self._is_in_step, self._recording_thread = False, None
        try:
            self._stop_observer()
        finally:
            self._open.close()

    def _count(self) -> None:
        self._optimizer_steps += 1

    def _watch_optimizers(self) -> None:
        """Note that there is one, and go on where it clears its gradients: a program may train without a module."""
        kind, compiler = self._torch.optim.Optimizer, self._torch.compiler
        begin, clear = kind.__init__, kind.zero_grad

        @functools.wraps(begin)
        def initialize(optimizer: Any, *arguments: Any, **named: Any) -> None:
            self._has_optimizer = True
            begin(optimizer, *arguments, **named)

        @functools.wraps(clear)
        def zero_grad(optimizer: Any, *arguments: Any, **named: Any) -> Any:
            if not compiler.is_compiling() and self._calls.watched is None:
                self._go_on(0)
            return clear(optimizer, *arguments, **named)

        kind.__init__, kind.zero_grad = initialize, zero_grad

    def _go_on(self, calls: int) -> None:
        if not attempt(lambda: self._ended(calls), _FAULT):
            attempt(self.close, _FAULT)

    def _ended(self, calls: int) -> None:
        """Go on where a step has ended and no operator is open."""
        steps = self._optimizer_steps or calls
        if self._is_done or steps == self._seen or os.getpid() != self._process:
            return
        if self._has_optimizer and not self._optimizer_steps and calls < _MOST_CALLS:
            return
        self._seen = steps
        torch = self._torch
        is_busy = self._captures or self._recording_thread is not None
        if not torch.cuda.is_initialized() or is_busy or torch.cuda.is_current_stream_capturing():
            if not self._is_in_step:
                self._first = steps + self._skip
        elif self._observer is not None:
            self._end()
        elif self._is_in_step:
            if steps >= self._first + _STEPS - 1:
                self._observe()
        elif steps >= self._first:
            self._is_in_step, self._first = True, steps
            self._begin()

    def _begin(self) -> None:
        torch = self._torch
        self._open.callback(torch.cuda.nvtx.range_end, torch.cuda.nvtx.range_start(MARK))
        self._open.enter_context(watch_layers(torch, self._calls.watched))
        self._open.enter_context(torch.autograd.profiler.emit_nvtx(record_shapes=True))

    def _observe(self) -> None:
        from torch.profiler import ExecutionTraceObserver

        self._observer = ExecutionTraceObserver()
        self._observer.register_callback(f"{self._path}.trace")
        self._observer.start()

    def _end(self) -> None:
        self._is_done = True
        try:
            self._write()
        finally:
            self.close()

    def _write(self) -> None:
        """Add what was observed to the file of this process."""
        self._stop_observer()
        found = read_trace(f"{self._path}.trace", self._recordings)
        self._recordings += 1
        self._operators = [*self._operators, *found][:_MOST_OPERATORS]
        write_operators(self._path, self._operators)

    def _stop_observer(self) -> None:
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            observer.unregister_callback()

    def _before_capture(self) -> None:
        """Record the graph that this thread is about to capture, if nothing else is being recorded.

        To begin and to end, torch waits for the GPU, which no thread may do while another one captures.
        """
        with self._lock:
            self._captures += 1
            is_busy = self._captures > 1 or self._is_in_step or self._recording_thread is not None
            if is_busy or self._recorded >= _MOST_CAPTURES or os.getpid() != self._process:
                return
            if self._torch.cuda.is_current_stream_capturing():
                return
            self._recorded, self._recording_thread = self._recorded + 1, threading.get_ident()
            try:
                self._begin()
                self._observe()
            except BaseException:
                self._recorded = _MOST_CAPTURES
                self._leave()
                raise

    def _after_capture(self) -> None:
        """End the recording of this thread's graph, as soon as no other thread captures."""
        with self._lock:
            self._captures -= 1
            if self._captures or self._recording_thread != threading.get_ident():
                return
            try:
                self._write()
            except BaseException:
                self._recorded = _MOST_CAPTURES
                raise
            finally:
                self._leave()


def watch_captures(torch: Any, before: Callable[[], Any], after: Callable[[], Any]) -> None:
    """Call `before` each time the program is about to capture a CUDA graph, and `after` once it has or has failed to.

    What goes wrong in them is printed, and the program goes on.
    """
    kind = torch.cuda.CUDAGraph
    begin, end = kind.capture_begin, kind.capture_end
    held = threading.local()

    def finish() -> None:
        if held.__dict__.get("captures", 0):
            held.captures -= 1
            attempt(after, _FAULT_OF_GRAPHS)

    @functools.wraps(begin)
    def capture_begin(graph: Any, *arguments: Any, **named: Any) -> Any:
        held.captures = held.__dict__.get("captures", 0) + 1
        attempt(before, _FAULT_OF_GRAPHS)
        try:
            return begin(graph, *arguments, **named)
        except BaseException:
            finish()
            raise

    @functools.wraps(end)
    def capture_end(graph: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return end(graph, *arguments, **named)
        finally:
            finish()

    kind.capture_begin, kind.capture_end = capture_begin, capture_end


@contextlib.contextmanager
def watch_layers(torch: Any, outermost: Any) -> Iterator[None]:
    """Open a range around each call of a module until the end of the context; not where torch.compile reads it.

    outermost: the module whose calls have no range, because it is open already; None where none is known yet.
    """
    kind, compiler = torch.nn.Module, torch.compiler
    open_range = torch.autograd.profiler.record_function
    original = kind.__dict__["__call__"]
    paths: dict[int, str] = {}

    def path_of(module: Any) -> str:
        if id(module) not in paths:  # kept where named_modules does not look, such as in a plain list
            for path, inner in named_modules(module):
                paths.setdefault(id(inner), path or type(module).__name__)
        return paths[id(module)]

    def call(module: Any, *arguments: Any, **named: Any) -> Any:
        # The outermost module is open when the recording begins and when it ends.
        if compiler.is_compiling() or module is outermost:
            return original(module, *arguments, **named)
        try:
            place = find_place(torch, shorten_path)
            layer = open_range(f"{LAYER}{path_of(module)}" + (f" @ {place}" if place else ""))
        except Exception:  # noqa: BLE001 - a module of the program's own kind
            return original(module, *arguments, **named)
        with layer:
            return original(module, *arguments, **named)

    if outermost is not None:
        path_of(outermost)
    kind.__call__ = call
    try:
        yield
    finally:
        if kind.__dict__.get("__call__") is call:
            kind.__call__ = original


def read_trace(path: str, recording: int = 0) -> list[dict[str, Any]]:
    """Return what an execution trace says of each operator, by its number, and remove the trace.

    A tensor has the fields of nsysprof.torchprof.operator_facts.Tensor; a number stands for itself.

    recording: the number of the trace. In another one, the same number of a tensor means another tensor.
    """
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        nodes = json.load(file)["nodes"]
    os.remove(path)  # noqa: PTH107
    operators = []
    for node in nodes[:_MOST_OPERATORS]:
        attributes = {item["name"]: item["value"] for item in node["attrs"]}
        operators.append({
            "op_id": attributes.get("rf_id", 0), "name": node["name"],
            "inputs": _values(node["inputs"]), "outputs": _values(node["outputs"]), "recording": recording,
        })  # fmt: skip
    return operators


def write_operators(path: str, operators: list[dict[str, Any]]) -> None:
    """Write the file of a process."""
    write_json(path, {"format_version": 1, "operators": operators})


def _values(side: Any) -> list[Any]:
    return [_value(*parts) for parts in zip_longest(side["values"], side["shapes"], _strides(side), side["types"])]


def _strides(side: Any) -> list[Any]:
    """Return the strides of each value; None for all where torch wrote down those of some only."""
    strides = side.get("strides") or []
    return strides if len(strides) == len(side["values"]) else [None] * len(side["values"])


def _value(value: Any, sizes: Any, strides: Any, kind: str) -> Any:
    if kind.startswith("Tensor("):
        return {"sizes": sizes, "strides": strides, "type": kind[7:-1], "tensor": value[0], "storage": value[1]}
    if kind.startswith("GenericList[Tensor"):
        kinds = kind[12:-1].split(",")
        strides = strides if strides and len(strides) == len(value) else [None] * len(value)
        return [_value(*parts) for parts in zip(value, sizes, strides, kinds, strict=False)]
    return value if isinstance(value, (int, float, bool)) or _is_numbers(value) else None


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and len(value) < 9 and all(isinstance(part, (int, float)) for part in value)


def begin(torch: Any) -> None:
    """Record this process, which has just imported torch."""
    if torch.version.cuda:
        OperatorRecorder(torch).start()
