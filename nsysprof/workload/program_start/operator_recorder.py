"""Record the operators of a few steps of a captured program: their shapes as NVTX ranges, their types in a file.

It needs only torch, because it runs in the program's own Python. A step is a step of an optimizer, else a call of the
outermost module. After NSYSPROF_OPERATORS_SKIP steps (5 by default), torch writes each operator of three steps as an
NVTX range. In the last of them, torch's observer writes down the tensors of each operator as well, which go into
NSYSPROF_OPERATORS_FOLDER/PROCESS.json. These steps lie in a range `nsysprof operators`, since their times are not those
of the program.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any

FOLDER, SKIP = "NSYSPROF_OPERATORS_FOLDER", "NSYSPROF_OPERATORS_SKIP"
# The same names as in nsysprof.torchprof.operator_facts.
MARK, LAYER = "nsysprof operators", "nsysprof layer "
_STEPS = 3
# More operators of a step than these are not written.
_MOST_OPERATORS = 60_000
_WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "module")


class OperatorRecorder:
    """The recording of this process, which happens once."""

    def __init__(self, torch: Any, beside: Callable[[str], Any]) -> None:
        self._torch, self._process = torch, os.getpid()
        self._path = os.path.join(os.environ[FOLDER], f"{self._process}.json")  # noqa: PTH118
        self._skip = int(os.environ.get(SKIP) or 5)
        self._calls = beside("module_calls").ModuleCalls(
            torch, lambda steps: attempt(lambda: self._ended(steps), self.close)
        )
        self._shorten = beside("attention_facts").shorten_path
        self._optimizer: int | None = None
        self._optimizer_steps = 0
        self._seen = -1
        self._first = self._skip
        self._open = contextlib.ExitStack()
        self._observer: Any = None

    def start(self) -> None:
        """Count steps from now on."""
        with contextlib.suppress(ImportError, AttributeError):
            from torch.optim.optimizer import register_optimizer_step_post_hook

            register_optimizer_step_post_hook(lambda optimizer, _arguments, _named: self._count(optimizer))
        atexit.register(lambda: attempt(self.close))
        self._calls.begin()

    def close(self) -> None:
        """End whatever is being recorded. A step that the program's end cuts off is not written."""
        self._stop_observer()
        self._open.close()
        self._calls.end()

    def _count(self, optimizer: Any) -> None:
        if self._optimizer is None:
            self._optimizer = id(optimizer)
        if id(optimizer) == self._optimizer:
            self._optimizer_steps += 1

    def _ended(self, calls: int) -> None:
        """Go on where a step has ended: at the call of the outermost module, where no operator is open."""
        steps = calls if self._optimizer is None else self._optimizer_steps
        if steps == self._seen or os.getpid() != self._process:
            return
        self._seen = steps
        if not self._torch.cuda.is_initialized() or self._torch.cuda.is_current_stream_capturing():
            self._first = steps + self._skip
        elif steps == self._first:
            self._begin()
        elif steps == self._first + _STEPS - 1:
            self._observe()
        elif steps >= self._first + _STEPS:
            self._end()

    def _begin(self) -> None:
        torch = self._torch
        self._open.callback(torch.cuda.nvtx.range_end, torch.cuda.nvtx.range_start(MARK))
        self._open.enter_context(_watch_layers(torch, self._calls.watched, self._shorten))
        self._open.enter_context(torch.autograd.profiler.emit_nvtx(record_shapes=True))

    def _observe(self) -> None:
        from torch.profiler import ExecutionTraceObserver

        self._observer = ExecutionTraceObserver()
        self._observer.register_callback(f"{self._path}.trace")
        self._observer.start()

    def _end(self) -> None:
        try:
            self._stop_observer()
            _shorten(self._path)
        finally:
            self.close()

    def _stop_observer(self) -> None:
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            observer.unregister_callback()


class _Layers:
    """The paths of modules."""

    def __init__(self, torch: Any, outermost: Any, shorten: Callable[[str], str]) -> None:
        self._hidden = os.path.dirname(torch.__file__), os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
        self._shorten = shorten
        self._paths: dict[int, str] = {}
        self._add(outermost)

    def path(self, module: Any) -> str:
        """Return the path of a module below the outermost one, which itself has the name of its class."""
        if id(module) not in self._paths:
            self._add(module)
        return self._paths[id(module)]

    def place(self, frame: Any) -> str:
        """Return FILE:LINE of the innermost frame that is neither torch's nor ours, from the one of a call on."""
        while frame.f_back is not None and frame.f_code.co_filename.startswith(self._hidden):
            frame = frame.f_back
        return f"{self._shorten(frame.f_code.co_filename)}:{frame.f_lineno}"

    def _add(self, outermost: Any) -> None:
        for name, module in outermost.named_modules():
            # As the model's author knows it: torch.compile and its wrappers for many GPUs put a module around it.
            path = ".".join(part for part in name.split(".") if part not in _WRAPPERS)
            self._paths.setdefault(id(module), path or type(outermost).__name__)


@contextlib.contextmanager
def _watch_layers(torch: Any, outermost: Any, shorten: Callable[[str], str]) -> Iterator[None]:
    """Open a range around each call of a module until the end of the context; not where torch.compile reads it."""
    kind, layers, compiler = torch.nn.Module, _Layers(torch, outermost, shorten), torch.compiler
    open_range = torch.autograd.profiler.record_function
    original = kind.__dict__["__call__"]

    def call(module: Any, *arguments: Any, **named: Any) -> Any:
        # The outermost module is open when the recording begins and when it ends.
        if compiler.is_compiling() or module is outermost:
            return original(module, *arguments, **named)
        try:
            layer = open_range(f"{LAYER}{layers.path(module)} @ {layers.place(sys._getframe(1))}")
        except Exception:  # noqa: BLE001 - a module of the program's own kind
            return original(module, *arguments, **named)
        with layer:
            return original(module, *arguments, **named)

    kind.__call__ = call
    try:
        yield
    finally:
        if kind.__dict__.get("__call__") is call:
            kind.__call__ = original


def _shorten(path: str) -> None:
    """Write what the execution trace says of each operator, by its number, instead of the trace.

    A tensor has the fields of nsysprof.torchprof.operator_facts.Tensor; a number stands for itself.
    """
    with open(f"{path}.trace", encoding="utf-8") as file:  # noqa: PTH123
        nodes = json.load(file)["nodes"]
    os.remove(f"{path}.trace")  # noqa: PTH107
    operators = []
    for node in nodes[:_MOST_OPERATORS]:
        attributes = {item["name"]: item["value"] for item in node["attrs"]}
        operators.append({
            "op_id": attributes.get("rf_id", 0), "name": node["name"],
            "inputs": _values(node["inputs"]), "outputs": _values(node["outputs"]),
        })  # fmt: skip
    with open(f"{path}.part", "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump({"format_version": 1, "operators": operators}, file, separators=(",", ":"))
    os.replace(f"{path}.part", path)  # noqa: PTH105


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


def attempt(action: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
    """Run an action; print its exception instead of raising it, so that the program goes on, and clean up."""
    try:
        action()
    except Exception as error:  # noqa: BLE001
        print(f"nsysprof: operators are not recorded: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        if otherwise is not None:
            attempt(otherwise)


def begin(torch: Any, beside: Callable[[str], Any]) -> None:
    """Record this process, which has just imported torch. beside: returns a module of this folder."""
    if torch.version.cuda:
        attempt(OperatorRecorder(torch, beside).start)
