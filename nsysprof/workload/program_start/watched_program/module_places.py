"""Say where a module is in a model, and which line of the program a call comes from.

It needs only the standard library, because it runs in the program's own Python.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

# Attributes under which torch.compile and wrappers for many GPUs keep the program's module.
_WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "module")
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # noqa: PTH100, PTH120


def named_modules(root: Any) -> Iterator[tuple[str, Any]]:
    """Yield all modules of a module with their paths, as the author of the model knows them ("": the module itself)."""
    for name, module in root.named_modules():
        yield ".".join(part for part in name.split(".") if part not in _WRAPPERS), module


def find_place(torch: Any, shorten: Callable[[str], str] = os.path.abspath) -> str:
    """Return FILE:LINE of the innermost caller that is neither torch's nor ours; empty where there is none."""
    hidden = _OWN, os.path.dirname(os.path.abspath(torch.__file__)) + os.sep, "<"  # noqa: PTH100, PTH120
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(hidden) and not name.endswith("contextlib.py"):
            return f"{shorten(name)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""
