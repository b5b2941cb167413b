"""The layers of the package, held by reading imports: who may import whom, no cycles, heavy ones only on need."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[1] / "nsysprof"
# Which of our folders each folder may import from, besides itself, the top-level modules, `files` and `native`.
ALLOWED: dict[str, set[str]] = {
    "": set(),
    "files": set(),
    "native": set(),
    "attention": {"nsysprof.kernels"},
    "kernels": set(),
    "nsight": {"nsysprof.results"},
    "torchprof": set(),
    "results": {"nsysprof.attention"},
    "workload": {"nsysprof.attention", "nsysprof.results", "nsysprof.torchprof"},
    "capture": {
        "nsysprof.attention", "nsysprof.nsight", "nsysprof.results", "nsysprof.workload.job",
    },
    "trace": {"nsysprof.nsight", "nsysprof.torchprof"},
    "analysis": {
        "nsysprof.attention", "nsysprof.kernels", "nsysprof.results", "nsysprof.trace.schema",
        "nsysprof.arrays",
        "nsysprof.trace.inputs.bundle_file",
        "nsysprof.torchprof.allocator_history", "nsysprof.torchprof.failed_allocation",
        "nsysprof.torchprof.operator_facts",
    },
    "report": {"nsysprof.attention", "nsysprof.results"},
    "ranks": {"nsysprof.kernels", "nsysprof.trace", "nsysprof.analysis", "nsysprof.results"},
    "bundle": {"nsysprof.attention", "nsysprof.trace", "nsysprof.torchprof"},
    "export": {"nsysprof.results", "nsysprof.trace.schema"},
    "app": {
        "nsysprof.attention", "nsysprof.kernels", "nsysprof.nsight", "nsysprof.results", "nsysprof.capture",
        "nsysprof.trace", "nsysprof.analysis", "nsysprof.ranks", "nsysprof.report", "nsysprof.export",
        "nsysprof.bundle", "nsysprof.torchprof",
    },
    # Commands parse options and print results; what they print with is report's.
    "cli": {"nsysprof.app", "nsysprof.attention", "nsysprof.report"},
    "api": {
        "nsysprof.app", "nsysprof.attention", "nsysprof.kernels", "nsysprof.nsight", "nsysprof.results",
        "nsysprof.trace",
        "nsysprof.analysis", "nsysprof.report", "nsysprof.workload.recording.torch_trace",
        "nsysprof.workload.applied_policy.apply_policy",
    },
}  # fmt: skip
SEES_ALL = {"__main__"}
MOST_TOP_MODULES = 8  # besides __init__ and __main__
MOST_MODULES = 17  # in one folder: what has more is split by topic
MOST_LINES = 60  # in the body of a function
# How many folders and top modules know another. An import of one constant is no reason for one more: put the
# constant where it belongs. The analysis knows `files` because the runner of its stages returns memory to the system.
MOST_ACQUAINTANCES = 114
# What several commands share, and the options of one that has many. Every other module in cli/ and cli/measuring/ is a
# command.
OF_ALL_COMMANDS = {"measurement", "options"}
HEAVY = (
    "pandas",
    "numpy",
    "matplotlib",
    "torch",
    "jinja2",
    "dask",
    "distributed",
    "perfetto",
    "pyarrow",
    "mcp",
)


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def layer(module: str) -> str:
    """Return the folder of a module under nsysprof; empty for the top-level modules."""
    parts = module.split(".")
    is_folder = len(parts) > 1 and (PACKAGE / parts[1]).is_dir()
    return parts[1] if is_folder or parts[-1] == "__main__" else ""


class Facts(NamedTuple):
    """What one look at a module tells of it. The tree itself is not kept: those of all modules are large.

    imports: every module that it imports; of modules of ours the names, too, as `module.name`.
    """

    imports: frozenset[str]
    public_classes: tuple[str, ...]
    long_functions: dict[str, int]


@cache
def facts(module: str) -> Facts:
    imported: set[str] = set()
    classes, long = [], {}
    package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                source = ".".join([*parent, source] if source else parent)
            imported.update({f"{source}.{alias.name}" for alias in node.names} if source in MODULES else {source})
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            classes.append(node.name)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            has_docstring = ast.get_docstring(node, clean=False) is not None and len(node.body) > 1
            lines = node.end_lineno - node.body[1 if has_docstring else 0].lineno + 1
            if lines > MOST_LINES:
                long[f"{module}.{node.name}"] = lines
    return Facts(frozenset(imported), tuple(classes), long)


def imports(module: str) -> frozenset[str]:
    return facts(module).imports


def own_imports(module: str) -> set[str]:
    """Return the modules of ours that `module` imports: of `module.name` the module."""
    of_ours = {name for name in imports(module) if name == "nsysprof" or name.startswith("nsysprof.")}
    return {name if name in MODULES else name.rpartition(".")[0] for name in of_ours}


def wrong_imports(module: str) -> set[str]:
    own = layer(module)
    assert own in ALLOWED, f"nsysprof/{own}/ is a new layer: give it a line in ALLOWED and in CONTRIBUTING.md"
    ground = {"", "files", "native"} if own else {"", "native"}
    foreign = {name for name in own_imports(module) if layer(name) not in {*ground, own}}
    allowed = ALLOWED[own]
    return {name for name in foreign if not any(name == a or name.startswith(f"{a}.") for a in allowed)}


def test_imports_stay_in_their_layer() -> None:
    modules = [name for name in MODULES if layer(name) not in SEES_ALL]
    assert {module: sorted(wrong) for module in modules if (wrong := wrong_imports(module))} == {}


def test_few_modules_lie_loose_at_the_top() -> None:
    loose = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert len(loose) <= MOST_TOP_MODULES, f"give {sorted(loose)} a topic folder"


def test_no_folder_is_crowded() -> None:
    folders = Counter(path.parent for path in MODULES.values() if path.name != "__init__.py")
    crowded = {str(folder.relative_to(PACKAGE)): count for folder, count in folders.items() if count > MOST_MODULES}
    assert not crowded, "split by topic"


def test_functions_are_short() -> None:
    """The signature, which lists a command's options, and the docstring do not count."""
    assert [facts(module).long_functions for module in MODULES if facts(module).long_functions] == []


def test_few_folders_know_each_other() -> None:
    def room(module: str) -> str:
        return ".".join(module.split(".")[:2])

    pairs = {(room(module), room(name)) for module in MODULES for name in own_imports(module)}
    known = {(one, other) for one, other in pairs if other != one}
    assert len(known) <= MOST_ACQUAINTANCES, sorted(known)


def test_no_two_public_classes_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for module in MODULES:
        for name in facts(module).public_classes:
            places.setdefault(name, []).append(module)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_only_the_command_line_is_imported_by_nobody() -> None:
    modules = [module for module in MODULES if layer(module) not in SEES_ALL]
    assert [module for module in modules if "nsysprof.cli" in own_imports(module)] == []


COMMANDS = [
    name
    for name, path in MODULES.items()
    if layer(name) == "cli" and ".terminal" not in name and path.name != "__init__.py"
]


def test_no_command_imports_another() -> None:
    commands = {name for name in COMMANDS if name.split(".")[-1] not in OF_ALL_COMMANDS}
    for module in commands:
        assert not own_imports(module) & {*(commands - {module}), "nsysprof.cli"}, module


# Who reads the tables of a trace for something else than its analysis: a replay, an export, a check of a recording, the
# parts of a job, and the facts of a comparison.
READ_TABLES = {
    "nsysprof.app.trace_analysis.assemble", "nsysprof.app.measuring.capture_program", "nsysprof.app.export",
    "nsysprof.app.optimizing.tune_uses", "nsysprof.app.whatif", "nsysprof.ranks.summarize",
}  # fmt: skip


def test_one_module_assembles_the_analysis_of_a_trace() -> None:
    def users(name: str) -> set[str]:
        return {module for module in MODULES if name in imports(module)}

    summary = "nsysprof.analysis.overview.summarize"
    assert users(f"{summary}.run_summary") == {"nsysprof.app.trace_analysis.assemble"}
    assert not users(f"{summary}.summarize")
    assert users("nsysprof.trace.tables.read_tables") <= READ_TABLES


def test_no_import_cycles() -> None:
    """Raises CycleError, which names the cycle."""
    graph = {module: own_imports(module) - {module, "nsysprof"} for module in MODULES}
    assert set(TopologicalSorter(graph).static_order()) >= set(MODULES)


def test_torch_is_imported_only_in_workload() -> None:
    importers = {module for module in MODULES if "torch" in {name.split(".")[0] for name in imports(module)}}
    assert {module for module in importers if layer(module) != "workload"} == set()


def test_the_measured_process_loads_no_pandas() -> None:
    """It takes half a second to load, in each process of a capture or a bench."""
    reached, ahead = set(), {"nsysprof.workload.worker"}
    while ahead:
        reached |= ahead
        ahead = {name for module in ahead for name in own_imports(module)} - reached
    assert "nsysprof.workload.measuring.measure" in reached
    assert [module for module in reached if "pandas" in imports(module)] == []


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


def test_an_analysis_loads_only_what_it_uses(tmp_path: Path) -> None:
    code = (
        "import json, sys\n"
        "from nsysprof.app.analyze import AnalyzeRequest, analyze\n"
        "from pathlib import Path\n"
        "analyze(AnalyzeRequest((Path(sys.argv[1]),), out=Path(sys.argv[2]), figures=False))\n"
        "print(json.dumps(list(sys.modules)))\n"
    )
    trace = PACKAGE.parent / "traces" / "pools.sqlite.xz"
    command = [sys.executable, "-c", code, str(trace), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout))
    assert "nsysprof.report.write" in loaded
    assert not {name for name in loaded if name.startswith(("matplotlib", "scipy"))}
