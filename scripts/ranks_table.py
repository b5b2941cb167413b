"""Turn what scripts/bench_ranks.py measured into a table."""

from __future__ import annotations

import statistics
from typing import Any

ONE, TWO = "ours, 1 worker", "ours, 2 workers"
TWICE = "ours, 1 worker, two such at once"
REPORTS = ("cuda_gpu_kern_sum", "cuda_api_sum", "cuda_gpu_mem_time_sum")
RECIPES = ("nvtx_gpu_proj_sum", "nvtx_sum", "nccl_gpu_overlap_trace")
# Those that the comparison is named after; with the others, all tables that one of our runs writes.
NAMED = (REPORTS[0], RECIPES[0])


def render_ranks(measured: dict[str, Any]) -> str:
    """Return what was measured as Markdown: a table, and how much two workers gain."""
    seconds = {name: statistics.median(turns) for name, turns in measured["turns"].items()}
    two = seconds[TWO]
    lines = [
        f"{measured['traces']} traces, {measured['bytes'] / 1e9:.2f} GB; {measured['machine']}, load "
        f"{measured['load']} at the start:",
        "",
        "| command | seconds | times ours, 2 workers |",
        "|---|---:|---:|",
    ]
    peers = {name: each for name, each in seconds.items() if name.startswith("nsys")}
    for name, each in seconds.items():
        if name != TWICE:
            lines.append(f"| {name} | {each:.1f} | {each / two:.1f} |")
    named = [each for name, each in peers.items() if name.endswith(NAMED)]
    if len(named) == len(NAMED):
        lines.append(f"| {' and '.join(NAMED)} | {sum(named):.1f} | {sum(named) / two:.1f} |")
    if len(peers) == len(REPORTS) + len(RECIPES):
        lines.append(f"| all of nsys | {sum(peers.values()):.1f} | {sum(peers.values()) / two:.1f} |")
    efficiency, bound = seconds[ONE] / two / 2, seconds[ONE] / seconds[TWICE]
    said = f"The efficiency of 2 workers is {efficiency:.2f}; two runs of 1 worker at once, which share nothing, reach "
    return "\n".join([*lines, "", f"{said}{bound:.2f} here."]) + "\n"
