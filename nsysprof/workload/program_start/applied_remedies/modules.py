"""Change the outermost modules of a program: compile them, lay them out for convolutions, lower their precision."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from .remedy import AppliedRemedy


class _OfModules(AppliedRemedy):
    def __init__(self, torch: Any, option: str) -> None:
        super().__init__(torch, option)
        self.modules: list[Any] = []
        self.why_not = "no module with parameters was called from outside of any module"

    def _take(self, module: Any) -> None:
        self.modules.append(module)
        self.why_not = ""

    def _names(self) -> str:
        return ", ".join(dict.fromkeys(type(module).__name__ for module in self.modules))


class Compile(_OfModules):
    """torch.compile of the forward of the outermost modules. The option is its mode.

    Module.compile() would do nothing for modules whose forward is torch's own, such as nn.Sequential.
    """

    def on_module(self, module: Any) -> None:
        if isinstance(module, self.torch.nn.parallel.DistributedDataParallel):
            module = module.module
        if any(is_compiled(part) for part in module.modules()):
            self.why_not = f"the program compiles {type(module).__name__}, or a part of it, by itself"
            return
        module.forward = self.torch.compile(module.forward, **({"mode": self.option} if self.option else {}))
        self._take(module)

    def is_in_force(self) -> bool:
        is_compiling = bool(self.modules) and all(is_compiled(module) for module in self.modules)
        if is_compiling and not self._graphs():
            self.why_not = f"torch.compile makes no graph of {self._names()}{self._breaks()}"
        return is_compiling and self._graphs() > 0

    def _graphs(self) -> int:
        from torch._dynamo.utils import counters

        return int(counters["stats"]["unique_graphs"])

    def evidence(self) -> str:
        return f"{self._graphs()} graphs of {self._names() or 'no module'}{self._breaks()}"

    def _breaks(self) -> str:
        from torch._dynamo.utils import counters

        breaks = counters["graph_break"]
        if not breaks:
            return ""
        reasons = "; ".join(" ".join(str(reason).split())[:160] for reason in list(breaks)[:3])
        return f", with {sum(breaks.values())} graph breaks: {reasons}"


class Rounded(_OfModules):
    """Weights of fp32 rounded once to so many bits of mantissa (the option).

    It makes nothing faster: it shows how much a rounding of that size changes what the program computes.
    """

    def on_module(self, module: Any) -> None:
        torch, dropped = self.torch, 23 - int(self.option)
        with torch.no_grad():
            for weight in module.parameters():
                if weight.dtype == torch.float32:
                    bits = (weight.view(torch.int32) + (1 << (dropped - 1))) >> dropped << dropped
                    weight.copy_(bits.view(torch.float32))
        self._take(module)

    def is_in_force(self) -> bool:
        return bool(self.modules)

    def evidence(self) -> str:
        return f"the weights of {self._names() or 'no module'} were rounded to {self.option} bits"


class ChannelsLast(_OfModules):
    """Weights of convolutions in channels_last, from which torch lays out what they compute."""

    def on_module(self, module: Any) -> None:
        if not any(isinstance(part, self.torch.nn.Conv2d) for part in module.modules()):
            self.why_not = self.why_not if self.modules else "the program has no nn.Conv2d"
            return
        module.to(memory_format=self.torch.channels_last)
        self._take(module)

    def _weights(self) -> list[Any]:
        convolution = self.torch.nn.Conv2d
        parts = [part for module in self.modules for part in module.modules()]
        return [part.weight for part in parts if isinstance(part, convolution)]

    def is_in_force(self) -> bool:
        weights, layout = self._weights(), self.torch.channels_last
        return bool(weights) and all(weight.is_contiguous(memory_format=layout) for weight in weights)

    def evidence(self) -> str:
        weights, layout = self._weights(), self.torch.channels_last
        count = sum(weight.is_contiguous(memory_format=layout) for weight in weights)
        return f"{count} of {len(weights)} weights of convolutions are in channels_last"


class Autocast(_OfModules):
    """bf16 autocast around the forward of the outermost modules, whose outputs are given back in fp32."""

    def __init__(self, torch: Any, option: str) -> None:
        super().__init__(torch, option)
        self._calls = self._lowered = 0

    def on_module(self, module: Any) -> None:
        device = next(module.parameters()).device.type
        if self.torch.is_autocast_enabled(device):
            self.why_not = "the program runs it under autocast by itself"
            return
        original, torch = module.forward, self.torch

        def forward(*arguments: Any, **named: Any) -> Any:
            with torch.autocast(device, dtype=torch.bfloat16):
                output = original(*arguments, **named)
            return self._raise_precision(output)

        module.forward = forward
        self._take(module)

    def _raise_precision(self, output: Any) -> Any:
        """Return the output with its tensors of bf16 as fp32, as accelerate does."""
        if not self.torch.compiler.is_compiling():
            self._calls += 1
        if isinstance(output, self.torch.Tensor):
            return output.float() if output.dtype == self.torch.bfloat16 else output
        if type(output) in (tuple, list):
            return type(output)(self._raise_precision(item) for item in output)
        if isinstance(output, dict):
            for name, item in list(output.items()):
                if isinstance(item, self.torch.Tensor):
                    output[name] = self._raise_precision(item)
        return output

    def is_in_force(self) -> bool:
        return bool(self.modules) and all("forward" in vars(module) for module in self.modules)

    def evidence(self) -> str:
        return f"bf16 autocast around {self._names() or 'no module'}"


class Liger(_OfModules):
    """The fused kernels of liger-kernel in a model of transformers."""

    def on_module(self, module: Any) -> None:
        kind = getattr(getattr(module, "config", None), "model_type", "")
        library: Any = importlib.import_module("liger_kernel.transformers.monkey_patch")
        if kind not in library.MODEL_TYPE_TO_APPLY_LIGER_FN:
            self.why_not = f"liger-kernel has nothing for models of type {kind or 'unknown'}"
            return
        library._apply_liger_kernel_to_instance(model=module)
        self._take(module)

    def _fused(self) -> list[str]:
        parts = [part for module in self.modules for part in module.modules()]
        return [type(part).__name__ for part in parts if "liger" in str(vars(part).get("forward", "")).lower()]

    def is_in_force(self) -> bool:
        return bool(self._fused())

    def evidence(self) -> str:
        return f"{len(self._fused())} modules run functions of liger-kernel"


def is_compiled(module: Any) -> bool:
    """Return whether torch.compile has been given this module, or its forward."""
    wrapped = type(module).__name__ == "OptimizedModule" or module._compiled_call_impl is not None
    return wrapped or hasattr(vars(module).get("forward"), "_torchdynamo_orig_callable")


def describe_module(torch: Any, module: Any, place: str) -> dict[str, Any]:
    """Return what of an outermost module matters for what can be tried on it."""
    parameters = list(module.parameters())
    device = parameters[0].device.type
    autocast = False
    with contextlib.suppress(Exception):
        autocast = torch.is_autocast_enabled(device)
    convolutions = [part for part in module.modules() if isinstance(part, torch.nn.Conv2d)]
    layout = torch.channels_last
    droppers = [part for part in module.modules() if "dropout" in type(part).__name__.lower()]
    return {
        "kind": type(module).__name__,
        "model_type": str(getattr(getattr(module, "config", None), "model_type", "")),
        "place": place,
        "device": device,
        "parameters": sum(parameter.numel() for parameter in parameters),
        "is_fp32": all(parameter.dtype == torch.float32 for parameter in parameters),
        "is_autocast": autocast,
        "is_compiled": any(is_compiled(part) for part in module.modules()),
        "is_random": module.training and any(getattr(part, "p", None) for part in droppers),
        "convolutions": len(convolutions),
        "channels_last": sum(
            part.weight.is_contiguous(memory_format=layout) and part.weight.numel() > part.weight.shape[0]
            and not part.weight.is_contiguous() for part in convolutions
        ),
    }  # fmt: skip
