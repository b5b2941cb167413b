#!/usr/bin/env python3
"""Measure decode and prefill of five public models over every backend that runs here, for analysis/h200-serving.

    scripts/measure_serving.py --out DIR                    on a GPU with torch; about six minutes
    scripts/measure_serving.py --out DIR --quick --device cpu   a tiny run that tries the script

It writes results.csv (a row per case of the bench), hand.csv (the medians of a loop of CUDA events that is written by
hand and imports nothing of nsysprof) and environment.json. The shapes are those of one layer, from the models' public
configurations. A backend whose library is missing is a row with its reason.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

# model: heads, kv_heads, head_dim and what else its attention has; MLA decodes with 576 numbers for all heads at once.
MODELS: dict[str, dict[str, dict[str, Any]]] = {
    "Llama 3.1 8B": {"decode": {"heads": 32, "kv_heads": 8, "head_dim": 128}},
    "Qwen3 32B": {"decode": {"heads": 64, "kv_heads": 8, "head_dim": 128}},
    "Gemma 3 27B, local": {"decode": {"heads": 32, "kv_heads": 16, "head_dim": 128, "left": 1023}},
    "gpt-oss 20B, local": {"decode": {"heads": 64, "kv_heads": 8, "head_dim": 64, "left": 127, "sinks": True}},
    "DeepSeek-V3": {
        "decode": {"heads": 128, "kv_heads": 1, "head_dim": 576, "head_dim_v": 512},
        "prefill": {"heads": 128, "kv_heads": 128, "head_dim": 192, "head_dim_v": 128},
    },
}
# name: sequences, queries and keys of each.
PHASES = {"decode": (32, 1, 4096), "prefill": (1, 4096, 4096), "chunk": (1, 1024, 8192)}
_CHUNKED = ("Llama 3.1 8B",)
BACKENDS = (
    "auto",
    "math",
    "flash",
    "efficient",
    "cudnn",
    "naive",
    "varlen",
    "flash3",
    "flash4",
    "flashinfer",
    "sage",
    "te",
)
# Compiled anew for each shape in each process, so measured by itself with fewer rounds.
COMPILED = ("auto", "flex")
HAND = ("flash", "efficient", "cudnn", "math")
HAND_PROCESSES, HAND_SAMPLES = 3, 60
_COLUMNS = (
    "model", "phase", "backend", "status", "reason", "verdict", "rank", "median_ns", "low_ns", "high_ns",
    "against_best", "against_best_low", "against_best_high", "warm_ns", "graph_median_ns", "launch_share",
    "largest_error", "approximate", "flops", "least_bytes", "bytes_per_s", "measured_flops_pct", "measured_bytes_pct",
    "peak_bytes", "samples", "processes",
)  # fmt: skip


def shapes(*, is_quick: bool) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the fields of the shape of each model and phase."""
    found = {}
    for model, own in MODELS.items():
        for phase, sizes in PHASES.items():
            if phase == "chunk" and model not in _CHUNKED:
                continue
            fields = dict(own.get(phase, own["decode"]))
            left = fields.pop("left", None)
            batch, queries, keys = sizes if not is_quick else (min(sizes[0], 2), min(sizes[1], 64), 128)
            keys = queries if sizes[1] == sizes[2] else keys
            if is_quick:
                fields |= {"heads": fields["heads"] // 16, "kv_heads": max(1, fields["kv_heads"] // 16)}
                left = None if left is None else 16
            after = "all" if queries == 1 else "0"
            is_square = queries == keys and left is None
            window = f"window:{'all' if left is None else left}:{after}"
            mask = "none" if is_square or window == "window:all:all" else window
            found[model, phase] = fields | {
                "batch": batch, "seq": queries, "kv_seq": keys, "mask": mask, "causal": is_square,
                "dtype": "fp32" if is_quick else "bf16",
            }  # fmt: skip
    return found


def measure(out: Path, options: argparse.Namespace, backends: tuple[str, ...], rounds: int) -> list[dict[str, Any]]:
    """Return the rows of a bench of all shapes, with their model and phase. environment.json is written beside them."""
    from nsysprof.app.measuring.bench import summarize
    from nsysprof.attention.backend_limits import why_refused
    from nsysprof.attention.shape import Case
    from nsysprof.capture.sampling.bench import prepare_bench_folder, run_bench
    from nsysprof.capture.sampling.bench_run import BenchPlan, new_run

    cells = {
        Case(backend, **fields): key
        for key, fields in shapes(is_quick=options.quick).items()
        for backend in backends
        if not why_refused(backend, Case(backend, **fields))
    }
    folder = out / f"bench-{'-'.join(backends[:2])}"
    folder.mkdir(parents=True, exist_ok=True)
    prepare_bench_folder(folder)
    plan = BenchPlan(
        cases=tuple(cells), device=options.device, processes=2 if options.quick else 3, rounds=rounds, samples=10,
        sample_seconds=0.05, warmup_seconds=0.1, seed=1, graph="never", case_timeout_s=60,
        allow_error=0.0,
    )  # fmt: skip
    run = new_run(plan)
    began = time.monotonic()

    told: set[int] = set()

    def tell(_run: Any, left: int, _cell: int | None) -> None:
        if left // 50 not in told:
            told.add(left // 50)
            print(f"{left} blocks left after {time.monotonic() - began:.0f} s", flush=True)

    run_bench(run, folder, tell)
    (out / "environment.json").write_text(json.dumps(run.environment, indent=1, default=str) + "\n", encoding="utf-8")
    results = summarize(run)
    for note in results.notes:
        print(note.text)
    rows = results.table.to_dict("records")
    for row, key in zip(rows, cells.values(), strict=True):
        row["model"], row["phase"] = key
    return rows


def by_hand(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the medians of torch's backends, timed by a loop that is written by hand, in fresh processes."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for _ in range(1 if options.quick else HAND_PROCESSES):
        command = [sys.executable, __file__, "--hand", "--out", str(options.out), "--device", options.device]
        done = subprocess.run(
            command + (["--quick"] if options.quick else []), capture_output=True, text=True, check=False, timeout=120
        )
        if done.returncode:
            print(done.stderr[-2000:], file=sys.stderr)
            continue
        for line in done.stdout.splitlines():
            model, phase, backend, median = json.loads(line)
            found.setdefault((model, phase, backend), []).append(median)
    return [
        {"model": model, "phase": phase, "backend": backend, "median_ns": round(statistics.geometric_mean(medians), 1),
         "processes": len(medians)}
        for (model, phase, backend), medians in found.items()
    ]  # fmt: skip


def run_by_hand(options: argparse.Namespace) -> None:
    """Time torch's backends with CUDA events alone, and print a JSON line for each. Nothing of nsysprof is imported."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    device = options.device
    kinds = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
             "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH}  # fmt: skip
    size = 4 * torch.cuda.get_device_properties(0).L2_cache_size if device == "cuda" else 1 << 20
    flush = torch.empty(size, dtype=torch.int8, device=device)
    for (model, phase), shape in shapes(is_quick=options.quick).items():
        if shape.get("sinks"):
            continue
        call = call_of(shape, device)
        for name in HAND:
            try:
                with sdpa_kernel(kinds[name]), torch.no_grad():
                    times = time_by_events(call, flush) if device == "cuda" else time_by_clock(call)
            except RuntimeError:  # this backend does not take the shape, or its scores do not fit the memory
                continue
            print(json.dumps([model, phase, name, statistics.median(times)]), flush=True)
        del call


def call_of(shape: dict[str, Any], device: str) -> Any:
    """Return a call of torch's attention on random inputs of a shape."""
    import torch
    import torch.nn.functional as F

    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[shape["dtype"]]
    heads, groups, size = shape["heads"], shape["kv_heads"], shape["head_dim"]
    sizes = ((heads, shape["seq"], size), (groups, shape["kv_seq"], size),
             (groups, shape["kv_seq"], shape.get("head_dim_v", size)))  # fmt: skip
    q, k, v = (torch.randn(shape["batch"], *own, device=device, dtype=dtype) for own in sizes)
    mask = None
    if shape["mask"] != "none":
        left, after = shape["mask"].split(":")[1:]
        place = torch.arange(shape["kv_seq"] - shape["seq"], shape["kv_seq"], device=device)[:, None]
        key = torch.arange(shape["kv_seq"], device=device)
        mask = torch.ones(shape["seq"], shape["kv_seq"], dtype=torch.bool, device=device)
        mask = mask if left == "all" else mask & (key >= place - int(left))
        mask = (mask if after == "all" else mask & (key <= place + int(after)))[None, None]
    causal, grouped = shape["causal"], heads != groups
    return lambda: F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=grouped)


def time_by_events(call: Any, flush: Any) -> list[float]:
    """Return the times of single calls between two CUDA events, each after the caches were emptied (ns)."""
    import torch

    for _ in range(20):
        call()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(HAND_SAMPLES)]
    for start, end in events:
        flush.zero_()
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) * 1e6 for start, end in events][1:]


def time_by_clock(call: Any) -> list[float]:
    """Return the times of single calls on the CPU (ns)."""
    times = []
    for _ in range(7):
        began = time.perf_counter_ns()
        call()
        times.append(float(time.perf_counter_ns() - began))
    return times


def write_rows(path: Path, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    """Write rows as CSV with few digits; unknown is empty."""

    def cell(value: Any) -> Any:
        if value is None or value != value:  # noqa: PLR0124 - NaN
            return ""
        return f"{value:.6g}" if isinstance(value, float) else value

    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([cell(row.get(name)) for name in columns] for row in rows)


def main() -> int:
    """Measure, write the files, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="where results.csv, hand.csv and environment.json go")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--quick", action="store_true", help="tiny shapes and few samples")
    parser.add_argument(
        "--parts", default="hand,bench,flex", help="what to measure: hand, bench, and flex, which mostly compiles"
    )
    parser.add_argument("--hand", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.hand:
        run_by_hand(options)
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    parts, few = options.parts.split(","), options.quick
    if "hand" in parts:
        write_rows(options.out / "hand.csv", by_hand(options), ("model", "phase", "backend", "median_ns", "processes"))
    if "bench" in parts:
        write_rows(options.out / "results.csv", measure(options.out, options, BACKENDS, 1 if few else 2), _COLUMNS)
    if "flex" in parts:  # with torch's own choice beside it, so that the ratio to it is from the same processes
        write_rows(options.out / "flex.csv", measure(options.out, options, COMPILED, 1), _COLUMNS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
