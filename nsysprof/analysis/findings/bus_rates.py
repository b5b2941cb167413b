"""Tell how fast pinned copies between host and device are, by the board, where a trace has none."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class BusRate:
    """A rate of pinned copies (bytes/s): what is usual, and the factors of the least and the most."""

    usual: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """Return whether the board says what its bus is."""
        return self is not _UNKNOWN


# What 16 lanes of PCIe 5, 4 and 3 move. A board may be in a slot with half of its lanes, or of an older generation.
# Measured in public traces: T4 11.7 GB/s, V100 12.3, RTX 4060 Ti 13.1, RTX 5070 Ti Laptop 24.7.
_PCIE_5, _PCIE_4, _PCIE_3 = BusRate(50e9, 0.45, 1.1), BusRate(24e9, 0.45, 1.1), BusRate(12e9, 0.5, 1.1)
_UNKNOWN = BusRate(24e9, 0.4, 2.2)
# The first that matches counts. Boards with eight lanes move what 16 lanes of the generation before move.
_BOARDS = (
    (re.compile(r"RTX (PRO )?50\d\d.*Laptop|RTX 5050|RTX 5060"), _PCIE_4),
    (re.compile(r"Laptop|Max-Q|RTX 4060|RTX 3050|RTX A?[12]000\b|RTX 2000 Ada"), _PCIE_3),
    (re.compile(r"\bG[BH]200\b|\bH(100|200|800|20)\b|\bB(100|200|300)\b|RTX PRO|RTX 50"), _PCIE_5),
    (re.compile(r"\bA(2|10|10G|16|30|40|100|800)\b|\bL(2|4|20|40|40S)\b|RTX [34]0|RTX A\d|Ada\b"), _PCIE_4),
    (re.compile(r"Tesla|Quadro|GTX|TITAN|RTX 20|\b[TPVMK]\d{1,4}\b"), _PCIE_3),
)


def bus_rate(board: str) -> BusRate:
    """Return the rate of pinned copies of a board by its name; a wide interval for boards that are not known."""
    return next((rate for pattern, rate in _BOARDS if pattern.search(board)), _UNKNOWN)
