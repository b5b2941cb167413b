"""Time the phases of `nsysprof analyze`, its stages, inside one process, for scripts/bench.py analyze.

Stages overlap, because some run beside each other in threads: each has the processor time of its own thread, and `rest`
is what no stage took.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

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


def time_phases(arguments: list[str]) -> dict[str, Any]:
    """Run a command of nsysprof in this process; return its stages and totals (seconds, bytes)."""
    begin = time.perf_counter()
    from nsysprof.analysis.overview import summarize
    from nsysprof.cli import app
    from nsysprof.files.memory_reuse import reuse_freed_memory

    imports = time.process_time()
    run_stages, runs = summarize.run_stages, []

    def kept_run(*stages: Any, **options: Any) -> Any:
        runs.append(run_stages(*stages, **options))
        return runs[-1]

    summarize.run_stages = kept_run
    reuse_freed_memory()  # as the command itself does
    app(arguments, standalone_mode=False)
    total = time.process_time()
    stages = {took.stage: (took.wall_s, took.cpu_s) for run in runs for took in run.times}
    rest = total - imports - sum(cpu_s for _, cpu_s in stages.values())
    return {
        "phases": {"imports": (imports, imports), **stages, "rest": (0.0, rest)},
        "wall_s": time.perf_counter() - begin,
        "cpu_s": total,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def render_phases(title: str, found: dict[str, Any]) -> str:
    """Return the Markdown table of one run."""
    lines = [f"{title}: {found['cpu_s']:.2f} s of processor time", "", "| phase | wall (s) | processor (s) |"]
    lines += ["|---|---:|---:|"]
    lines += [f"| {name} | {wall:.2f} | {cpu:.2f} |" for name, (wall, cpu) in found["phases"].items()]
    ratio = findings_ratio(found)
    without = f"Without findings it would take {found['cpu_s'] / ratio:.2f} s: with them, it takes {ratio:.2f} times"
    return "\n".join([*lines, "", f"{without} as long."])


def main() -> int:
    """Print the phases of one run of the command whose arguments follow."""
    if "--help" in sys.argv:
        print(__doc__)
        return 0
    print(json.dumps(time_phases(sys.argv[1:])))
    return 0
