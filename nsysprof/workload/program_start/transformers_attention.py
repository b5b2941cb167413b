"""Give models of transformers another attn_implementation, without changing the program.

NSYSPROF_ATTN_IMPLEMENTATION names it. transformers has no variable of its own for this: the value in the program's code
or config is replaced when a model is made, where its class supports that. It needs only the standard library.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from .watched_program.after_import import after_import

IMPLEMENTATION = "NSYSPROF_ATTN_IMPLEMENTATION"
_MODULE = "transformers.modeling_utils"


def begin() -> None:
    """Act once transformers is imported."""
    after_import(_MODULE, "attention implementations", lambda module: wrap_models(module, os.environ[IMPLEMENTATION]))


def wrap_models(module: Any, wanted: str) -> None:
    """Let each model that is made from now on have `wanted` for its attention, where its class supports that."""
    original, named_classes = module.PreTrainedModel.__init__, set()

    def __init__(self: Any, config: Any, *inputs: Any, **named: Any) -> None:
        name, before = type(self).__name__, getattr(config, "_attn_implementation", None)
        if before != wanted:
            supported = wanted == "eager" or getattr(self, f"_supports_{wanted}", True)
            if supported:
                config._attn_implementation = wanted
            if name not in named_classes:
                named_classes.add(name)
                _say(f"{name} has {wanted} in place of {before}." if supported else f"{name} has no {wanted}.")
        original(self, config, *inputs, **named)

    module.PreTrainedModel.__init__ = __init__


def _say(text: str) -> None:
    print(f"nsysprof attn_implementation: {text}", file=sys.stderr)  # noqa: T201
