"""Read the tables of a study, and write Markdown tables."""

from __future__ import annotations

import contextlib
import lzma
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
ANALYSIS, TRACES = ROOT / "analysis", ROOT / "traces"


def markdown(head: Sequence[str], align: str, rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table. align: one letter a column, `l` or `r`."""
    rule = "|".join({"l": "---", "r": "--:"}[each] for each in align)
    lines = [f"| {' | '.join(head)} |", f"|{rule}|"]
    return "\n".join(lines + [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows])


def template(study: str) -> str:
    """Return the page of a study with placeholders for its numbers."""
    return (ROOT / "scripts/studies" / f"{study}.md").read_text(encoding="utf-8")


@contextlib.contextmanager
def unpacked(trace: Path) -> Iterator[Path]:
    """Give a packed trace as a SQLite file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.sqlite"
        path.write_bytes(lzma.decompress(trace.read_bytes()))
        yield path


def read_cases(path: Path) -> pd.DataFrame:
    """Return a results.csv, with the case (`math, S=1024, fwd`) as `label` and numbers of one call."""
    table = pd.read_csv(path)
    table["label"] = [f"{row.backend}, S={row.seq}, {row['pass']}" for _, row in table.iterrows()]
    if "traced_calls" in table:
        table["kernel_ns"] = table["kernel_total_ns"] / table["traced_calls"]
        table["launches"] = table["launch_count"] / table["traced_calls"]
    return table


def one(table: pd.DataFrame, **wanted: Any) -> Any:
    """Return the only row with these values. `pass` is written `pass_`."""
    for column, value in wanted.items():
        table = table[table[column.rstrip("_")] == value]
    if len(table) != 1:
        raise ValueError(f"{len(table)} rows have {wanted}")
    return table.iloc[0]


def span(values: Iterable[float], digits: int) -> str:
    """Return the least and the largest value: `1.08 to 1.10`."""
    found = sorted(values)
    return f"{found[0]:.{digits}f} to {found[-1]:.{digits}f}"


def machine(environment: dict[str, Any]) -> dict[str, str]:
    """Return GPU, driver, CUDA, torch and cuDNN of a measurement, as people write them."""
    return {
        "gpu": environment["gpu_name"],
        "driver": environment["driver_version"],
        "cuda": environment["cuda_version"],
        "torch": environment["torch_version"].partition("+")[0],
        "cudnn": environment["cudnn_loaded_version"],
    }
