#!/usr/bin/env python3
"""Count what each room of the package holds, and compare it with its budget in tests/budgets.json.

    scripts/budgets.py            print each room beside its budget
    scripts/budgets.py --write    write today's figures as the budget, in a commit that says what users get for more

Budgets only fall: a figure that grows by more than 2 % fails, and so does one that fell by more, until it is written.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, BUDGETS = ROOT / "nsysprof", ROOT / "tests" / "budgets.json"
TOLERANCE = 0.02


@dataclass(frozen=True)
class Room:
    """What a folder of the package holds.

    lines, files: of Python.
    imports: how many other modules of the package its modules import, added up.
    late_imports: imports within functions.
    c_lines: lines of C.
    """

    lines: int
    files: int
    imports: int
    late_imports: int
    c_lines: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write today's figures as the budget")
    arguments = parser.parse_args()
    rooms = count_rooms()
    if arguments.write:
        figures = {name: asdict(room) for name, room in rooms.items()}
        BUDGETS.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        return 0
    whole = Room(*(sum(figures) for figures in zip(*(asdict(room).values() for room in rooms.values()), strict=True)))
    for name, room in {**rooms, "all": whole}.items():
        print(f"{name:12}", " ".join(f"{figure} {count:6,}" for figure, count in asdict(room).items()))
    faults = list(find_faults(rooms, read_budgets()))
    print("\n".join(faults) or "every room is within its budget")
    return int(bool(faults))


def read_budgets() -> dict[str, Room]:
    """Return the budget of each room."""
    return {name: Room(**room) for name, room in json.loads(BUDGETS.read_text(encoding="utf-8")).items()}


def count_rooms() -> dict[str, Room]:
    """Return what each room holds; the modules beside the rooms are one more, named after the package."""
    modules = {_module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
    by_room: dict[str, list[str]] = {}
    for module, path in modules.items():
        by_room.setdefault(_room(path), []).append(module)
    c_files = [path for suffix in ("*.c", "*.h") for path in PACKAGE.rglob(suffix)]
    rooms = {}
    for room, members in sorted(by_room.items()):
        texts = {name: modules[name].read_text(encoding="utf-8") for name in members}
        trees = {name: ast.parse(text) for name, text in texts.items()}
        rooms[room] = Room(
            lines=sum(len(text.splitlines()) for text in texts.values()),
            files=len(texts),
            imports=sum(len(set(_own_imports(tree, modules)) - {name}) for name, tree in trees.items()),
            late_imports=sum(len(_late_imports(tree)) for tree in trees.values()),
            c_lines=sum(len(path.read_text().splitlines()) for path in c_files if _room(path) == room),
        )
    return rooms


def find_faults(rooms: Mapping[str, Room], budgets: Mapping[str, Room]) -> Iterator[str]:
    """Yield what differs from its budget by more than the tolerance."""
    for name in sorted({*rooms, *budgets}):
        if name not in rooms or name not in budgets:
            yield f"nsysprof/{name}: the budget knows other rooms; scripts/budgets.py --write"
            continue
        for figure, count in asdict(rooms[name]).items():
            budget = asdict(budgets[name])[figure]
            if count > budget * (1 + TOLERANCE):
                yield f"nsysprof/{name}: {figure} grew from {budget:,} to {count:,}: delete something first"
            elif count < budget * (1 - TOLERANCE):
                yield f"nsysprof/{name}: {figure} fell from {budget:,} to {count:,}: scripts/budgets.py --write"


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _room(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else "nsysprof"


def _own_imports(tree: ast.Module, modules: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "nsysprof":
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                yield module if module in modules else node.module


def _late_imports(tree: ast.Module) -> set[ast.AST]:
    """Return the imports within functions: all that are not reached without one."""
    early, ahead = set(), list(ast.iter_child_nodes(tree))
    while ahead:
        node = ahead.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            early.add(node)
        elif isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            ahead.extend(ast.iter_child_nodes(node))
    return {node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)} - early


if __name__ == "__main__":
    sys.exit(main())
