"""Judge which ranks are far from the others in what they do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nsysprof.analysis.sampling.student_t import t_isf
from nsysprof.analysis.stragglers.late_ranks import typical
from nsysprof.results.rank_results import OUTLIER_ALPHA, OUTLIER_PCT, OUTLIER_RANKS, RankRow
from nsysprof.trace.schema import Floats

# The quantities in which ranks are compared with each other, and their names in reports.
_COMPARED = {
    "compute_ns": "compute", "exposed_comm_ns": "exposed communication", "idle_ns": "idle", "api_total_ns": "API calls",
    "memcpy_bytes": "copied", "peak_vram_bytes": "peak VRAM", "kernel_count": "kernels",
}  # fmt: skip


def find_outliers(rows: Sequence[RankRow]) -> dict[int, str]:
    """Return the ranks that are far from the others, each with the quantities in which it is.

    Each quantity is tested by the generalized extreme studentized deviate test (Rosner 1983), with the error shared
    among the quantities, and the difference must also be large enough to matter. Fewer than five ranks have no usual
    value, so none of them is judged.
    """
    found: dict[int, list[str]] = {}
    for name, title in _COMPARED.items():
        known = {
            row.rank: getattr(row, name) for row in rows if row.rank is not None and getattr(row, name) is not None
        }
        if len(known) < OUTLIER_RANKS:
            continue
        values = np.array(list(known.values()), dtype=float)
        middle = typical(values.tolist())
        for number in _deviant(values, OUTLIER_ALPHA / len(_COMPARED)):
            apart = values[number] - middle
            if middle > 0 and abs(apart) > OUTLIER_PCT / 100 * middle:
                found.setdefault(list(known)[number], []).append(f"{title} {100 * apart / middle:+.0f} %")
    return {rank: ", ".join(texts) for rank, texts in found.items()}


def _deviant(values: Floats, alpha: float) -> list[int]:
    """Return the positions of the outliers among normal values, at most a quarter of them, by Rosner's test."""
    left, removed, count = np.arange(len(values)), [], 0
    for step in range(1, max(1, len(values) // 4) + 1):
        spread = values[left].std(ddof=1)
        if spread == 0:
            break
        deviation = np.abs(values[left] - values[left].mean()) / spread
        worst = int(deviation.argmax())
        n = len(left)
        t = t_isf(alpha / (2 * n), n - 2)
        removed.append(int(left[worst]))
        if deviation[worst] > (n - 1) * t / np.sqrt((n - 2 + t**2) * n):
            count = step
        left = np.delete(left, worst)
    return sorted(removed[:count])
