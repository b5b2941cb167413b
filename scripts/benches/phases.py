"""Time the phases of `nsysprof analyze` inside one process, for scripts/bench.py analyze.

Phases overlap, because parts of the analysis run beside each other in threads: each has the processor time of its own
thread, and `rest` is what no phase took.
"""

from __future__ import annotations

import functools
import importlib
import json
import resource
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nsysprof.analysis.overview.stages import StagesRun

# Each phase around the stages of the analysis: the module that calls a function, and the name by which it calls it.
_PHASES = (
    ("nsysprof.trace.tables", "read_work"),
    ("nsysprof.trace.tables", "read_calls"),
    ("nsysprof.trace.tables", "match_launches"),
    ("nsysprof.trace.open", "_sha256"),
    ("nsysprof.report.write", "_write_tables"),
    ("nsysprof.report.write", "write_report"),
)
# The runner of the stages, which times them.
_RUNNER = ("nsysprof.analysis.overview.summarize", "run_stages")
# The phases that only findings need: the replayed steps, why the GPU was idle, and what to change. Older measurements
# have the names of functions.
_OF_FINDINGS = (
    "steps", "blamed", "ledger", "explained", "replayed", "findings",
    "keep_ledger", "find_steps", "build_graph", "list_findings", "find_causes", "time_steps",
)  # fmt: skip


def findings_ratio(found: dict[str, Any]) -> float:
    """Return the processor time of analyze as a multiple of its time without findings."""
    own = sum(found["phases"].get(name, (0.0, 0.0))[1] for name in _OF_FINDINGS)
    return float(found["cpu_s"] / (found["cpu_s"] - own))


class PhaseTimes:
    """The times of phases, by name, in order of their first start: wall and processor seconds of their own thread."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[float, float]] = {}
        self.inside = 0.0
        self._lock = threading.Lock()
        self._depth = threading.local()

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with a stopwatch."""

        @functools.wraps(function)
        def timed(*arguments: Any, **options: Any) -> Any:
            depth = getattr(self._depth, "value", 0)
            self._depth.value = depth + 1
            wall, cpu = time.perf_counter(), time.thread_time()
            try:
                return function(*arguments, **options)
            finally:
                took = time.perf_counter() - wall, time.thread_time() - cpu
                self._depth.value = depth
                with self._lock:
                    before = self.found.get(name, (0.0, 0.0))
                    self.found[name] = before[0] + took[0], before[1] + took[1]
                    self.inside += took[1] if depth == 0 else 0.0

        return timed

    def wrap_runner(self, run_stages: Callable[..., StagesRun]) -> Callable[..., StagesRun]:
        """Return the runner of stages, which leaves its times here."""

        @functools.wraps(run_stages)
        def watched(*arguments: Any, **options: Any) -> StagesRun:
            run = run_stages(*arguments, **options)
            for took in run.times:
                self.found[took.stage] = took.wall_s, took.cpu_s
                self.inside += took.cpu_s
            return run

        return watched


def time_phases(arguments: list[str]) -> dict[str, Any]:
    """Run a command of nsysprof in this process; return its phases and totals (seconds, bytes)."""
    begin = time.perf_counter()
    times = PhaseTimes()
    for module_name, name in _PHASES:
        module = importlib.import_module(module_name)
        function = getattr(module, name, None)
        if function is not None:
            setattr(module, name, times.wrap(name.strip("_"), function))
    runner = importlib.import_module(_RUNNER[0])
    setattr(runner, _RUNNER[1], times.wrap_runner(getattr(runner, _RUNNER[1])))
    imports = time.process_time()
    from nsysprof.cli import app
    from nsysprof.files.memory_reuse import reuse_freed_memory

    reuse_freed_memory()  # as the command itself does

    app(arguments, standalone_mode=False)
    total = time.process_time()
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "phases": {
            "imports": (imports, imports),
            **times.found,
            "rest": (0.0, total - imports - times.inside),
        },
        "wall_s": time.perf_counter() - begin,
        "cpu_s": total,
        "peak_bytes": used.ru_maxrss * 1024,
    }


def render_phases(title: str, found: dict[str, Any]) -> str:
    """Return the Markdown table of one run."""
    lines = [f"{title}: {found['cpu_s']:.2f} s of processor time", "", "| phase | wall (s) | processor (s) |"]
    lines.append("|---|---:|---:|")
    lines += [f"| {name} | {wall:.2f} | {cpu:.2f} |" for name, (wall, cpu) in found["phases"].items()]
    lines += [
        "",
        f"Without findings it would take {found['cpu_s'] / findings_ratio(found):.2f} s: with them, it takes ",
    ]
    lines[-1] += f"{findings_ratio(found):.2f} times as long."
    return "\n".join(lines)


def main() -> int:
    """Print the phases of one run of the command whose arguments follow."""
    if "--help" in sys.argv:
        print(__doc__)
        return 0
    print(json.dumps(time_phases(sys.argv[1:])))
    return 0
