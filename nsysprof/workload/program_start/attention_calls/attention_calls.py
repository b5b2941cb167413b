"""Turn each call of attention into a range that is named after its shape, and count the calls.

It needs nothing but the standard library and the program's torch. A name is

    attention::<fwd|bwd>::<function>::B=..::H=..::KV=..::Q=..::K=..::D=..::dtype=..::causal=..::mask=..::...::at=FILE:LINE

as nsysprof.attention.range_name reads it. A call is described when it is first seen; later ones are looked up.
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
from .call_form import Form, FormFinder, given, settle_place
from .call_key import autocast_of, is_plain, key_of
from .fast_path import hooks_of, silent_functions
from .recording_cost import MOST_SLOWER, cost_of_recording
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
        self._hooks = NodeHooks(torch)
        self.forward = TimedCalls()
        # Calls of sdpa from the program's own lines.
        self.forms = FormFinder(self)
        # The compiled part that counts calls of forms, and the function that stands for torch's then.
        self.fast: Any = None
        self.fast_function: Any = None
        # Called when the first call of a process is described.
        self.on_first: Callable[[], None] = lambda: None
        self.clear()

    def clear(self) -> None:
        """Forget all calls."""
        self.forms.clear()
        if self.fast is not None:
            self.fast.clear()
        self._seen: dict[Any, Seen] = {}
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
        return self.count + self.forms.count + (0 if self.fast is None else self.fast.count)

    def _collect(self) -> None:
        """Add what the compiled part has counted to the forms."""
        for form, forward, training in [] if self.fast is None else self.fast.collect():
            form.forward += forward
            form.training += training

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
        watched = min(calls, sum(each.all_backward() for each in seen if each.all_training()))
        loop_ns, timed_ns = cost_of_recording(self._silent())
        training_ns = cost_of_recording(self._silent(), is_training=True)[0] - loop_ns if watched else 0.0
        warm = calls * loop_ns + watched * max(0.0, training_ns)
        mean_ns = self.forward.mean_ns()
        cold = warm * min(max(mean_ns / max(1.0, timed_ns), 1.0), MOST_SLOWER)
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
            return wrap_sdpa(self, original)
        is_compiling = getattr(getattr(self.torch, "compiler", None), "is_compiling", lambda: False)

        @functools.wraps(original)
        def attention(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():  # the compiler sees the original function alone
                return original(*args, **kwargs)
            return self._run_alone(original, function, args, kwargs, sys._getframe(1))

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
        seen = self.find(function, args, kwargs, frame, "fwd")
        if function == "sdpa":  # a subclass of tensors may look at how its arguments are given
            kwargs = given(kwargs)
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
            seen.training += 1
            self._watch_backward(seen, node, (*args, *kwargs.values()))
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
            place = frame = settle_place(frame)
            if self._is_inner(frame.f_code):
                place = self._caller(frame)
            dtype = query.dtype
            cast = self.cast_of() if dtype is self._full else None
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

    def find_longer(self, last: Form, frame: Any, query: Any, key: Any, value: Any, kwargs: Any) -> Seen | None:
        """Return what a call is counted under that differs from the last one by the length of its keys alone.

        Each token of a growing cache does; to describe it takes several times as long. None for another call.
        """
        if self._tracing() is not None or last.code is not frame.f_code or last.at != frame.f_lasti:
            return None
        sizes, before, facts = key.shape, last.key, last.seen.facts
        if (
            last.dtype is not query.dtype or last.query != query.shape or len(sizes) != 4 or sizes[:2] != before[:2]
            or sizes[3] != before[3] or value.shape != sizes or facts.get("head_dim_v") != sizes[3]
            or facts.get("layout") != "bhsd" or len(self._seen) >= _MOST_CALLS
            or not (query.is_contiguous() and key.is_contiguous() and value.is_contiguous())
        ):  # fmt: skip
            return None
        began = _clock()
        # As in find.
        same = ((id(frame.f_code), frame.f_lasti), query.shape, sizes, query.dtype, last.cast, *kwargs.values())
        found = self._seen.get(same)
        if found is None:
            found = self._seen.setdefault(same, last.seen.with_keys(sizes[2]))
            self.described += 1
            self._described_ns += _clock() - began
        return found

    def _describe(self, function: str, args: Any, kwargs: Any, place: Any, cast: Any) -> Seen:
        if len(self._seen) >= _MOST_CALLS:
            self.problem("more different calls than are told apart")
            return self._seen.setdefault(function, Seen(function, {}, ""))
        began = _clock()
        if not self._seen:
            self._first_ns = began
            self.on_first()
        facts = self._facts.facts_of(function, args, kwargs, cast)
        seen = Seen(function, facts, "" if place is None else self._site_of(place))
        self.described += 1
        self._described_ns += _clock() - began
        return seen

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

    def watch_call(self, form: Form, node: Any, *inputs: Any) -> None:
        """Have a range open in the backward pass of a call of this form, which begins with `node`."""
        if node is None:
            return
        form.training += 1
        if form.one_node is type(node):
            node.register_prehook(form.before)
            node.register_hook(form.after)
            return
        seen = form.seen
        self._watch_backward(seen, node, inputs)
        form.before, form.after, form.one_node = seen.before, seen.after, seen.one_node

    def _watch_backward(self, seen: Seen, node: Any, inputs: Sequence[Any]) -> None:
        """Have a range open while the nodes of this call run in the backward pass."""
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

        self._hooks.keep(before, after)
        seen.after, seen.before = after, before
