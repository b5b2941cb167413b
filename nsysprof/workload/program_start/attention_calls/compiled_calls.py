"""Put attention that a compiled program calls into ranges: torch's operators, and the kernels of flex_attention."""

from __future__ import annotations

import functools
import sys
from typing import Any

from .attention_calls import AttentionCalls
from .seen_call import Seen


def wrap_operator(calls: AttentionCalls, operator: Any, *, is_backward: bool) -> None:
    """Put the calls of an operator from Python, as compiled programs make them, into ranges.

    torch's own C++ code calls the operator without this object, so that a call of the function has one range.
    """
    original, inside, types = operator._op, calls.inside, calls.types
    # While a program is compiled, what stands for its tensors may be of the type of a tensor.
    is_stand_in = getattr(calls.torch, "_is_functional_tensor", lambda tensor: False)
    names = [argument.name for argument in operator._schema.arguments]
    first, which = names.index("query"), "bwd" if is_backward else "fwd"

    def run(*args: Any, **kwargs: Any) -> Any:
        if len(args) < first + 3 or not types.get(type(args[first]), False) or getattr(inside, "depth", False):
            return original(*args, **kwargs)
        if is_stand_in(args[first]):
            return original(*args, **kwargs)
        began = calls.begin()
        seen = _find_compiled(calls, names, args, kwargs, which)
        if seen is None:
            return original(*args, **kwargs)
        return calls.run_part(seen, which, began, original, args, kwargs)

    operator._op = run


def _find_compiled(calls: AttentionCalls, names: list[str], args: Any, kwargs: Any, which: str) -> Seen | None:
    """Return what a call of an operator is counted under: for a backward one, the forward one of its sizes."""
    given = dict(zip(names, args, strict=False)) | kwargs
    first = names.index("query")
    read = {name: given.get(name) for name in ("dropout_p", "is_causal")}
    read["attn_mask"] = given.get("attn_bias", given.get("attn_mask"))
    inputs = args[first : first + 3]
    if which == "fwd":
        seen = calls.find("sdpa", inputs, read, sys._getframe(2))
        if seen is not None:
            calls.by_sizes[_sizes_of(inputs)] = seen
        return seen
    seen = calls.by_sizes.get(_sizes_of(inputs))
    return seen if seen is not None else calls.find("sdpa", inputs, read, sys._getframe(2))


def _sizes_of(inputs: Any) -> str:
    """Return the sizes and types of tensors as text."""
    return str([(tuple(tensor.shape), str(tensor.dtype)) for tensor in inputs])


def wrap_triton(calls: AttentionCalls, autotuner: Any) -> None:
    """Put the kernels that the compiler makes of flex_attention into ranges, each when it is made ready to run."""
    original = autotuner.precompile

    @functools.wraps(original)
    def precompile(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        name = getattr(getattr(kernel, "fn", None), "__name__", "")
        if name.startswith("triton_tem_") and ("flex_attention" in name or "flex_decoding" in name):
            kernel.run = FlexKernel(calls, kernel, type(kernel).run, "bwd" if "backward" in name else "fwd")
        return original(kernel, *args, **kwargs)

    autotuner.precompile = precompile


class FlexKernel:
    """Runs one compiled kernel of flex_attention in a range. Where the kernel is copied or saved, it runs as it is."""

    def __init__(self, calls: AttentionCalls, kernel: Any, original: Any, which: str) -> None:
        self._calls, self._kernel, self._original, self._which = calls, kernel, original, which

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel, whose first arguments are q, k and v, in a range where its inputs can be read."""
        calls = self._calls
        began = calls.begin()
        seen = None
        # The kernel takes a tensor once, even where it is q, k and v.
        plain = [type(tensor) is calls.torch.Tensor and tensor.dim() == 4 for tensor in args[:3]]
        inputs = args[: [*plain, False].index(False)]
        if inputs:
            given = {"query": inputs[0], "key": inputs[:2][-1], "value": inputs[-1], "block_mask": True}
            seen = calls.find("flex_attention", (), given, sys._getframe(1))
        if seen is None:
            return self._original(self._kernel, *args, **kwargs)
        run = functools.partial(self._original, self._kernel)
        return calls.run_part(seen, self._which, began, run, args, kwargs)

    def __reduce__(self) -> Any:
        return getattr, (self._kernel, "run")
