"""Digest the functions and constants that a function depends on, so that it can be told later which of them changed.

What a function calls is found without running it: it is every function, class and constant of this project whose name
it uses, and what these use in turn. Of a class, all methods count. Comments, docstrings and white space do not.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import io
import sys
import textwrap
import tokenize
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SIMPLE = (bool, int, float, str, bytes, type(None))


def digest_sources(root: Callable[..., object], without: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return for each function, class and constant that `root` depends on a digest of what it is.

    The keys are paths below the repository with the name after a colon.

    without: names that do not count, with all that only they use.
    """
    found: dict[str, str] = {}
    waiting: list[Any] = [root]
    while waiting:
        name, used = _look(inspect.unwrap(waiting.pop()))
        if name is None or name in found or name.rpartition(":")[2] in without:
            continue
        found[name] = used.digest
        found |= used.constants
        waiting += used.objects
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class Used:
    """The digest of a function or class, and what it uses."""

    digest: str = ""
    constants: Mapping[str, str] = field(default_factory=dict)
    objects: tuple[object, ...] = ()


@cache
def _look(value: Any) -> tuple[str | None, Used]:
    """Return the key of a function or class and what it uses; no key where it is not of this repository."""
    name = _name(value)
    source = None if name is None else _source(value)
    if name is None or source is None:
        return None, Used()
    tree, constants, objects = ast.parse(source), {}, []
    for used, each in _used(tree, vars(sys.modules[value.__module__])):
        text = _text(each)
        if text is not None:
            constants[f"{name.partition(':')[0]}:{used}"] = _digest(text)
        elif isinstance(each, (FunctionType, type)) or hasattr(each, "__wrapped__"):
            objects.append(each)
    return name, Used(_digest(_bare(source, tree)), constants, tuple(objects))


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return what was changed, added or removed between two results of digest_sources."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def _name(value: Any) -> str | None:
    """Return the key of a function or class; None where it is not of this repository."""
    module = sys.modules.get(getattr(value, "__module__", ""))
    file = Path(getattr(module, "__file__", None) or "/").resolve()
    if ROOT not in file.parents or ".venv" in file.parts:
        return None
    return f"{file.relative_to(ROOT).as_posix()}:{value.__qualname__}"


def _source(value: Any) -> str | None:
    try:
        return textwrap.dedent(inspect.getsource(value))
    except (OSError, TypeError):
        return None


def _bare(source: str, tree: ast.Module) -> str:
    """Return source without comments, docstrings and white space: the same under every version of Python."""
    lines = source.splitlines(keepends=True)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = "\n"
    kept = [*lines]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and lines[token.start[0] - 1] != "\n":
            kept[token.start[0] - 1] = lines[token.start[0] - 1][: token.start[1]]
    return "".join("".join(kept).split())


def _used(tree: ast.AST, names: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the objects that the names in a piece of source stand for, by the names of its module."""
    for node in _outer(tree, frozenset()):
        if isinstance(node, ast.Name) and node.id in names:
            yield node.id, names[node.id]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = names.get(node.value.id)
            if isinstance(module, ModuleType) and hasattr(module, node.attr):
                yield f"{node.value.id}.{node.attr}", getattr(module, node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("nsysprof"):
            module = importlib.import_module(node.module)
            yield from ((each.name, getattr(module, each.name)) for each in node.names)


def _outer(node: ast.AST, own: frozenset[str]) -> Iterator[ast.AST]:
    """Yield every node below, without the names that a function binds itself.

    own: the names that the functions around it bind.
    """
    if isinstance(node, (*_FUNCTIONS, *_COMPREHENSIONS)):
        own |= {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
        own |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    if not (isinstance(node, ast.Name) and node.id in own):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _outer(child, own)


def _text(value: object) -> str | None:
    """Return what a constant is; None for everything else."""
    found: str | None = None
    if isinstance(value, float):
        found = f"{float(value):.12g}"
    elif isinstance(value, _SIMPLE):
        found = repr(value)
    elif isinstance(value, (tuple, list, set, frozenset)):
        parts = [_text(each) for each in value]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts):
            found = f"({','.join(sorted(known) if isinstance(value, (set, frozenset)) else known)})"
    elif isinstance(value, Mapping):
        found = _text(tuple((key, each) for key, each in value.items()))
    elif hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        found = f"{type(value).__name__}{_text({name: getattr(value, name) for name in value.__dataclass_fields__})}"
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
