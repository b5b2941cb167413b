"""Find the line of the program that a call comes from, past torch's own code and ours."""

from __future__ import annotations

import os
import sys
from typing import Any

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep  # noqa: PTH100, PTH120


def find_place(torch: Any) -> str:
    """Return FILE:LINE of the innermost caller that is neither torch nor this folder; empty where there is none."""
    torch_folder = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep  # noqa: PTH100, PTH120
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_OWN, torch_folder, "<")) and not name.endswith("contextlib.py"):
            return f"{os.path.abspath(name)}:{frame.f_lineno}"  # noqa: PTH100
        frame = frame.f_back  # type: ignore[assignment]
    return ""
