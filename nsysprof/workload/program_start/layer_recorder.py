"""Open a range around each call of a module, and around its part of the backward pass, in a captured program.

It needs only torch, because it runs in the program's own Python. Forward ranges lie inside one another. The backward
pass has no calls: a range begins where autograd reaches the node of a module's output, or a node that the module's
inner modules were given, and ends where the next one begins. A step of an optimizer has a range of its own. The ranges
say `nsysprof PASS PATH (CLASS)`, which nsysprof.trace.table_readers.layer_ranges reads.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .attention_calls.fast_path import forget_module, watch_modules
from .attention_calls.range_marker import find_marker
from .watched_program.module_places import named_modules
from .watched_program.process_file import process_path, write_json

FOLDER, DEPTH, PATTERN = "NSYSPROF_LAYERS_FOLDER", "NSYSPROF_LAYERS_DEPTH", "NSYSPROF_LAYERS_PATTERN"
# What the reader of ranges does not take for a name, and what no range can be called.
_UNSAFE = re.compile(r"[\s()\x00-\x1f\x7f\ud800-\udfff]+")
_LONGEST = 200
# In a model with more modules than the first number, at most the second share get ranges, unless a depth is given:
# those that are not too deep: of what is left of the cost, a range of NVTX under nsys takes most.
_FEW_MODULES, _AFFORDABLE = 100, 0.5
# So many tensors of a module's inputs and outputs lead to nodes of autograd.
_MOST_TENSORS = 16
_MARK = "nsysprof"
# The time of the recorder itself is measured in the calls of one of so many modules, the first time in the ninth.
_SAMPLED, _FIRST_SAMPLED = 64, 8


class ModuleRanges:
    """The names of a module's ranges. path: as the author of the model knows it."""

    def __init__(self, path: str, kind: str, *, is_timed: bool) -> None:
        self.is_timed = is_timed
        self.path = _UNSAFE.sub("_", path)[:_LONGEST] or "_"
        name = f"{self.path} ({_UNSAFE.sub('_', kind)[:_LONGEST] or '_'})"
        self.forward = f"nsysprof forward {name}"
        self.backward = f"nsysprof backward {name}"
        self.more_backward = f"nsysprof backward-part {name}"


class Layers:
    """The modules of a program, by where they are in the outermost ones."""

    def __init__(self, depth: int | None, pattern: str) -> None:
        self._depth, self._pattern = depth, re.compile(pattern) if pattern else None
        # By the number of the module; None for one without a range.
        self.by_module: dict[int, ModuleRanges | None] = {}
        # The name of the range of the calls of each module that is not timed, or None.
        self.texts: dict[int, str | None] = {}
        self._kept: dict[int, weakref.ref[Any]] = {}
        self._roots = self.count = self.timed = 0
        # How many parts a path may have; 0 for any number.
        self._deepest = depth or 0

    def add(self, module: Any, parent: ModuleRanges | None) -> ModuleRanges | None:
        """Name a new module and return its layer; None where it gets no range. parent: the layer that called it."""
        try:
            if parent is None:
                self._add_root(module)
            else:  # kept where named_modules does not look, such as in a plain list
                kind = type(module).__name__
                self._add(module, f"{parent.path}.{kind}", kind)
        except Exception:  # noqa: BLE001 - a module of the program's own kind
            self._keep(module, None)
        return self.by_module.get(id(module))

    def _add_root(self, root: Any) -> None:
        """Name a module that no other called, and all that it has."""
        outer: dict[str, Any] = {}
        kinds: dict[str, str] = {}
        for path, module in named_modules(root):
            if path in outer:  # the module in a wrapper, which has the range
                self._keep(module, None)
            else:
                outer[path] = module
            kinds[path] = type(module).__name__
        before = f"{kinds['']}." if self._roots else ""
        self._roots += 1
        self._deepest = _affordable_depth(list(outer)) if self._depth is None else self._depth
        for path, module in outer.items():
            self._add(module, f"{before}{path}" if path else kinds[""], kinds[path])

    def _add(self, module: Any, path: str, kind: str) -> None:
        is_too_deep = self._deepest and path.count(".") >= self._deepest
        is_other = self._pattern is not None and not self._pattern.search(path)
        if is_too_deep or is_other:
            self._keep(module, None)
            return
        is_timed = self.count % _SAMPLED == _FIRST_SAMPLED
        self.count, self.timed = self.count + 1, self.timed + is_timed
        self._keep(module, ModuleRanges(path, kind, is_timed=is_timed))

    def _keep(self, module: Any, layer: ModuleRanges | None) -> None:
        number = id(module)
        self.by_module[number] = layer
        self.texts.pop(number, None)  # it may have had another name
        forget_module(number)
        if layer is None or not layer.is_timed:
            self.texts[number] = None if layer is None else layer.forward
        with contextlib.suppress(TypeError):
            self._kept[number] = weakref.ref(module, lambda _: self._forget(number))

    def _forget(self, number: int) -> None:
        self.by_module.pop(number, None)
        self.texts.pop(number, None)
        self._kept.pop(number, None)
        forget_module(number)


def _affordable_depth(paths: list[str]) -> int:
    """Return how many parts the paths of modules may have so that ranges take little time; 0: any number."""
    if len(paths) <= _FEW_MODULES:
        return 0
    depths = sorted(path.count(".") + 1 for path in paths)
    deepest = depths[int(_AFFORDABLE * len(depths))]
    return max(1, deepest - 1)


class Backward:
    """The open ranges of the backward pass, one a thread, and the range of an optimizer's step.

    start, end: open a range that any thread may close, and return its number; close it.
    """

    def __init__(self, torch: Any, start: Callable[[str], Any], end: Callable[[Any], None]) -> None:
        self._start, self._end = start, end
        self._engine = torch.autograd.Variable._execution_engine
        self._task = getattr(torch._C, "_current_graph_task_id", lambda: -1)
        self.open: dict[Any, Any] = {}

    def mark(self, values: Iterable[Any], layer: ModuleRanges, *, is_output: bool) -> None:
        """Let the nodes of tensors open the layer's range when the backward pass comes to them."""
        for tensor in values:
            node = tensor.grad_fn
            if node is None:
                continue
            begins = node.metadata.get(_MARK)
            if begins is not None:
                if is_output and begins:  # an inner module has the same output
                    begins.append(layer.backward)
                continue
            begins = node.metadata[_MARK] = [layer.backward] if is_output else []
            node.register_prehook(self._function(begins, layer.more_backward))

    def enter(self, text: str, outer: list[str]) -> None:
        """Begin a layer's range on this thread. outer: the ranges of modules that end with the same node."""
        thread = threading.get_ident()
        previous = self.open.pop(thread, None)
        if previous is not None:
            self._end(previous)
        elif not self.open:
            with contextlib.suppress(Exception):
                self._engine.queue_callback(self.leave)
        for other in outer:
            self._end(self._start(other))
        self.open[thread] = self._start(text)

    def step(self, optimizer: Any) -> None:
        """Begin the range of an optimizer's step."""
        self.leave()
        kind = _UNSAFE.sub("_", type(optimizer).__name__)[:_LONGEST]
        self.open["optimizer"] = self._start(f"nsysprof optimizer {kind} ({kind})")

    def leave(self) -> None:
        """End all that is open."""
        while self.open:
            self._end(self.open.popitem()[1])

    def leave_where_over(self) -> None:
        """End what an exception left open: the program is neither in a backward pass nor in an optimizer's step."""
        if self._task() == -1:
            self.leave()

    def _function(self, begins: list[str], more: str) -> Callable[[Any], None]:
        def enter(_gradients: Any) -> None:
            with contextlib.suppress(Exception):
                if begins:
                    self.enter(begins[0], begins[:0:-1])
                else:
                    self.enter(more, [])

        return enter


class LayerRecorder:
    """The recording of this process. push, pop: open and close a range on the calling thread."""

    def __init__(
        self, torch: Any, layers: Layers, push: Callable[[str], Any], pop: Callable[[], Any], backward: Backward | None
    ) -> None:
        self._torch, self._layers, self._push, self._pop = torch, layers, push, pop
        self._backward = backward
        self._held = threading.local()
        self._first_ns = self._timed_calls = self._own_ns = 0

    def start(self) -> None:
        """Open ranges from now on."""
        self._watch_modules()
        if self._backward is None:
            return
        with contextlib.suppress(ImportError, AttributeError):
            from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

            backward, is_compiling = self._backward, self._torch.compiler.is_dynamo_compiling
            register_optimizer_step_pre_hook(lambda opt, _args, _named: None if is_compiling() else backward.step(opt))
            register_optimizer_step_post_hook(lambda _opt, _args, _named: None if is_compiling() else backward.leave())

    def write(self, path: str) -> None:
        """Write how many modules there were, and what recording those cost that were timed."""
        write_json(path, {
            "format_version": 1, "layers": self._layers.count, "timed_layers": self._layers.timed,
            "timed_calls": self._timed_calls, "own_ns": self._own_ns,
            "wall_ns": time.perf_counter_ns() - self._first_ns if self._first_ns else 0,
            "backward": self._backward is not None,
        })  # fmt: skip

    def _watch_modules(self) -> None:
        torch, kind, push, pop, watched = self._torch, self._torch.nn.Module, self._push, self._pop, self._watched
        find, known = self._find, self._layers.by_module
        is_compiling = torch.compiler.is_dynamo_compiling
        has_gradients = torch.is_grad_enabled if self._backward is not None else None
        original, left_open = kind.__dict__["__call__"], {} if self._backward is None else self._backward.open

        def call(module: Any, *arguments: Any, **named: Any) -> Any:
            if is_compiling():  # torch.compile reads this function, and only the call of the original is left of it
                return original(module, *arguments, **named)
            try:
                layer: Any = known[id(module)]
            except KeyError:
                layer = find(module)
            if layer is None:
                return original(module, *arguments, **named)
            if layer.is_timed or left_open or (has_gradients is not None and has_gradients()):
                return watched(layer, functools.partial(original, module), arguments, named)
            push(layer.forward)
            try:
                return original(module, *arguments, **named)
            finally:
                pop()

        before = None if original is kind.__dict__.get("_wrapped_call_impl") else original
        watch_modules(call, before, self._layers.texts, left_open, has_gradients, push, pop)
        kind.__call__ = call

    def _find(self, module: Any) -> ModuleRanges | None:
        """Return the layer of a module that has not been called before."""
        self._first_ns = self._first_ns or time.perf_counter_ns()
        frame, parent, run = sys._getframe(2), None, self._torch.nn.Module._call_impl.__code__
        while frame is not None and parent is None:
            if frame.f_code is run:
                parent = self._layers.by_module.get(id(frame.f_locals.get("self")))
            frame = frame.f_back  # type: ignore[assignment]
        return self._layers.add(module, parent)

    def _watched(
        self, layer: ModuleRanges, run: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """Call a module that is timed, or whose backward pass is recorded."""
        clock, held = time.perf_counter_ns, self._held
        times = [clock()]
        if self._backward is not None and self._backward.open:
            self._backward.leave_where_over()
        backward = self._backward if self._torch.is_grad_enabled() else None
        parent = held.__dict__.get("layer")
        if backward is not None:
            held.layer = layer
            if parent is not None:
                self._mark((arguments, named), parent, is_output=False)
        self._push(layer.forward)
        times.append(clock())
        try:
            result = run(*arguments, **named)
        finally:
            times.append(clock())
            self._pop()
            held.layer = parent
        if backward is not None:
            self._mark(result, layer, is_output=True)
        if layer.is_timed:
            self._timed_calls += 1
            self._own_ns += clock() - times[2] + times[1] - times[0]
        return result

    def _mark(self, value: Any, layer: ModuleRanges, *, is_output: bool) -> None:
        with contextlib.suppress(Exception):  # nodes and tensors of the program's own kinds
            assert self._backward is not None
            self._backward.mark(_tensors(value, self._torch.Tensor), layer, is_output=is_output)


def _tensors(value: Any, kind: type) -> Iterator[Any]:
    """Yield the first tensors in a value, such as a tuple or a transformers output, two levels deep at most."""
    left = _MOST_TENSORS
    for part in _parts(value, kind):
        for inner in _parts(part, kind):
            for tensor in _parts(inner, kind):
                if isinstance(tensor, kind):
                    yield tensor
                    left -= 1
                    if not left:
                        return


def _parts(value: Any, kind: type) -> Iterable[Any]:
    if isinstance(value, kind):
        return (value,)
    if isinstance(value, (tuple, list)):
        return value[:_MOST_TENSORS]
    return tuple(value.values())[:_MOST_TENSORS] if isinstance(value, dict) else ()


def begin(torch: Any) -> None:
    """Record this process, which has just imported torch."""
    push, pop, origin = find_marker(torch)
    if origin == "none" or not hasattr(torch.nn.Module, "_compiled_call_impl"):
        print("nsysprof: modules are not recorded with this torch", file=sys.stderr)  # noqa: T201
        return
    depth = os.environ.get(DEPTH)
    layers = Layers(int(depth) if depth else None, os.environ.get(PATTERN) or "")
    recorder = LayerRecorder(torch, layers, push, pop, _backward(torch, push, pop, origin))
    recorder.start()
    process = os.getpid()
    path = process_path(os.environ[FOLDER])
    atexit.register(lambda: recorder.write(path) if os.getpid() == process else None)


def _backward(torch: Any, push: Any, pop: Any, origin: str) -> Backward | None:
    """Return what records the backward pass; None where no range can be closed by another thread."""
    own = getattr(torch._C, "_nvtx", None)
    if origin == "profiler":
        return Backward(torch, *_on_one_thread(push, pop))
    if own is None or not hasattr(own, "rangeStartA"):
        return None
    return Backward(torch, own.rangeStartA, own.rangeEnd)


def _on_one_thread(push: Any, pop: Any) -> tuple[Callable[[str], int], Callable[[int], None]]:
    """Return functions that open and close a range of torch's profiler, which has those of one thread alone."""
    left: dict[int, int] = {}

    def start(text: str) -> int:
        thread = threading.get_ident()
        for _ in range(left.pop(thread, 0)):
            pop()
        push(text)
        return thread

    def end(thread: int) -> None:
        if thread == threading.get_ident():
            pop()
        else:  # it ends when this thread begins the next one
            left[thread] = left.get(thread, 0) + 1

    return start, end
