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
from collections.abc import Callable, Sequence
from typing import Any

from .backward_nodes import NodeHooks, path_to_last
from .call_key import autocast_of, is_plain, key_of
from .recording_cost import cost_of_recording
from .seen_call import Seen, TimedCalls
from .usual_call import wrap_sdpa

# One call in so many is timed: reading the clock takes longer than all else on some machines.
_TIMED_EVERY = 16
# More different calls than this share a name without a shape, because a program may change its shapes for ever.
_MOST_CALLS = 20_000
_MOST_PROBLEMS = 20
_LONGEST_PROBLEM = 500
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
        self._inner = (torch_folder + os.sep, here + os.sep, "<")
        # By the address of a code object, which is kept: whether it is torch's or made by torch.
        self._codes: dict[int, tuple[Any, bool]] = {}
        self.types: dict[type, bool] = {torch.Tensor: True, torch.nn.Parameter: True}
        self._autocast = autocast_of(torch)
        self._full = torch.float32
        self._tracing = getattr(torch._C, "_get_tracing_state", lambda: None)
        self.inside = threading.local()
        self._problems: list[str] = []
        self._pending: list[str] = []
        self._hooks = NodeHooks(torch)
        # Calls of sdpa from the program's own lines, by what wrap_sdpa tells them apart by.
        self.usual: dict[Any, Seen] = {}
        # Called when the first call of a process is described.
        self.on_first: Callable[[], None] = lambda: None
        self.clear()

    def clear(self) -> None:
        """Forget all calls."""
        self.usual.clear()
        self._seen: dict[Any, Seen] = {}
        # The forward calls of compiled programs, by the sizes of their inputs.
        self.by_sizes: dict[str, Seen] = {}
        self.count = self._first_ns = self._described_ns = self.described = 0
        self.forward, self._backward = TimedCalls(), TimedCalls()

    def problem(self, text: str) -> None:
        """Keep why something is not recorded."""
        if len(self._problems) < _MOST_PROBLEMS and text not in self._problems:
            self._problems.append(text[:300])

    def to_json(self) -> dict[str, Any]:
        """Return all calls, and what it cost to record them (ns)."""
        cuda = self.torch.cuda
        gpu = cuda.get_device_name() if cuda.is_available() and cuda.is_initialized() else None
        return {
            "calls": [seen.to_json() for seen in dict.fromkeys(self._seen.values())],
            "ranges": self._marker,
            "own_ns": self._own_ns(),
            "wall_ns": max(0, self.forward.end_ns - self._first_ns),
            "count": self.forward.calls,
            "problems": self._problems,
            "torch_version": str(self.torch.__version__),
            "gpu_name": gpu,
        }

    def _own_ns(self) -> int:
        """Return what recording took up to the last call that was timed (ns): this code, and torch's for calling it.

        What no call can time of itself is measured here and now.
        """
        calls, mean_ns = self.forward.calls, self.forward.mean_ns()
        if not calls:
            return self._described_ns
        watched = min(calls, sum(seen.backward for seen in self._seen.values() if seen.training))
        own = calls * mean_ns + watched * self._backward.mean_ns()
        own += (calls - watched) * cost_of_recording(self._silent(), mean_ns)
        if watched:
            own += watched * cost_of_recording(self._silent(), mean_ns, is_training=True)
        return self._described_ns + int(own)

    def _silent(self) -> AttentionCalls:
        """Return the same without calls and ranges."""
        return AttentionCalls(self.torch, self._facts, ((lambda name: None), (lambda: None), "none"))

    def wrap_function(self, original: Callable[..., Any], function: str) -> Callable[..., Any]:
        """Return a function that does what `original` does, within a range. function: its name in the range."""
        if function == "sdpa":
            return wrap_sdpa(self, original)
        is_compiling = getattr(getattr(self.torch, "compiler", None), "is_compiling", lambda: False)

        @functools.wraps(original)
        def attention(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():  # the compiler sees the original function alone
                return original(*args, **kwargs)
            return self._run_alone(original, function, args, kwargs)

        return attention

    def wrap_in(self, module: Any, function: str) -> None:
        """Wrap a function of a module, where it has one."""
        original = getattr(module, function, None)
        if original is not None:
            setattr(module, function, self.wrap_function(original, function))

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

    def _run_alone(self, original: Any, function: str, args: Any, kwargs: Any) -> Any:
        """Run a function that is written in Python, whose own calls of operators have no ranges."""
        inside = self.inside
        if getattr(inside, "depth", False):
            return original(*args, **kwargs)
        inside.depth = True
        try:
            return self._run(original, function, args, kwargs)
        finally:
            inside.depth = False

    def run_unseen(self, original: Any, args: Any, kwargs: Any) -> Any:
        """Run a call that is not recorded. One that fails has no need to be, so its problem is not told."""
        out = original(*args, **kwargs)
        self._problems += self._pending
        self._pending = []
        return out

    def _run(self, original: Any, function: str, args: Any, kwargs: Any) -> Any:
        began = self.begin()
        seen = self.find(function, args, kwargs, sys._getframe(3), "fwd")
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
            self.watch_backward(seen, node, (*args, *kwargs.values()))
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
            self.forward.add(called - began + end - returned, end, self.count)

    def find(self, function: str, args: Any, kwargs: Any, frame: Any, which: str) -> Seen | None:
        """Return what a call is counted under; None for one that is not recorded."""
        try:
            if self._tracing() is not None:  # torch.jit would trace what is read here of the tensors
                return None
            query = args[0] if args else next(iter(kwargs.values()))
            known = self.types.get(type(query))
            if known is None:
                known = self.types[type(query)] = is_plain(self.torch, query)
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
                    facts = (mask.shape, mask.dtype, mask.requires_grad)
                    key = (at, query.shape, args[1].shape, dtype, cast, *facts, *others)
            else:
                key = (function, at, cast, *key_of(args, kwargs))
            found = self._seen.get(key)
            if found is None:
                # Two threads may describe the first call at once; both count under the one that was first.
                found = self._seen.setdefault(key, self._describe(function, args, kwargs, place, cast))
            return found
        except Exception as error:  # noqa: BLE001 - a call that cannot be described runs all the same
            text = f"{function}: {type(error).__name__}: {error}"[:_LONGEST_PROBLEM]
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
        self.described += 1
        self._described_ns += _clock() - began
        return seen

    def is_of_program(self, frame: Any) -> bool:
        """Return whether a frame that was looked at is the program's own, and not torch's."""
        known = self._codes.get(id(frame.f_code))
        return known is not None and not known[1]

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

    def watch_backward(self, seen: Seen, node: Any, inputs: Sequence[Any]) -> None:
        """Have a range open while the nodes of this call run in the backward pass."""
        try:
            seen.training += 1
            if seen.one_node is node.__class__:
                node.register_prehook(seen.before)
                node.register_hook(seen.after)
                return
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
        push, pop, name, samples = self.push, self.pop, seen.backward_name, self._backward

        def before(gradients: Any) -> None:
            seen.backward = number = seen.backward + 1
            if number & 15 == 2:
                began = _clock()
                push(name)
                samples.add(2 * (_clock() - began), 0, 0)  # opening a range and closing it
            else:
                push(name)

        def after(results: Any, gradients: Any) -> None:
            pop()

        self._hooks.keep(before, after)
        seen.before, seen.after = before, after
