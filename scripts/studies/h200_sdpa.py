"""Fill the study of attention backends on an H200, beside a published table of an RTX 4060 Ti."""

from __future__ import annotations

import json

import pandas as pd

from nsysprof.units import format_bytes
from scripts.studies.tables import ANALYSIS, TRACES, machine, markdown, one, read_cases

FOLDER = ANALYSIS / "h200-sdpa"
_CATEGORIES = {"gemm": "matrix products", "elementwise": "elementwise kernels", "softmax": "softmax",
               "copy": "copies", "reduction": "reductions", "fill": "fills"}  # fmt: skip


def facts() -> dict[str, str]:
    """Return the numbers of the page."""
    table = read_cases(FOLDER / "results.csv").sort_values("seq", kind="stable")
    manifest = json.loads((TRACES / "h200-sdpa/manifest.json").read_text(encoding="utf-8"))
    during = manifest["environment"]["clocks"]["during"]
    math, flash, cudnn = (one(table, backend=name, seq=4096) for name in ("math", "flash", "cudnn"))
    half = one(table, backend="math", seq=2048)
    short = {name: one(table, backend=name, seq=1024) for name in ("cudnn", "auto", "flash")}
    old = pd.read_csv(FOLDER / "rtx4060ti.csv")
    return {
        **machine(manifest["environment"]),
        "nsys": manifest["environment"]["nsys_version"].removesuffix(".0"),
        "clock": " to ".join(str(each) for each in sorted({during["sm_clock_mhz_min"], during["sm_clock_mhz_max"]})),
        "readings": str(during["samples"]),
        "samples": str(table["samples"].iloc[0]),
        "cases": _cases(table),
        "compared": _compared(table, old),
        "math_launches": f"{math.launches:.0f}",
        "flash_short_launches": f"{short['flash'].launches:.0f}",
        "math_kernels_ms": f"{math.kernel_ns / 1e6:.3f}",
        "math_parts": _parts(math.traced_calls),
        "math_beyond": format_bytes(math.peak_beyond_inputs_bytes),
        "math_growth": f"{math.peak_beyond_inputs_bytes / half.peak_beyond_inputs_bytes:.1f}",
        "flash_beyond": format_bytes(flash.peak_beyond_inputs_bytes),
        "math_faster": f"{one(old, backend='math', seq=4096).latency_ms * 1e6 / math.latency_median_ns:.1f}",
        "flash_faster": f"{one(old, backend='flash', seq=4096).latency_ms * 1e6 / flash.latency_median_ns:.1f}",
        "cudnn_kernel_ms": f"{cudnn.kernel_ns / 1e6:.4f}",
        "flash_kernel_ms": f"{flash.kernel_ns / 1e6:.4f}",
        "cudnn_short_kernel_ms": f"{short['cudnn'].kernel_ns / 1e6:.4f}",
        "cudnn_short_ms": f"{short['cudnn'].latency_median_ns / 1e6:.4f}",
        "auto_short_ms": f"{short['auto'].latency_median_ns / 1e6:.4f}",
        "auto_short_kernel_ms": f"{short['auto'].kernel_ns / 1e6:.4f}",
    }


def _cases(table: pd.DataFrame) -> str:
    rows = [
        (
            row.seq,
            row.backend,
            " ".join(
                (
                    f"{row.latency_median_ns / 1e6:.4f}",
                    f"[{row.latency_ci_low_ns / 1e6:.4f}, {row.latency_ci_high_ns / 1e6:.4f}]",
                )
            ),
            f"{row.peak_allocated_bytes / 2**20:.1f}",
            f"{row.launches:.0f}",
            f"{row.kernel_ns / 1e6:.4f}",
        )
        for row in table.itertuples()
    ]
    head = ("S", "backend", "latency (ms)", "peak VRAM (MiB)", "launches a call", "kernel time a call (ms)")
    return markdown(head, "rlrrrr", rows)


def _compared(table: pd.DataFrame, old: pd.DataFrame) -> str:
    rows = []
    for seq in sorted(old["seq"].unique()):
        math, flash = one(table, backend="math", seq=seq), one(table, backend="flash", seq=seq)
        then, now = one(old, backend="math", seq=seq), one(old, backend="flash", seq=seq)
        rows.append((
            seq,
            f"{math.latency_median_ns / flash.latency_median_ns:.1f}",
            f"{then.latency_ms / now.latency_ms:.1f}",
            f"{math.peak_allocated_bytes / flash.peak_allocated_bytes:.1f}",
            f"{then.peak_vram_mb / now.peak_vram_mb:.1f}",
        ))  # fmt: skip
    head = ("S", "latency, H200", "latency, RTX 4060 Ti", "VRAM, H200", "VRAM, RTX 4060 Ti")
    return markdown(head, "rrrrr", rows)


def _parts(calls: int) -> str:
    """Return what one call of math at S=4096 spends in which kind of kernel."""
    kernels = pd.read_csv(FOLDER / "range_kernels.csv.xz")
    own = kernels[(kernels["range"] == "RUN::math::S4096") & (kernels["style"] == "StartEnd")]
    times = own.groupby("category")["total_ns"].sum().sort_values(ascending=False) / calls / 1e6
    return ", ".join(f"{_CATEGORIES[str(name)]} {value:.3f} ms" for name, value in times.items())
