"""Define CapturedAttention: which attention a program ran, and what each use of it cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class CapturedUse:
    """Calls of one shape in one pass, from one line of a program, that ran on one backend."""

    # The columns of attention.csv; None where unknown.
    row: dict[str, Any]

    @property
    def calls(self) -> int:
        return int(self.row["calls"])

    @property
    def kernel_total_ns(self) -> int | None:
        found = self.row["kernel_total_ns"]
        return None if found is None else int(found)

    @property
    def share_pct(self) -> float | None:
        found = self.row["share_pct"]
        return None if found is None else float(found)


@dataclass(frozen=True)
class CapturedAttention:
    """What a program ran."""

    uses: tuple[CapturedUse, ...]
    # The GPU of the capture; None for none, or unknown.
    gpu_name: str | None
    # The steps of the recorded part; None where they are not known.
    steps: int | None

    @property
    def share_pct(self) -> float | None:
        """Return the share of attention in the time of all kernels; None where the kernels are unknown."""
        shares = [use.share_pct for use in self.uses if use.share_pct is not None]
        return sum(shares) if shares else None


def known_cells(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of attention.csv with None where a cell is unknown."""
    return [{str(name): _known(cell) for name, cell in row.items()} for row in table.to_dict("records")]


def _known(cell: Any) -> Any:
    import pandas as pd

    return None if pd.isna(cell) or cell == "" else cell
