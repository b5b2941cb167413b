"""What a function depends on: everything it uses by name, without comments, docstrings and white space."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

from scripts import called_sources
from scripts.called_sources import changed, digest_sources

CODE = '''
LIMIT = 3.0
UNUSED = 1
NAMES = {"b", "a"}

class Judge:
    """Judge."""
    def verdict(self):
        return LIMIT

def used():
    """Return a judge."""
    return Judge()  # a new one

def unused():
    return UNUSED

def root(judged=1):
    unused = judged
    return used().verdict(), f"{len(NAMES)} names"
'''


@pytest.fixture(autouse=True)
def in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(called_sources, "ROOT", tmp_path.resolve())


def digests(folder: Path, code: str, name: str) -> dict[str, str]:
    """Return the digests of `root` in a module with this code, by names within the module."""
    path = folder / f"{name}.py"
    path.write_text(code, encoding="utf-8")
    loader = SourceFileLoader(name, str(path))
    spec = spec_from_loader(name, loader)
    assert spec
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
        return {key.partition(":")[2]: value for key, value in digest_sources(module.root).items()}
    finally:
        del sys.modules[name]


def test_what_is_used_counts_and_nothing_else(tmp_path: Path) -> None:
    assert set(digests(tmp_path, CODE, "first")) == {"Judge", "LIMIT", "NAMES", "root", "used"}


@pytest.mark.parametrize(
    ("old", "new", "differs"),
    [
        ("LIMIT = 3.0", "LIMIT = 4.0", ["LIMIT"]),
        ('{"b", "a"}', '{"a", "b"}', []),
        ("return LIMIT", "return  LIMIT  # as asked", []),
        ('"""Judge."""', '"""Judge whatever there is."""', []),
        ("return LIMIT", "return -LIMIT", ["Judge"]),
        ("return UNUSED", "return 2", []),
        ("Judge()", "list()", ["Judge", "LIMIT", "used"]),
        (" names", " NAMES", ["root"]),
    ],
)
def test_a_change_is_told_where_it_may_change_a_result(tmp_path: Path, old: str, new: str, differs: list[str]) -> None:
    assert old in CODE
    before, after = digests(tmp_path, CODE, "before"), digests(tmp_path, CODE.replace(old, new), "after")
    assert changed(before, after) == differs
