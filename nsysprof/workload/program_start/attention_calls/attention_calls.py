"""Turn each call of attention into a range that is named after its shape, and count the calls.

It needs nothing but the standard library and the program's torch. A name is

    attention::<fwd|bwd>::<function>::B=..::H=..::KV=..::Q=..::K=..::D=..::dtype=..::causal=..::mask=..::...::at=FILE:LINE

as nsysprof.attention.range_name reads it. A call is described when it is first seen; later ones are looked up.
"""

from __future__ import annotations

import functools
import opcode
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from .fast_path import hooks_of, keep_hooks, silent_functions, wrap_with
from .seen_call import Seen, TimedCalls

# One call in so many is timed: reading the clock takes longer than all else on some machines.
_TIMED_EVERY = 16
# More different calls than this share a name without a shape, because a program may change its shapes for ever.
_MOST_CALLS = 20_000
_MOST_PROBLEMS = 20
_LONGEST_PROBLEM = 500
_MOST_NODES = 64
# What torch takes for each argument of scaled_dot_product_attention that is not given, in its order.
_DEFAULTS: dict[str, Any] = {
    "query": None, "key": None, "value": None, "attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None,
    "enable_gqa": False,
}  # fmt: skip
_POSITIONAL = tuple(_DEFAULTS)[:6]
_PLAIN = (bool, int, float, str)
# Python 3.11 calls by two instructions, of which a compiled function may be called by the first or by the second.
_FIRST_OF_TWO = opcode.opmap.get("PRECALL", -1)
_BYTES = 4
# The cost of recording is measured in so many turns of so many calls.
_TURNS, _CALLS = 60, 16
# A program's caches are colder than those of a loop; beyond this, something else was in the way.
_MOST_SLOWER = 6.0
_clock = time.perf_counter_ns
# The folder of what runs in the user's program.
_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120


class AttentionCalls:
    """All calls of this process. facts: the module attention_facts."""

    def __init__(self, torch: Any, facts: Any, marker: tuple[Any, Any, str]) -> None:
        self.torch, self._facts = torch, facts
        self.push, self.pop, self._marker = marker
        # torch's folder and nsysprof's, whose policy may stand between the program and torch.
        here = os.path.dirname(os.path.dirname(_FOLDER))  # noqa: PTH120
        torch_folder = os.path.dirname(os.path.abspath(torch.__file__))  # noqa: PTH100, PTH120
        self._inner: tuple[str, ...] = (torch_folder + os.sep, here + os.sep, "<")
        # By the address of a code object, which is kept: whether it is torch's or made by torch.
        self._codes: dict[int, tuple[Any, bool]] = {}
        self._paths: dict[str, str] = {}
        self.types: dict[type, bool] = {torch.Tensor: True, torch.nn.Parameter: True}
        self.cast_of = autocast_of(torch)
        self._full = torch.float32
        self._tracing = getattr(torch._C, "_get_tracing_state", lambda: None)
        self.inside = threading.local()
        self._problems: list[str] = []
        self._pending: list[str] = []
        keep_hooks(torch)
        self.forward = TimedCalls()
        # The compiled part that counts calls of sdpa, and the function that stands for torch's then.
        self.fast: Any = None
        self.fast_function: Any = None
        # Called when the first call of a process is described.
        self.on_first: Callable[[], None] = lambda: None
        self.clear()

    def clear(self) -> None:
        """Forget all calls."""
        if self.fast is not None:
            self.fast.clear()
        self._seen: dict[Any, Seen] = {}
        # The last call of sdpa that was described: its key, and what it is counted under.
        self._last: tuple[Any, Seen] | None = None
        # The forward calls of compiled programs, by the sizes of their inputs.
        self.by_sizes: dict[str, Seen] = {}
        self.count = self._first_ns = self._described_ns = self.described = 0
        self.forward.clear()

    def problem(self, text: str) -> None:
        """Keep why something is not recorded."""
        if len(self._problems) < _MOST_PROBLEMS and text not in self._problems:
            self._problems.append(text[:300])

    def to_json(self) -> dict[str, Any]:
        """Return all calls, and what it cost to record them (ns)."""
        self._collect()
        cuda = self.torch.cuda
        least_ns, most_ns = self._own_ns()
        gpu = cuda.get_device_name() if cuda.is_available() and cuda.is_initialized() else None
        return {
            "calls": [seen.to_json() for seen in dict.fromkeys(self._seen.values())],
            "ranges": self._marker,
            "own_ns": least_ns,
            "own_most_ns": most_ns,
            "wall_ns": max(0, self.forward.end_ns - self._first_ns),
            "count": self.forward.calls,
            "problems": self._problems,
            "torch_version": str(self.torch.__version__),
            "gpu_name": gpu,
        }

    def all_calls(self) -> int:
        """Return the number of calls so far."""
        return self.count + (0 if self.fast is None else self.fast.count)

    def _collect(self) -> None:
        """Add what the compiled part has counted."""
        for seen, forward, training in [] if self.fast is None else self.fast.collect():
            seen.forward += forward
            seen.training += training

    def _own_ns(self) -> tuple[int, int]:
        """Return what recording took up to the last call that was timed (ns): at least, and at most.

        It is this code, and torch's for calling it. What no call can time of itself is measured here and now in a loop,
        where it takes least. In the program it is colder: at most as much as what is timed there; and the lines of the
        caches that it takes for that are lost to the program, which at most takes them back in the same time.
        """
        calls = self.forward.calls
        if not calls:
            return self._described_ns, self._described_ns
        seen = self._seen.values()
        watched = min(calls, sum(call.all_backward() for call in seen if call.training))
        loop_ns, timed_ns = cost_of_recording(self._silent())
        training_ns = cost_of_recording(self._silent(), is_training=True)[0] - loop_ns if watched else 0.0
        warm = calls * loop_ns + watched * max(0.0, training_ns)
        mean_ns = self.forward.mean_ns()
        cold = warm * min(max(mean_ns / max(1.0, timed_ns), 1.0), _MOST_SLOWER)
        least = warm + calls * max(0.0, mean_ns - timed_ns)
        return self._described_ns + int(least), self._described_ns + int(max(least, 2 * cold - warm))

    def _silent(self) -> AttentionCalls:
        """Return the same without calls and ranges."""
        silent = AttentionCalls(self.torch, self._facts, (*silent_functions(), "none"))
        silent._inner = ()  # its calls are made here, and are to be recorded as those of a program are
        return silent

    def wrap_function(self, original: Callable[..., Any], function: str) -> Callable[..., Any]:
        """Return a function that does what `original` does, within a range. function: its name in the range."""
        if function == "sdpa":
            return self._wrap_sdpa(original)
        is_compiling = getattr(getattr(self.torch, "compiler", None), "is_compiling", lambda: False)

        @functools.wraps(original)
        def attention(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():  # the compiler sees the original function alone
                return original(*args, **kwargs)
            return self._run_alone(original, function, args, kwargs, sys._getframe(1))

        return attention

    def _wrap_sdpa(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that gives `original` its arguments as they came, so that torch refuses what it refuses."""
        compiler: Any = getattr(self.torch, "compiler", None)
        # The compiler takes both for True where it reads them.
        is_compiling: Any = getattr(compiler, "is_dynamo_compiling", None) or getattr(compiler, "is_compiling", bool)
        has_override = self.torch.overrides.has_torch_function_variadic
        is_answered, answer = answers_of(self.torch)

        @functools.wraps(original)
        def attention(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():  # the compiler sees the original function alone
                return original(*args, **kwargs)
            if has_override(*args, *kwargs.values()) and is_answered(*args, *kwargs.values()):
                return answer(public, original, args, kwargs)
            return self.run(original, "sdpa", args, kwargs, sys._getframe(1))

        public = wrap_with(self, original, attention, is_answered) or attention
        return public

    def wrap_in(self, module: Any, function: str) -> None:
        """Wrap a function of a module, where it has one."""
        original = getattr(module, function, None)
        if original is not None:
            setattr(module, function, self.wrap_function(original, function))

    def wrap_method(self, owner: Any, method: str) -> None:
        """Wrap a method of a class whose first argument is a tensor of queries. Its ranges have the class's name."""
        original, function = getattr(owner, method), owner.__name__
        is_compiling = getattr(getattr(self.torch, "compiler", None), "is_compiling", lambda: False)

        @functools.wraps(original)
        def attention(self_: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(self_, *args, **kwargs)
            bound = functools.partial(original, self_)
            return self._run_alone(bound, function, args, kwargs, sys._getframe(1))

        setattr(owner, method, attention)

    def run_part(self, seen: Seen, which: str, began: int, original: Any, args: Any, kwargs: Any) -> Any:
        """Run one pass of a compiled call in a range. A mode of the program may run the same operator within."""
        self.inside.depth = True
        self.push(seen.backward_name if which == "bwd" else seen.forward_name)
        called = _clock() if began else 0
        try:
            return original(*args, **kwargs)
        finally:
            returned = _clock() if began else 0
            self.pop()
            self.inside.depth = False
            if which == "bwd":
                seen.backward += 1
            else:
                seen.forward += 1
            if began:
                self._spent(began, called, returned)

    def _run_alone(self, original: Any, function: str, args: Any, kwargs: Any, frame: Any) -> Any:
        """Run a function that is written in Python, whose own calls of operators have no ranges."""
        inside = self.inside
        if getattr(inside, "depth", False):
            return original(*args, **kwargs)
        inside.depth = True
        try:
            return self.run(original, function, args, kwargs, frame)
        finally:
            inside.depth = False

    def run_unseen(self, original: Any, args: Any, kwargs: Any) -> Any:
        """Run a call that is not recorded. One that fails has no need to be, so its problem is not told."""
        out = original(*args, **kwargs)
        self._problems += self._pending
        self._pending = []
        return out

    def run(self, original: Any, function: str, args: Any, kwargs: Any, frame: Any) -> Any:
        """Run a call in a range, by the way that all calls have. frame: where it was called."""
        began = self.begin()
        seen = self.find(function, args, kwargs, frame)
        if seen is None:
            return self.run_unseen(original, args, kwargs)
        self.push(seen.forward_name)
        called = _clock() if began else 0
        try:
            out = original(*args, **kwargs)
        finally:
            returned = _clock() if began else 0
            self.pop()
            seen.forward += 1
        node = getattr(out[0] if type(out) is tuple else out, "grad_fn", None)
        if node is not None:
            self.watch_call(seen, node, *args, *kwargs.values())
        if began:
            self._spent(began, called, returned)
        return out

    def begin(self) -> int:
        """Return when a call began, where it is one of those that are timed; else 0."""
        self.count += 1
        if self.count % _TIMED_EVERY != 2:
            return 0
        self._begun_at = self.described
        return _clock()

    def _spent(self, began: int, called: int, returned: int) -> None:
        end = _clock()
        if self._begun_at == self.described:  # descriptions are counted by themselves
            self.forward.add(called - began + end - returned, end, self.all_calls())

    def find(self, function: str, args: Any, kwargs: Any, frame: Any) -> Seen | None:
        """Return what a call is counted under; None for one that is not recorded."""
        try:
            if self._tracing() is not None:  # torch.jit would trace what is read here of the tensors
                return None
            if function == "sdpa":
                args, kwargs = (), _name_arguments(args, kwargs)
            query = args[0] if args else next(iter(kwargs.values()))
            known = self.types.get(type(query))
            if known is None:
                known = self.types[type(query)] = is_plain(self.torch, query)
            if not known:
                return None
            place = frame = _settle_place(frame)
            if self._is_inner(frame.f_code):
                place = self._caller(frame)
            dtype = query.dtype
            cast = self.cast_of() if dtype is self._full else None
            at = (0, 0) if place is None else (id(place.f_code), place.f_lasti)
            key = (function, at, cast, *key_of(args, kwargs))
            seen = self._seen.get(key)
            if seen is None:
                # Two threads may describe the first call at once; both count under the one that was first.
                seen = self._seen.setdefault(key, self._describe(function, args, kwargs, place, key))
            return seen
        except Exception as error:  # noqa: BLE001 - a call that cannot be described runs all the same
            text = f"{function}: {type(error).__name__}: {error}"[:_LONGEST_PROBLEM]
            if len(self._problems) < _MOST_PROBLEMS and text not in self._problems:
                self._pending = [text]
            return None

    def _describe(self, function: str, args: Any, kwargs: Any, place: Any, key: Any) -> Seen:
        if len(self._seen) >= _MOST_CALLS:
            self.problem("more different calls than are told apart")
            return self._seen.setdefault(function, Seen(function, {}, ""))
        began = _clock()
        if not self._seen:
            self._first_ns = began
            self.on_first()
        seen = self._find_longer(key, kwargs) if function == "sdpa" else None
        if seen is None:
            facts = self._facts.facts_of(function, args, kwargs, key[2])
            seen = Seen(function, facts, "" if place is None else self._site_of(place))
        if function == "sdpa":
            self._last = key, seen
        self.described += 1
        self._described_ns += _clock() - began
        return seen

    def _find_longer(self, key: Any, named: dict[str, Any]) -> Seen | None:
        """Return the last description with another length of keys, where a call differs by nothing else.

        Each token of a growing cache does; to describe it takes several times as long. None for another call.
        """
        if self._last is None or named["attn_mask"] is not None:
            return None
        (last, seen), at = self._last, 3 + len(named) + 2  # where the shape of the keys stands; see key_of
        sizes, before, facts = key[at], last[at], seen.facts
        if (
            len(sizes) != 4 or len(before) != 4 or sizes[:2] != before[:2] or sizes[3] != before[3]
            or key[:at] != last[:at] or key[at + 1] != last[at + 1] or key[at + 3 :] != last[at + 3 :]
            or key[at + 2] != sizes or facts.get("head_dim_v") != sizes[3] or facts.get("layout") != "bhsd"
            or not all(named[name].is_contiguous() for name in ("query", "key", "value"))
        ):  # fmt: skip
            return None
        return seen.with_keys(sizes[2])

    def _site_of(self, place: Any) -> str:
        path = place.f_code.co_filename
        short = self._paths.get(path)
        if short is None:
            short = self._paths[path] = self._facts.shorten_path(path)
        return f"{short}:{place.f_lineno}"

    def is_of_program(self, frame: Any) -> bool:
        """Return whether a frame is the program's own, and not torch's."""
        return not self._is_inner(frame.f_code)

    def _is_inner(self, code: Any) -> bool:
        known = self._codes.get(id(code))
        if known is None:
            path = code.co_filename
            inner = path.startswith(self._inner) and path not in ("<string>", "<stdin>")
            known = self._codes[id(code)] = (code, inner or "torchinductor_" in path or path.endswith("contextlib.py"))
        return known[1]

    def _caller(self, frame: Any) -> Any:
        """Return the innermost frame that is neither torch's own nor code that torch wrote."""
        while frame is not None and self._is_inner(frame.f_code):
            frame = frame.f_back
        return frame

    def watch_call(self, seen: Seen, node: Any, *inputs: Any) -> None:
        """Have a range open while the nodes of this call run in the backward pass, which begins with `node`."""
        if node is None:
            return
        seen.training += 1
        try:
            if seen.before is None:
                self._prepare_hooks(seen)
            path = seen.paths.get(node.__class__)
            if path is None:
                path = seen.paths[node.__class__] = path_to_last(node, inputs)
            seen.one_node = None if path else node.__class__
            last = node
            for place in path:
                last = last.next_functions[place][0]
            node.register_prehook(seen.before)
            last.register_hook(seen.after)
        except Exception as error:  # noqa: BLE001
            self.problem(f"backward of {seen.function}: {type(error).__name__}: {error}")

    def _prepare_hooks(self, seen: Seen) -> None:
        push, pop, name = self.push, self.pop, seen.backward_name
        seen.hooks = hooks_of(push, pop, name)
        if seen.hooks is not None:
            seen.before, seen.after = seen.hooks.make_functions()
            return

        opened: list[bool] = []

        def before(gradients: Any) -> None:
            seen.backward += 1
            opened.append(True)
            push(name)

        def after(results: Any, gradients: Any) -> None:
            if opened:  # the last node may run without the first, in a second derivative
                opened.pop()
                pop()

        seen.after, seen.before = after, before


def autocast_of(torch: Any) -> Callable[[], Any]:
    """Return a function that returns the type to which autocast turns inputs of full precision, or None."""
    is_enabled = torch.is_autocast_enabled
    try:
        get = torch.get_autocast_dtype
        is_enabled("cpu")
    except Exception:  # noqa: BLE001 - before torch 2.4
        return lambda: torch.get_autocast_gpu_dtype() if is_enabled() else None
    is_any = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)

    def cast() -> Any:
        if not is_any():
            return None
        return get("cuda") if is_enabled("cuda") else get("cpu") if is_enabled("cpu") else None

    return cast


def is_plain(torch: Any, query: Any) -> bool:
    """Return whether a tensor is one of numbers, or nested. Others stand for tensors while a program is compiled."""
    if not isinstance(query, torch.Tensor):
        return False
    return bool(query.is_nested) or type(query).__torch_dispatch__ is torch.Tensor.__torch_dispatch__


def key_of(args: Any, kwargs: Any) -> list[Any]:
    """Return a key that distinguishes calls from one line, without reading the numbers in tensors."""
    key: list[Any] = [*kwargs]
    for value in (*args, *kwargs.values()):
        shape = getattr(value, "shape", None) if value is not None and value.__class__ not in _PLAIN else None
        if shape is None:
            key.append(value if value.__class__ in _PLAIN or value is None else type(value))
        else:
            key.append(shape)
            key.append(getattr(value, "dtype", None))
    mask = kwargs.get("attn_mask", args[3] if len(args) > 3 else None)
    key.append(getattr(mask, "requires_grad", None))
    return key


def _name_arguments(args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments of a call of sdpa by name. Raises TypeError where torch refuses them."""
    names = _POSITIONAL[: len(args)]
    if len(args) > len(_POSITIONAL) or not kwargs.keys().isdisjoint(names):
        raise TypeError("other arguments than torch takes")
    return (
        _DEFAULTS | dict(zip(names, args, strict=True)) | {n: value for n, value in kwargs.items() if value is not None}
    )


class _Place:
    """Where a call was made, as a frame has it."""

    __slots__ = ("f_back", "f_code", "f_lasti", "f_lineno")

    def __init__(self, frame: Any, at: int) -> None:
        self.f_back, self.f_code, self.f_lasti, self.f_lineno = frame.f_back, frame.f_code, at, frame.f_lineno


def _settle_place(frame: Any) -> Any:
    """Return a frame with the same instruction for all calls from one place in its code."""
    if _FIRST_OF_TWO < 0 or frame is None or frame.f_code.co_code[frame.f_lasti] != _FIRST_OF_TWO:
        return frame
    return _Place(frame, frame.f_lasti + _BYTES)


def path_to_last(node: Any, inputs: Sequence[Any]) -> tuple[int, ...]:
    """Return the way from a result's node to the node of the same call that runs last in the backward pass.

    A call of a fused backend is one node, with more where inputs are cast or padded; other calls are many.
    """
    stops = [stop for tensor in inputs if (stop := getattr(tensor, "grad_fn", None)) is not None]
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
    return paths[min(paths, key=lambda reached: reached._sequence_nr())]


def answers_of(torch: Any) -> tuple[Callable[..., bool], Callable[..., Any]]:
    """Return what tells whether a class or mode of the program, and not of torch, answers a call, and what asks it.

    torch names the function to them that was called. They compare it with the one in torch.nn.functional, which is the
    hook's; torch's own classes know the original. The first function takes the arguments of a call. The second takes
    the function that the program knows, torch's, and the arguments of the call.
    """
    handle = torch.overrides.handle_torch_function
    modes = getattr(torch.overrides, "_get_current_function_mode_stack", list)

    class Ask(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        """Stands before the program's classes and modes: torch comes here once it has taken the arguments."""

        def __init__(self, public: Any, name: str) -> None:
            self.public, self.name = public, name

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = kwargs or {}
            if getattr(function, "__name__", "") != self.name:
                return function(*args, **named)
            return handle(self.public, (*args, *named.values()), *args, **named)

    def is_answered(*tensors: Any) -> bool:
        return any(_is_of_program(type(answering)) for answering in (*tensors, *modes()))

    def answer(public: Any, original: Any, args: Any, kwargs: Any) -> Any:
        with Ask(public, getattr(original, "__name__", "")):
            return original(*args, **kwargs)

    return is_answered, answer


def _is_of_program(kind: type) -> bool:
    for base in kind.__mro__:
        if "__torch_function__" in base.__dict__:
            return base.__module__.partition(".")[0] != "torch"
    return False


def cost_of_recording(calls: Any, *, is_training: bool = False) -> tuple[float, int]:
    """Return what recording a call takes in a loop (ns), and how much of that the call can time of itself.

    calls: an AttentionCalls without calls and ranges. is_training: whether they have a backward pass, which then counts
    too.
    """
    torch = calls.torch
    with torch.set_grad_enabled(is_training):
        tensor = torch.ones(1, 1, 1, 1, requires_grad=is_training)

        def original(query: Any, *_others: Any) -> Any:
            return query * 1.0

        wrapped, least = calls.wrap_function(original, "sdpa"), [1 << 60, 1 << 60]
        for turn in range(_TURNS):
            run = wrapped if turn % 2 else original
            began = _clock()
            for _ in range(_CALLS):
                result = run(tensor, tensor, tensor)
                if is_training:
                    result.backward(tensor)
            least[turn % 2] = min(least[turn % 2], _clock() - began)
    timed = calls.forward.least_ns()
    return max(float(timed), (least[1] - least[0]) / _CALLS), timed
