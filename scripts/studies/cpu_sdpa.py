"""Fill the study of a capture without a GPU."""

from __future__ import annotations

from nsysprof.units import format_bytes, format_interval_ns, format_ns, format_ratio
from scripts.studies.tables import ANALYSIS, markdown, one, read_cases


def facts() -> dict[str, str]:
    """Return the numbers of the page."""
    table = read_cases(ANALYSIS / "cpu-sdpa/results.csv")
    flash, math = one(table, backend="flash", seq=1024), one(table, backend="math", seq=1024)
    long_flash, long_math = one(table, backend="flash", seq=4096), one(table, backend="math", seq=4096)
    rows = [
        (
            f"{row.backend}, S={row.seq}",
            format_interval_ns(row.latency_median_ns, row.latency_ci_low_ns, row.latency_ci_high_ns),
            row.samples,
            f"{row.launches:.0f}",
            format_ns(row.kernel_ns),
            format_bytes(row.trace_peak_vram_bytes),
        )
        for row in table.itertuples()
    ]
    head = ("case", "untraced latency [95 % of this process]", "samples", "operators", "operator time", "peak memory")
    return {
        "cases": markdown(head, "lrrrrr", rows),
        "dtype": table["dtype"].iloc[0],
        "flash_operator": format_ns(flash.kernel_ns),
        "flash_latency": format_ns(flash.latency_median_ns),
        "math_operators": f"{math.launches:.0f}",
        "math_memory": format_bytes(long_math.trace_peak_vram_bytes),
        "flash_memory": format_bytes(long_flash.trace_peak_vram_bytes),
        "math_traced": format_ratio(math.kernel_ns / math.latency_median_ns),
    }
