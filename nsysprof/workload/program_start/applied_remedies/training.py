"""Change how a program trains: its optimizers, its loaders of data, its gradients' buckets, its garbage collector."""

from __future__ import annotations

import gc
import inspect
import time
import weakref
from typing import Any

from ..watched_program.module_places import find_place
from .remedy import AppliedRemedy


class Made:
    """What the program made, with the lines: optimizers, loaders of data, and wrappers of DistributedDataParallel.

    loader, buckets: the arguments that every new one gets, in place of the program's own.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.places: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self.loader: dict[str, Any] = {}
        self.buckets: dict[str, Any] = {}
        self.loaders: list[dict[str, Any]] = []
        self.wrapped: list[dict[str, Any]] = []
        # The lines that ask zero_grad to write zeros.
        self.zeroing: list[str] = []
        self.keeps_gradients = True

    def begin(self) -> None:
        """Watch what the program makes from now on."""
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils import data

        self._watch_optimizers(self._torch.optim.Optimizer)
        self._watch_loaders(data.DataLoader)
        self._watch_wrappers(DistributedDataParallel)

    def _watch_optimizers(self, kind: Any) -> None:
        original, zero_grad, made = kind.__init__, kind.zero_grad, self

        def __init__(self: Any, *arguments: Any, **named: Any) -> None:
            original(self, *arguments, **named)
            made.places[self] = find_place(made._torch)

        def zero_grads(self: Any, set_to_none: bool = True) -> None:
            if not set_to_none:
                place = find_place(made._torch)
                if place not in made.zeroing:
                    made.zeroing.append(place)
                set_to_none = not made.keeps_gradients
            zero_grad(self, set_to_none=set_to_none)

        kind.__init__, kind.zero_grad = __init__, zero_grads

    def _watch_loaders(self, kind: Any) -> None:
        original, made = kind.__init__, self
        signature = inspect.signature(original)

        def __init__(self: Any, *arguments: Any, **named: Any) -> None:
            bound = signature.bind(self, *arguments, **named)
            asked = {"num_workers": bound.arguments.get("num_workers", 0)}
            bound.arguments.update(made.loader)
            original(*bound.args, **bound.kwargs)
            loader = {
                "place": find_place(made._torch), "asked_workers": asked["num_workers"],
                "workers": self.num_workers, "is_pinned": bool(self.pin_memory),
            }  # fmt: skip
            made.loaders.append(loader)

        kind.__init__ = __init__

    def _watch_wrappers(self, kind: Any) -> None:
        original, made = kind.__init__, self

        def __init__(self: Any, *arguments: Any, **named: Any) -> None:
            original(self, *arguments, **{**named, **made.buckets})
            wrapper = {
                "place": find_place(made._torch), "bucket_bytes": int(self.bucket_bytes_cap),
                "is_view": bool(self.gradient_as_bucket_view),
            }  # fmt: skip
            made.wrapped.append(wrapper)

        kind.__init__ = __init__


class _OfMade(AppliedRemedy):
    def __init__(self, torch: Any, option: str, made: Made) -> None:
        super().__init__(torch, option)
        self._made = made


class FusedOptimizer(_OfMade):
    """One kernel for all parameters (fused), or one for each operation of all (foreach); the option says which."""

    def __init__(self, torch: Any, option: str, made: Made) -> None:
        super().__init__(torch, option or "fused", made)
        self._optimizers: list[Any] = []
        self.why_not = "no optimizer of torch takes a step"

    def on_optimizer(self, optimizer: Any) -> None:
        other = {"fused": "foreach", "foreach": "fused"}[self.option]
        name = type(optimizer).__name__
        if any(self.option not in group for group in optimizer.param_groups):
            self.why_not = self.why_not if self._optimizers else f"{name} has no {self.option}"
            return
        if all(group.get(self.option) for group in optimizer.param_groups):
            self.why_not = self.why_not if self._optimizers else f"{name} is {self.option} already"
            return
        parameters = [item for group in optimizer.param_groups for item in group["params"]]
        if self.option == "fused" and not all(item.is_floating_point() for item in parameters):
            self.why_not = f"{name} has parameters that are no floating-point numbers"
            return
        for group in optimizer.param_groups:
            if group.get(self.option) is False or group.get(other):
                place = self._made.places.get(optimizer, "")
                self.replaced.append(f"{self.option} = {group[self.option]} of {name} at {place}")
            group[self.option], group[other] = True, False
        if self.option == "fused":
            optimizer._step_supports_amp_scaling = True
            for item, state in optimizer.state.items():  # of a checkpoint
                if "step" in state:
                    step = self.torch.as_tensor(state["step"], dtype=self.torch.float32)
                    state["step"] = step.to(item.device)
        self._optimizers.append(optimizer)
        self.why_not = ""

    def is_in_force(self) -> bool:
        groups = [group for optimizer in self._optimizers for group in optimizer.param_groups]
        return bool(groups) and all(group[self.option] for group in groups)

    def evidence(self) -> str:
        names = ", ".join(dict.fromkeys(type(optimizer).__name__ for optimizer in self._optimizers))
        return f"{names or 'no optimizer'} has {self.option}={self.is_in_force()}"


class FreeGradients(_OfMade):
    """zero_grad frees the gradients instead of writing zeros."""

    def begin(self) -> None:
        self._made.keeps_gradients = False

    def is_in_force(self) -> bool:
        return bool(self._made.zeroing)

    def evidence(self) -> str:
        self.why_not = "" if self._made.zeroing else "the program never asks zero_grad to write zeros"
        self.replaced = [f"set_to_none = False at {place}" for place in self._made.zeroing]
        return f"{len(self._made.zeroing)} lines free the gradients now"


class Loader(_OfMade):
    """Other arguments for each DataLoader: workers=N, or pinned."""

    def begin(self) -> None:
        if self.option == "pinned":
            self._made.loader["pin_memory"] = True
        else:
            self._made.loader |= {"num_workers": int(self.option), "persistent_workers": True}

    def _good(self) -> list[bool]:
        pinned = self.option == "pinned"
        return [item["is_pinned"] if pinned else item["workers"] == int(self.option) for item in self._made.loaders]

    def is_in_force(self) -> bool:
        good = self._good()
        return bool(good) and all(good)

    def evidence(self) -> str:
        good = self._good()
        self.why_not = "" if good else "the program makes no DataLoader"
        what = "pinned memory" if self.option == "pinned" else f"{self.option} workers"
        return f"{sum(good)} of {len(good)} loaders have {what}"


class Buckets(_OfMade):
    """DistributedDataParallel with another size of its buckets (MiB), whose gradients are views of them."""

    def begin(self) -> None:
        self._made.buckets = {"bucket_cap_mb": int(self.option), "gradient_as_bucket_view": True}

    def is_in_force(self) -> bool:
        size = int(self.option) << 20
        wrapped = self._made.wrapped
        return bool(wrapped) and all(item["is_view"] and item["bucket_bytes"] == size for item in wrapped)

    def evidence(self) -> str:
        self.why_not = "" if self._made.wrapped else "the program makes no DistributedDataParallel"
        return f"{len(self._made.wrapped)} wrappers have buckets of {self.option} MiB"


class NoSync(AppliedRemedy):
    """DistributedDataParallel reduces gradients in the last backward pass of a step alone.

    How many passes a step has is learned from two steps that have the same number. Where a later step ends after fewer
    of them, its gradients are averaged before the optimizer uses them.
    """

    def __init__(self, torch: Any, option: str) -> None:
        super().__init__(torch, option)
        self._wrappers: list[Any] = []
        self._passes = self._before = self._expected = self._all = self._skipped = 0

    def on_module(self, module: Any) -> None:
        if isinstance(module, self.torch.nn.parallel.DistributedDataParallel):
            self._wrappers.append(module)
            module.register_forward_pre_hook(self._before_pass)

    def _before_pass(self, module: Any, _inputs: Any) -> None:
        if not self.torch.is_grad_enabled() or module is not self._wrappers[0]:
            return
        self._passes, self._all = self._passes + 1, self._all + 1
        is_earlier = self._passes < self._expected
        self._skipped += is_earlier
        module.require_backward_grad_sync = not is_earlier

    def before_step(self) -> None:
        if not 0 < self._passes < self._expected:
            return
        group = self._wrappers[0].process_group
        for parameter in self._wrappers[0].parameters():
            if parameter.grad is not None:
                self.torch.distributed.all_reduce(parameter.grad.div_(group.size()), group=group)

    def after_step(self) -> None:
        if self._passes:  # another optimizer's step may follow in the same step
            self._expected = self._passes if self._passes in (self._before, self._expected) else 0
            self._before, self._passes = self._passes, 0

    def is_in_force(self) -> bool:
        return self._skipped > 0

    def evidence(self) -> str:
        if not self._skipped:
            has_wrapper = "each step has one backward pass, or steps differ" if self._wrappers else ""
            self.why_not = has_wrapper or "no DistributedDataParallel is called from outside of any module"
        return f"{self._skipped} of {self._all} backward passes reduce no gradients"


class FrozenGarbage(AppliedRemedy):
    """Objects that are alive after the warm-up are no longer looked at by Python's garbage collector."""

    def __init__(self, torch: Any, option: str) -> None:
        super().__init__(torch, option)
        self.why_not = "the program took less than three steps"

    def on_warm(self) -> None:
        self.why_not = ""
        gc.collect()
        gc.freeze()

    def is_in_force(self) -> bool:
        return gc.get_freeze_count() > 0

    def evidence(self) -> str:
        return f"{gc.get_freeze_count()} objects are frozen"


class GarbageTime:
    """The time that Python's garbage collector takes after the warm-up."""

    def __init__(self) -> None:
        self.spent_ns = self.collections = 0
        self._began_ns = 0

    def begin(self) -> None:
        """Count from now on."""
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._began_ns = time.perf_counter_ns()
        elif self._began_ns:
            self.spent_ns += time.perf_counter_ns() - self._began_ns
            self.collections += 1
