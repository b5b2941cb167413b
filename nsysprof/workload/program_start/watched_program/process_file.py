"""Write what was recorded of a process, whole or not at all. It needs only the standard library."""

from __future__ import annotations

import json
import os
from typing import Any


def process_path(folder: str, ending: str = ".json") -> str:
    """Return the path of the file of this process."""
    return os.path.join(folder, f"{os.getpid()}{ending}")  # noqa: PTH118


def write_json(path: str, content: dict[str, Any]) -> None:
    """Write a file in one step."""
    with open(f"{path}.part", "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(content, file, separators=(",", ":"))
    os.replace(f"{path}.part", path)  # noqa: PTH105
