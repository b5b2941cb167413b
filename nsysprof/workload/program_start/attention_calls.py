"""Turn each call of attention into a range that is named after its shape, and count the calls.

It needs nothing but the standard library and the program's torch. A name is

    attention::<fwd|bwd>::<function>::B=..::H=..::KV=..::Q=..::K=..::D=..::dtype=..::causal=..::mask=..::...::at=FILE:LINE

as nsysprof.attention.attention_range reads it. A call is described when it is first seen; later ones are looked up.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

# One call in so many is timed: reading the clock takes longer than all else on some machines.
_TIMED_EVERY = 16
# More different calls than this share a name without a shape, because a program may change its shapes for ever.
_MOST_CALLS = 20_000
_MOST_PROBLEMS = 20
_MOST_NODES = 64
_TURNS = 200
_LONGEST_NAME = 500
_KEYS = {
    "batch": "B", "heads": "H", "kv_heads": "KV", "seq_q": "Q", "seq_kv": "K", "head_dim": "D", "head_dim_v": "DV",
    "dtype": "dtype", "causal": "causal", "mask": "mask", "dropout": "p", "layout": "layout",
}  # fmt: skip
_clock = time.perf_counter_ns


class Seen:
    """Calls of one shape from one line of the program."""

    __slots__ = ("after", "backward", "before", "facts", "forward", "function", "names", "paths", "site", "training")

    def __init__(self, function: str, facts: dict[str, Any], site: str) -> None:
        self.function, self.facts, self.site = function, facts, site
        self.forward = self.backward = self.training = 0
        self.names = {which: self._name(which) for which in ("fwd", "bwd")}
        # The way from the node of the result to the last node of the backward pass, by the type of the former.
        self.paths: dict[type, tuple[int, ...]] = {}
        self.before: Any = None
        self.after: Any = None

    def _name(self, which: str) -> str:
        facts = {
            key: int(value) if isinstance(value, bool) else value
            for name, key in _KEYS.items()
            if (value := self.facts.get(name)) is not None
        }
        if facts.get("DV") == facts.get("D"):
            facts.pop("DV", None)
        if not facts.get("p"):
            facts.pop("p", None)
        words = ["attention", which, self.function, *(f"{key}={value}" for key, value in facts.items())]
        name = "::".join(words)
        return f"{name}::at={self.site[-(_LONGEST_NAME - len(name)) :]}" if self.site else name

    def to_json(self) -> dict[str, Any]:
        counts = {"forward": self.forward, "backward": self.backward, "training": self.training}
        return {"function": self.function, "site": self.site, **self.facts, **counts}


class _Samples:
    """Calls that were timed."""

    def __init__(self) -> None:
        self.number = self.sum_ns = self.end_ns = self.calls = 0

    def add(self, spent_ns: int, end_ns: int, calls: int) -> None:
        """Add one call, which ended at end_ns as the one of number `calls`."""
        self.number += 1
        self.sum_ns += spent_ns
        self.end_ns, self.calls = end_ns, calls

    def total_ns(self, calls: int) -> int:
        """Return what so many calls took, by the mean of those that were timed."""
        return self.sum_ns * calls // self.number if self.number else 0


class AttentionCalls:
    """All calls of this process. facts: the module attention_facts."""

    def __init__(self, torch: Any, facts: Any, marker: tuple[Any, Any, str]) -> None:
        self._torch, self._facts = torch, facts
        self._push, self._pop, self._marker = marker
        # torch's folder and nsysprof's, whose policy may stand between the program and torch.
        here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
        torch_folder = os.path.dirname(os.path.abspath(torch.__file__))  # noqa: PTH100, PTH120
        self._inner = (torch_folder + os.sep, here + os.sep, "<")
        # By the address of a code object, which is kept: whether it is torch's or made by torch.
        self._codes: dict[int, tuple[Any, bool]] = {}
        self._types: dict[type, bool] = {torch.Tensor: True, torch.nn.Parameter: True}
        self._autocast = _autocast_of(torch)
        self._full = torch.float32
        self._inside = threading.local()
        self._problems: list[str] = []
        self._pending: list[str] = []
        # Called when the first call of a process is described.
        self.on_first: Callable[[], None] = lambda: None
        self.clear()

    def clear(self) -> None:
        """Forget all calls."""
        self._seen: dict[Any, Seen] = {}
        self._compiled: dict[str, Seen] = {}
        self._count = self._first_ns = self._described_ns = self._descriptions = 0
        self._forward, self._backward = _Samples(), _Samples()

    def problem(self, text: str) -> None:
        """Keep why something is not recorded."""
        if len(self._problems) < _MOST_PROBLEMS and text not in self._problems:
            self._problems.append(text[:300])

    def to_json(self) -> dict[str, Any]:
        """Return all calls, and what it cost to record them (ns)."""
        cuda = self._torch.cuda
        gpu = cuda.get_device_name() if cuda.is_available() and cuda.is_initialized() else None
        return {
            "calls": [seen.to_json() for seen in dict.fromkeys(self._seen.values())],
            "ranges": self._marker,
            "own_ns": self._own_ns(),
            "wall_ns": max(0, self._forward.end_ns - self._first_ns),
            "count": self._forward.calls,
            "problems": self._problems,
            "torch_version": str(self._torch.__version__),
            "gpu_name": gpu,
        }

    def _own_ns(self) -> int:
        """Return what recording took up to the last call that was timed (ns): this code, and autograd's for calling it.

        What autograd takes for a backward pass is measured here and now.
        """
        watched = sum(seen.backward for seen in self._seen.values() if seen.training)
        engine = watched * _measure_hooks(self._torch) if watched else 0
        return (
            self._described_ns + self._forward.total_ns(self._forward.calls) + self._backward.total_ns(watched) + engine
        )

    def wrap_function(self, original: Callable[..., Any], function: str) -> Callable[..., Any]:
        """Return a function that does what `original` does, within a range. function: its name in the range."""
        is_compiling = getattr(getattr(self._torch, "compiler", None), "is_compiling", lambda: False)
        run = self._run if function == "sdpa" else self._run_alone

        @functools.wraps(original)
        def attention(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():  # the compiler sees the original function alone
                return original(*args, **kwargs)
            return run(original, function, args, kwargs)

        return attention

    def wrap_in(self, module: Any, function: str) -> None:
        """Wrap a function of a module, where it has one."""
        original = getattr(module, function, None)
        if original is not None:
            setattr(module, function, self.wrap_function(original, function))

    def wrap_operator(self, operator: Any, *, is_backward: bool) -> None:
        """Put the calls of an operator from Python, as compiled programs make them, into ranges.

        torch's own C++ code calls the operator without this object, so that a call of the function has one range.
        """
        original, inside, types = operator._op, self._inside, self._types
        # While a program is compiled, what stands for its tensors may be of the type of a tensor.
        is_stand_in = getattr(self._torch, "_is_functional_tensor", lambda tensor: False)
        names = [argument.name for argument in operator._schema.arguments]
        first, which = names.index("query"), "bwd" if is_backward else "fwd"

        def run(*args: Any, **kwargs: Any) -> Any:
            if len(args) < first + 3 or not types.get(type(args[first]), False) or getattr(inside, "depth", False):
                return original(*args, **kwargs)
            if is_stand_in(args[first]):
                return original(*args, **kwargs)
            began = self._begin()
            seen = self._find_compiled(names, args, kwargs, which)
            if seen is None:
                return original(*args, **kwargs)
            return self._run_part(seen, which, began, original, args, kwargs)

        operator._op = run

    def wrap_triton(self, autotuner: Any) -> None:
        """Put the kernels that the compiler makes of flex_attention into ranges, each when it is made ready to run."""
        original = autotuner.precompile

        @functools.wraps(original)
        def precompile(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            name = getattr(getattr(kernel, "fn", None), "__name__", "")
            if name.startswith("triton_tem_") and ("flex_attention" in name or "flex_decoding" in name):
                kernel.run = FlexKernel(self, kernel, type(kernel).run, "bwd" if "backward" in name else "fwd")
            return original(kernel, *args, **kwargs)

        autotuner.precompile = precompile

    def run_flex(self, kernel: Any, original: Any, which: str, args: Any, kwargs: Any) -> Any:
        """Run a compiled kernel of flex_attention, whose first arguments are q, k and v."""
        began = self._begin()
        seen = None
        # The kernel takes a tensor once, even where it is q, k and v.
        plain = [type(each) is self._torch.Tensor and each.dim() == 4 for each in args[:3]]
        inputs = args[: [*plain, False].index(False)]
        if inputs:
            given = {"query": inputs[0], "key": inputs[:2][-1], "value": inputs[-1], "block_mask": True}
            seen = self._find("flex_attention", (), given, sys._getframe(2), which)
        if seen is None:
            return original(kernel, *args, **kwargs)
        return self._run_part(seen, which, began, functools.partial(original, kernel), args, kwargs)

    def _run_part(self, seen: Seen, which: str, began: int, original: Any, args: Any, kwargs: Any) -> Any:
        """Run one pass of a compiled call in a range. A mode of the program may run the same operator within."""
        self._inside.depth = True
        self._push(seen.names[which])
        called = _clock() if began else 0
        try:
            return original(*args, **kwargs)
        finally:
            returned = _clock() if began else 0
            self._pop()
            self._inside.depth = False
            if which == "bwd":
                seen.backward += 1
            else:
                seen.forward += 1
            if began:
                self._spent(began, called, returned)

    def _run_alone(self, original: Any, function: str, args: Any, kwargs: Any) -> Any:
        """Run a function that is written in Python, whose own calls of operators have no ranges."""
        inside = self._inside
        if getattr(inside, "depth", False):
            return original(*args, **kwargs)
        inside.depth = True
        try:
            return self._run(original, function, args, kwargs, 3)
        finally:
            inside.depth = False

    def _run(self, original: Any, function: str, args: Any, kwargs: Any, depth: int = 2) -> Any:
        began = self._begin()
        seen = self._find(function, args, kwargs, sys._getframe(depth), "fwd")
        if seen is None:
            out = original(*args, **kwargs)
            self._problems += self._pending  # a call that failed has no need to be recorded
            self._pending = []
            return out
        self._push(seen.names["fwd"])
        called = _clock() if began else 0
        try:
            out = original(*args, **kwargs)
        finally:
            returned = _clock() if began else 0
            self._pop()
            seen.forward += 1
        node = getattr(out[0] if type(out) is tuple else out, "grad_fn", None)
        if node is not None:
            self._watch_backward(seen, node, args, kwargs)
        if began:
            self._spent(began, called, returned)
        return out

    def _begin(self) -> int:
        """Return when a call began, where it is one of those that are timed; else 0."""
        self._count += 1
        if self._count % _TIMED_EVERY != 2:
            return 0
        self._before = self._descriptions
        return _clock()

    def _spent(self, began: int, called: int, returned: int) -> None:
        end = _clock()
        if self._before == self._descriptions:  # descriptions are counted by themselves
            self._forward.add(called - began + end - returned, end, self._count)

    def _find(self, function: str, args: Any, kwargs: Any, frame: Any, which: str) -> Seen | None:
        """Return what a call is counted under; None for one that is not recorded."""
        try:
            query = args[0] if args else next(iter(kwargs.values()))
            known = self._types.get(type(query))
            if known is None:
                known = self._types[type(query)] = _is_plain(self._torch, query)
            if not known:
                return None
            place = frame
            code = self._codes.get(id(frame.f_code))
            if code is None or code[1]:
                place = self._caller(frame)
            dtype = query.dtype
            cast = self._autocast() if dtype is self._full else None
            at = (0, 0) if place is None else (id(place.f_code), place.f_lasti)
            if function == "sdpa" and len(args) == 3:  # the usual form, without a loop over the arguments
                mask = kwargs.get("attn_mask")
                if mask is None:
                    key: Any = (at, query.shape, args[1].shape, dtype, cast, *kwargs.values())
                else:
                    others = (kwargs.get("dropout_p"), kwargs.get("is_causal"), kwargs.get("scale"))
                    key = (at, query.shape, args[1].shape, dtype, cast, mask.shape, mask.dtype, *others)
            else:
                key = (function, at, cast, *_key_of(args, kwargs))
            found = self._seen.get(key)
            if found is None:
                found = self._seen[key] = self._describe(function, args, kwargs, place, cast)
            return found
        except Exception as error:  # noqa: BLE001 - a call that cannot be described runs all the same
            text = f"{function}: {type(error).__name__}: {error}"[:_LONGEST_NAME]
            if len(self._problems) < _MOST_PROBLEMS and text not in self._problems:
                self._pending = [text]
            return None

    def _describe(self, function: str, args: Any, kwargs: Any, place: Any, cast: Any) -> Seen:
        if len(self._seen) >= _MOST_CALLS:
            self.problem("more different calls than are told apart")
            return self._seen.setdefault(function, Seen(function, {}, ""))
        began = _clock()
        if not self._seen:
            self._first_ns = began
            self.on_first()
        facts = self._facts.facts_of(function, args, kwargs, cast)
        site = "" if place is None else f"{self._facts.shorten_path(place.f_code.co_filename)}:{place.f_lineno}"
        seen = Seen(function, facts, site)
        self._prepare_hooks(seen)
        self._descriptions += 1
        self._described_ns += _clock() - began
        return seen

    def _find_compiled(self, names: list[str], args: Any, kwargs: Any, which: str) -> Seen | None:
        """Return what a call of an operator is counted under: for a backward one, the forward one of its sizes."""
        given = dict(zip(names, args, strict=False)) | kwargs
        first = names.index("query")
        read = {name: given.get(name) for name in ("dropout_p", "is_causal")}
        read["attn_mask"] = given.get("attn_bias", given.get("attn_mask"))
        inputs = args[first : first + 3]
        if which == "fwd":
            seen = self._find("sdpa", inputs, read, sys._getframe(2), which)
            if seen is not None:
                self._compiled[_sizes_of(inputs)] = seen
            return seen
        seen = self._compiled.get(_sizes_of(inputs))
        return seen if seen is not None else self._find("sdpa", inputs, read, sys._getframe(2), which)

    def _caller(self, frame: Any) -> Any:
        """Return the innermost frame that is neither torch's own nor code that torch wrote."""
        codes = self._codes
        while frame is not None:
            code = frame.f_code
            known = codes.get(id(code))
            if known is None:
                path = code.co_filename
                inner = path.startswith(self._inner) and path not in ("<string>", "<stdin>")
                known = codes[id(code)] = (code, inner or "torchinductor_" in path or path.endswith("contextlib.py"))
            if not known[1]:
                return frame
            frame = frame.f_back
        return None

    def _watch_backward(self, seen: Seen, node: Any, args: Any, kwargs: Any) -> None:
        """Have a range open while the nodes of this call run in the backward pass."""
        try:
            seen.training += 1
            path = seen.paths.get(type(node))
            if path is None:
                path = seen.paths[type(node)] = _path_to_last(node, [*args, *kwargs.values()])
            last = node
            for place in path:
                last = last.next_functions[place][0]
            node.register_prehook(seen.before)
            last.register_hook(seen.after)
        except Exception as error:  # noqa: BLE001
            self.problem(f"backward of {seen.function}: {type(error).__name__}: {error}")

    def _prepare_hooks(self, seen: Seen) -> None:
        push, pop, name, samples = self._push, self._pop, seen.names["bwd"], self._backward

        def before(gradients: Any) -> None:
            seen.backward += 1
            if seen.backward % _TIMED_EVERY == 2:
                began = _clock()
                push(name)
                samples.add(2 * (_clock() - began), 0, 0)  # opening a range and closing it
            else:
                push(name)

        def after(results: Any, gradients: Any) -> None:
            pop()

        seen.before, seen.after = before, after


class FlexKernel:
    """Runs one compiled kernel of flex_attention in a range. Where the kernel is copied or saved, it runs as it is."""

    def __init__(self, calls: AttentionCalls, kernel: Any, original: Any, which: str) -> None:
        self._calls, self._kernel, self._original, self._which = calls, kernel, original, which

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._calls.run_flex(self._kernel, self._original, self._which, args, kwargs)

    def __reduce__(self) -> Any:
        return getattr, (self._kernel, "run")


def find_marker(torch: Any) -> tuple[Any, Any, str]:
    """Return functions that open and close a range of NVTX, and whose they are: "torch", "nvtx" or "none"."""
    own = getattr(torch._C, "_nvtx", None)
    if own is not None:
        return own.rangePushA, own.rangePop, "torch"
    try:
        from nvtx._lib import lib

        # nvtx's own check for a profiler asks for an extension that Nsight Systems lacks; it records every range.
        class Domain(lib.Domain):  # type: ignore[misc]
            def __new__(cls, name: str | None = None) -> Any:
                made = object.__new__(cls)
                made.handle = lib.DomainHandle(name)
                return made

        domain = Domain(None)
        attributes = functools.cache(lambda name: domain.get_event_attributes(message=name))
        return lambda name: domain.push_range(attributes(name)), domain.pop_range, "nvtx"
    except Exception:  # noqa: BLE001 - another version, or none
        return (lambda name: None), (lambda: None), "none"


def _autocast_of(torch: Any) -> Callable[[], Any]:
    """Return a function that returns the type to which autocast turns inputs of full precision, or None."""
    is_enabled = torch.is_autocast_enabled
    try:
        get = torch.get_autocast_dtype
        is_enabled("cpu")
    except Exception:  # noqa: BLE001 - before torch 2.4
        return lambda: torch.get_autocast_gpu_dtype() if is_enabled() else None
    return lambda: get("cuda") if is_enabled("cuda") else get("cpu") if is_enabled("cpu") else None


def _measure_hooks(torch: Any) -> int:
    """Return what two empty functions on a node of autograd's graph add to its backward pass (ns)."""
    least = [1 << 60, 1 << 60]
    with torch.enable_grad():
        start = torch.ones(1, requires_grad=True)
        for turn in range(_TURNS):
            result = start * 2.0
            began = _clock()
            if turn % 2:
                result.grad_fn.register_prehook(lambda gradients: None)
                result.grad_fn.register_hook(lambda results, gradients: None)
            torch.autograd.grad(result, start)
            least[turn % 2] = min(least[turn % 2], _clock() - began)
    return max(0, least[1] - least[0])


def _is_plain(torch: Any, query: Any) -> bool:
    """Return whether a tensor is one of numbers, or nested. Others stand for tensors while a program is compiled."""
    if not isinstance(query, torch.Tensor):
        return False
    return bool(query.is_nested) or type(query).__torch_dispatch__ is torch.Tensor.__torch_dispatch__


def _key_of(args: Any, kwargs: Any) -> list[Any]:
    """Return what tells calls from one line apart."""
    key: list[Any] = []
    for value in (*args, *kwargs.values()) if kwargs else args:
        shape = getattr(value, "shape", None) if value is not None and value.__class__ not in _PLAIN else None
        if shape is None:
            key.append(value if value.__class__ in _PLAIN or value is None else type(value))
        else:
            key.append(shape)
            key.append(getattr(value, "dtype", None))
    return key


_PLAIN = (bool, int, float, str)


def _sizes_of(inputs: Any) -> str:
    return str([(tuple(tensor.shape), str(tensor.dtype)) for tensor in inputs])


def _path_to_last(node: Any, inputs: list[Any]) -> tuple[int, ...]:
    """Return the way from a result's node to the node of the same call that runs last in the backward pass.

    A call of a fused backend is one node, with more where inputs are cast or padded; other calls are many.
    """
    stops = [found for each in inputs if (found := getattr(each, "grad_fn", None)) is not None]
    paths: dict[Any, tuple[int, ...]] = {node: ()}
    queue = [node]
    while queue and len(paths) < _MOST_NODES:
        current = queue.pop(0)
        for place, (following, _) in enumerate(current.next_functions):
            if following is None or following in paths or following in stops:
                continue
            if following.name() == "torch::autograd::AccumulateGrad":
                continue
            paths[following] = (*paths[current], place)
            queue.append(following)
    return paths[min(paths, key=lambda each: each._sequence_nr())]
