"""Start recording a captured program. Python imports this module when it starts.

It needs only the standard library, since the program's Python need not have nsysprof. A variable of the environment
names what is recorded, mostly by the folder for it. A fault here is printed and never ends the program.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

# What begins when Python starts, and what begins once torch is imported, in this order: the variable that asks for it,
# its name, and a module of this folder.
_AT_START = (
    ("NSYSPROF_ATTN_IMPLEMENTATION", "attention implementations", "transformers_attention"),
    ("NSYSPROF_STACKS_FOLDER", "stacks", "stack_sampler"),
)
_AFTER_TORCH = (
    ("NSYSPROF_POLICY", "policies", "policy_start"),
    ("NSYSPROF_ATTENTION_FOLDER", "attention calls", "attention_hook"),
    ("NSYSPROF_STEPS_FOLDER", "steps", "step_watch"),
    ("NSYSPROF_TORCH_FOLDER", "activities of torch", "torch_recorder"),
    ("NSYSPROF_RANGES_FOLDER", "times of ranges", "range_times"),
    ("NSYSPROF_STEP_ENDS_FOLDER", "ends of steps", "step_ends"),
    ("NSYSPROF_OPERATORS_FOLDER", "operators", "operator_recorder"),
    ("NSYSPROF_GC", "garbage collections", "collection_ranges"),
    ("NSYSPROF_COMPILES", "compilations", "compile_ranges"),
    ("NSYSPROF_LOADERS", "data loaders", "watched_program.loader_ranges"),
    ("NSYSPROF_LAYERS_FOLDER", "layers", "layer_recorder"),
    ("NSYSPROF_REMEDIES", "remedies", "applied_remedies.watch_program"),
    ("NSYSPROF_REMEDIES_FOLDER", "remedies", "applied_remedies.watch_program"),
    ("NSYSPROF_END_STEPS", "remedies", "applied_remedies.watch_program"),
    ("NSYSPROF_MEMORY_FOLDER", "allocations", "memory_recorder"),
)
_FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
_PACKAGE = "nsysprof_start"


def _begin() -> None:
    """Make a package of this folder, which the program's own path does not have, and begin what is wanted."""
    at_start, after_torch = ([row for row in rows if _is_wanted(row[0])] for rows in (_AT_START, _AFTER_TORCH))
    if not at_start and not after_torch:
        return
    if _PACKAGE not in sys.modules:
        path = os.path.join(_FOLDER, "__init__.py")  # noqa: PTH118
        spec = importlib.util.spec_from_file_location(_PACKAGE, path, submodule_search_locations=[_FOLDER])
        assert spec is not None
        sys.modules[_PACKAGE] = importlib.util.module_from_spec(spec)
    watch = _load("watched_program.after_import")
    for _, action, module in after_torch:
        watch.after_import("torch", action, lambda torch, module=module: _load(module).begin(torch))
    for _, action, module in at_start:
        watch.attempt(lambda module=module: _load(module).begin(), f"the program's {action} are not recorded")
    _import_the_next()


def _is_wanted(variable: str) -> bool:
    return os.environ.get(variable) not in (None, "", "0")


def _load(module: str) -> Any:
    return importlib.import_module(f"{_PACKAGE}.{module}")


def _import_the_next() -> None:
    """Import the program's own sitecustomize, which this module hides, and restore its path."""
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _FOLDER]  # noqa: PTH100
    this = sys.modules.pop(__name__)
    try:
        importlib.import_module(__name__)
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
    finally:
        # The import of this module is still running, and needs it there.
        sys.modules.setdefault(__name__, this)


_begin()
