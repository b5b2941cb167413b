"""Stands for installed packages that register backends: metadata on sys.path, for this process and its children."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


def register(monkeypatch: pytest.MonkeyPatch, folder: Path, backends: dict[str, str]) -> None:
    """Make `backends` (name -> module:function) entry points of a package that lies in `folder`."""
    metadata = folder / "registering-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: registering\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in backends.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[nsysprof.backends]", *lines, ""]))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)


def our_backends() -> dict[str, str]:
    """Return what pyproject.toml registers, whether or not this checkout is what is installed."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: dict[str, str] = project["entry-points"]["nsysprof.backends"]
    return found
