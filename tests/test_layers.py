"""The layers of the package, held by reading imports: who may import whom, no cycles, heavy ones only on need."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "nsysprof"
# Which of our folders each folder may import from, besides itself and the top-level modules.
ALLOWED: dict[str, set[str]] = {
    "": set(),
    "workload": set(),
    "capture": set(),
    "trace": set(),
    "analysis": {"nsysprof.trace.schema", "nsysprof.trace.gpu_metrics_schema"},
    "report": {"nsysprof.analysis.results"},
    "ranks": {"nsysprof.trace", "nsysprof.analysis"},
    "bundle": {"nsysprof.trace"},
    "export": {"nsysprof.analysis.results", "nsysprof.trace.gpu_metrics_schema"},
    "api": {"nsysprof.trace", "nsysprof.analysis", "nsysprof.capture.find_nsys", "nsysprof.workload.record_block"},
}
SEES_ALL = {"cli", "__main__"}
HEAVY = ("pandas", "numpy", "numba", "matplotlib", "torch", "jinja2", "dask", "distributed", "perfetto", "pyarrow")


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def layer(module: str) -> str:
    """The folder of a module under nsysprof; empty for the top-level modules."""
    parts = module.split(".")
    is_folder = len(parts) > 1 and (PACKAGE / parts[1]).is_dir()
    return parts[1] if is_folder or parts[-1] == "__main__" else ""


@cache
def imports(module: str) -> frozenset[str]:
    """Every module that `module` imports, ours resolved to the file they name."""
    found: set[str] = set()
    package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                source = ".".join([*parent, source] if source else parent)
            names = {f"{source}.{alias.name}" for alias in node.names}
            found.update(name if name in MODULES else source for name in names)
    return frozenset(found)


def own_imports(module: str) -> set[str]:
    return {name for name in imports(module) if name == "nsysprof" or name.startswith("nsysprof.")}


@pytest.mark.parametrize("module", [name for name in MODULES if layer(name) not in SEES_ALL])
def test_imports_stay_in_their_layer(module: str) -> None:
    own = layer(module)
    assert own in ALLOWED, f"nsysprof/{own}/ is a new layer: give it a line in ALLOWED and in CONTRIBUTING.md"
    foreign = {name for name in own_imports(module) if layer(name) not in ("", own)}
    allowed = ALLOWED[own]
    wrong = {name for name in foreign if not any(name == a or name.startswith(f"{a}.") for a in allowed)}
    assert not wrong, f"{module} must not import {sorted(wrong)}"


def test_only_the_command_line_is_imported_by_nobody() -> None:
    importers = {module for module in MODULES if layer(module) not in SEES_ALL and "nsysprof.cli" in imports(module)}
    assert not importers


def test_no_import_cycles() -> None:
    """Raises CycleError, which names the cycle."""
    graph = {module: own_imports(module) - {module, "nsysprof"} for module in MODULES}
    tuple(TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("module", list(MODULES))
def test_torch_is_imported_only_in_workload(module: str) -> None:
    if layer(module) == "workload" or module == "nsysprof.api.policy":  # which works inside the user's own program
        return
    assert not {name for name in imports(module) if name.split(".")[0] == "torch"}


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import json, sys\n"
        "sys.argv = ['nsysprof', '--help']\n"
        "from nsysprof.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        f"print(); print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
    assert json.loads(done.stdout.splitlines()[-1]) == []
