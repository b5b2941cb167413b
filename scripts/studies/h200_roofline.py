"""Fill the study of what attention moves on an H200, and what limits it."""

from __future__ import annotations

import json

import pandas as pd

from nsysprof.attention.shape import Case
from nsysprof.units import format_bytes, format_ns, format_rate
from scripts.expect_traffic import L2_BYTES, expected_bytes
from scripts.studies.tables import ANALYSIS, TRACES, machine, markdown, read_cases, span

FUSED = ("flash", "efficient", "cudnn")


def facts() -> dict[str, str]:
    """Return the numbers of the page."""
    table = read_cases(ANALYSIS / "h200-roofline/results.csv")
    manifest = json.loads((TRACES / "h200-roofline/manifest.json").read_text(encoding="utf-8"))
    ceilings, clocks = manifest["environment"]["ceilings"], manifest["environment"]["clocks"]
    table["least_ratio"] = table["dram_bytes"] / table["least_bytes"]
    forward = table[table["pass"] == "fwd"]
    long = forward[forward["seq"] >= 4096]
    least = {name: long[long["backend"] == name]["least_ratio"] for name in FUSED}
    math = forward[forward["backend"] == "math"].set_index("seq")
    steps = {step["name"]: step["duration_ns"] for step in manifest["steps"]}
    held = _against_formula(table)
    agreeing = [ratio for _, ratio, is_held in held if is_held]
    return {
        **machine(manifest["environment"]),
        "nsys": manifest["environment"]["nsys_version"].removesuffix(".0"),
        "ncu": manifest["environment"]["ncu_version"].removesuffix(".0"),
        "whole_s": f"{sum(steps.values()) / 1e9:.0f}",
        "counted_s": f"{(steps['traffic'] + steps['detail']) / 1e9:.0f}",
        "cases": str(len(table)),
        "throttled": ", ".join(clocks["during"]["throttle_reasons"]),
        "least_512": f"{math.loc[512, 'least_ratio']:.1f}",
        "least_8192": f"{math.loc[8192, 'least_ratio']:.0f}",
        "math_bytes": format_bytes(math.loc[8192, "dram_bytes"]),
        "math_least": format_bytes(math.loc[8192, "least_bytes"]),
        **{f"least_{name}": span(values, 3) for name, values in least.items()},
        "held": str(len(agreeing)),
        "within_10": str(sum(abs(ratio - 1) <= 0.1 for ratio in agreeing)),
        "within_5": str(sum(abs(ratio - 1) <= 0.05 for ratio in agreeing)),
        "formula": _formula_table(table, held),
        **_sampled(table),
        "limits": _limits(table),
        "matrix": format_rate(ceilings["flops"]["fp16"], "FLOP/s"),
        "copy": format_rate(ceilings["bytes_per_s"], "B/s"),
        "ridge": f"{ceilings['flops']['fp16'] / ceilings['bytes_per_s']:.0f}",
        "above_roof": str(int(table["above_roof"].astype(bool).sum())),
    }


def _against_formula(table: pd.DataFrame) -> list[tuple[str, float, bool]]:
    """Return for each case what the formula expects, and whether counted bytes must agree with it."""
    found = []
    for row in table.to_dict("records"):
        fields = {key: row[key] for key in ("backend", "seq", "batch", "heads", "head_dim", "dtype", "causal")}
        expected, between = expected_bytes(Case(**fields, pass_=row["pass"]), L2_BYTES)
        counted = row["counted_read_bytes"] + row["counted_write_bytes"]
        found.append((format_bytes(expected), counted / expected, between > L2_BYTES))
    return found


def _formula_table(table: pd.DataFrame, held: list[tuple[str, float, bool]]) -> str:
    rows = [
        (row.label, expected, format_bytes(row.counted_read_bytes + row.counted_write_bytes), f"{ratio:.3f}")
        for row, (expected, ratio, is_held) in zip(table.itertuples(), held, strict=True)
        if is_held
    ]
    return markdown(("case", "expected", "counted", "counted / expected"), "lrrr", rows)


def _sampled(table: pd.DataFrame) -> dict[str, str]:
    """Return how counted and sampled bytes agree, both of one call."""
    sampled = (table["sampled_read_bytes"] + table["sampled_write_bytes"]) / table["traced_calls"]
    bound = (table["sampled_read_error_bytes"] + table["sampled_write_error_bytes"]) / table["traced_calls"]
    counted = table["counted_read_bytes"] + table["counted_write_bytes"]
    apart = (sampled - counted).abs() > bound
    over = (sampled - counted)[apart] - bound[apart]
    math = table.index[(table["backend"] == "math") & (table["seq"] == 8192) & (table["pass"] == "fwd")][0]
    return {
        "sampled_agree": str(int((~apart).sum())),
        "sampled_apart": str(int(apart.sum())),
        "apart_least": format_bytes(over.min()),
        "apart_most": format_bytes(over.max()),
        "apart_counted": format_bytes(counted[apart].max()),
        "math_counted": format_bytes(counted[math]),
        "math_sampled": f"{format_bytes(sampled[math])} ± {format_bytes(bound[math])}",
    }


def _limits(table: pd.DataFrame) -> str:
    """Return what the report says of each case."""
    rows = [
        (row.label, row.limiter, f"{row.tensor_pct:.0f} %", f"{row.occupancy_pct:.0f} %", format_ns(row.kernel_ns),
         format_ns(row.latency_median_ns))
        for row in table.itertuples()
    ]  # fmt: skip
    head = ("case", "limited by", "tensor pipe active", "occupancy", "kernel time", "latency")
    return markdown(head, "llrrrr", rows)
