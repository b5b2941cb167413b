"""Sample what a program computes, so that two runs can be compared without a line that the program prints.

Of a training: its losses, a part of the gradients before the first step, and how a part of the parameters changed in
the first steps. Of a program without an optimizer: a part of the first outputs of its outermost module. It needs only
torch, because it runs in the program's own Python. Nothing is copied from the GPU before the end.
"""

from __future__ import annotations

import contextlib
import math
import random
import sys
from typing import Any

_MOST_ELEMENTS, _MOST_LOSSES, _MOST_OUTPUTS = 8192, 64, 3
# The parameters are compared after so many steps: later, rounding alone makes trainings differ.
_COMPARED_STEP = 10


def seed_all(torch: Any, seed: int) -> None:
    """Seed the random numbers of torch, Python and numpy. A program that seeds them itself does so later."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


class ValueSampler:
    """What was sampled of this process."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._losses: list[Any] = []
        self._gradients: list[Any] = []
        self._before: list[Any] = []
        self._after: list[Any] = []
        self._outputs: list[Any] = []
        self._steps = 0

    def begin(self) -> None:
        """Keep the losses from now on: what the program calls backward on."""
        original, losses = self._torch.Tensor.backward, self._losses

        def backward(tensor: Any, *arguments: Any, **named: Any) -> Any:
            if len(losses) < _MOST_LOSSES and tensor.numel() == 1:
                losses.append(tensor.detach().clone())
            return original(tensor, *arguments, **named)

        self._torch.Tensor.backward = backward

    def before_step(self, optimizer: Any) -> None:
        """Sample the gradients and the parameters before the first step."""
        if self._steps == 0:
            parameters = _parameters(optimizer)
            self._gradients = self._sample([item.grad for item in parameters if item.grad is not None])
            self._before = self._sample(parameters)

    def after_step(self, optimizer: Any) -> None:
        """Sample the parameters after the step that is compared, or after the last one before it."""
        self._steps += 1
        if self._steps in (1, 3, _COMPARED_STEP):
            self._after = self._sample(_parameters(optimizer))

    def take_output(self, output: Any) -> None:
        """Sample one of the first outputs of the outermost module."""
        if len(self._outputs) < _MOST_OUTPUTS:
            tensor = self._first_tensor(output)
            if tensor is not None:
                self._outputs.append(self._sample([tensor]))

    def to_json(self) -> dict[str, Any]:
        """Return the samples as numbers. Waits for the GPU."""
        before, after = _numbers(self._before), _numbers(self._after)
        update: list[float | None] = []
        if len(before) == len(after):
            pairs = zip(before, after, strict=True)
            update = [None if old is None or new is None else new - old for old, new in pairs]
        return {
            "losses": _numbers(self._losses),
            "gradients": _numbers(self._gradients),
            "update": update,
            "outputs": [] if self._steps else [_numbers(output) for output in self._outputs],
            "steps": min(self._steps, _COMPARED_STEP),
        }

    def _first_tensor(self, output: Any) -> Any:
        if isinstance(output, self._torch.Tensor):
            return output if output.is_floating_point() and output.numel() > 1 else None
        items = output.values() if hasattr(output, "values") else output
        if isinstance(items, str | bytes) or not hasattr(items, "__iter__"):
            return None
        return next((found for item in items if (found := self._first_tensor(item)) is not None), None)

    def _sample(self, tensors: list[Any]) -> list[Any]:
        """Return elements of each tensor, evenly spread, in all at most _MOST_ELEMENTS or one of each."""
        samples = []
        most = max(1, _MOST_ELEMENTS // max(1, len(tensors)))
        with contextlib.suppress(Exception), self._torch.no_grad():
            for tensor in tensors[:_MOST_ELEMENTS]:
                if tensor.is_sparse or not tensor.is_floating_point() or not tensor.numel():
                    continue
                count = tensor.numel()
                places = self._torch.arange(min(count, most), device=tensor.device) * count // min(count, most)
                picked = tensor.detach().reshape(-1).index_select(0, places)
                samples.append(picked.float().clone())
        return samples


def _parameters(optimizer: Any) -> list[Any]:
    return [item for group in optimizer.param_groups for item in group["params"]]


def _numbers(tensors: list[Any]) -> list[float | None]:
    """Return the elements as numbers; None stands for NaN or infinity."""
    values: list[float | None] = []
    for tensor in tensors:
        numbers = tensor.reshape(-1).float().cpu().tolist()
        values += [float(f"{number:.7g}") if math.isfinite(number) else None for number in numbers]
    return values
