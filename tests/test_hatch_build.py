"""What is compiled at an installation, and what happens where that is not possible."""

import shutil
import sysconfig
import types
from pathlib import Path
from typing import Any

import pytest

from nsysprof.native import load

hatch_build = pytest.importorskip("hatch_build", reason="hatchling is not installed")

ROOT = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path in (ROOT / hatch_build.FOLDER).glob("*.[ch]"):
        shutil.copy(path, tmp_path)
    return tmp_path


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")
def test_the_hook_is_compiled_without_a_warning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "cc -Wall -Wextra -Werror")
    assert hatch_build.compile_fast_calls(folder) == ""
    assert [path.name for path in folder.glob("*.abi3.*")] == [hatch_build.COMPILED]


@pytest.mark.parametrize(
    ("compiler", "says"),
    [("no-such-compiler", "no-such-compiler: No such file"), ("false", "false failed"), ("'cc", "CC: No closing quot")],
)
def test_without_a_compiler_nothing_is_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch, compiler: str, says: str
) -> None:
    (folder / hatch_build.COMPILED).write_bytes(b"of an older source")
    monkeypatch.setenv("CC", compiler)
    assert says in hatch_build.compile_fast_calls(folder)
    assert list(folder.glob("*.abi3.*")) == []


def test_a_python_without_headers_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no compiler")
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(folder)})
    assert "Python.h" in hatch_build.compile_fast_calls(folder)


def test_a_compiler_that_never_ends_is_not_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "sh -c 'exec sleep 60'")
    monkeypatch.setattr(hatch_build, "LONGEST_S", 0.2)
    assert hatch_build.compile_fast_calls(folder) == "sh took more than 0 s"


def test_a_folder_that_cannot_be_written_to_has_no_compiled_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", refuse)
    assert hatch_build.compile_fast_calls(folder).endswith("Read-only file system")


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")
def test_the_loops_are_compiled_without_a_warning_where_they_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / hatch_build.LOOPS.name
    shutil.copy(ROOT / hatch_build.LOOPS, source)
    (tmp_path / load.LIBRARY).write_bytes(b"of an older source")
    monkeypatch.setenv("CC", "cc -Wall -Wextra -Werror")
    assert hatch_build.compile_loops(source) == ""
    assert [path.name for path in tmp_path.glob("*.so*")] == [load.LIBRARY]
    monkeypatch.setattr(load, "__file__", str(tmp_path / "load.py"))
    library = load._library.__wrapped__()
    assert all(hasattr(library, name) for name in load.FUNCTIONS)


def test_without_a_compiler_no_loops_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / hatch_build.LOOPS.name
    shutil.copy(ROOT / hatch_build.LOOPS, source)
    monkeypatch.setenv("CC", "false")
    assert hatch_build.compile_loops(source) == "false failed"
    assert list(tmp_path.glob("*.so*")) == []


@pytest.mark.parametrize(("version", "has_pages"), [("standard", True), ("editable", False)])
def test_a_wheel_holds_the_pages_that_help_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, has_pages: bool
) -> None:
    from nsysprof.app import help as use_case

    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "causes.md"
    page.write_text("# Why\n")
    monkeypatch.setattr(hatch_build, "compile_fast_calls", lambda _folder: "no compiler")
    monkeypatch.setattr(hatch_build, "compile_loops", lambda _source: "no compiler")
    app = types.SimpleNamespace(display_warning=lambda _text: None)
    hook = hatch_build.CompileCode(str(tmp_path), {}, None, None, str(tmp_path), "wheel", app)
    build_data: dict[str, Any] = {"artifacts": [], "force_include": {}}
    hook.initialize(version, build_data)
    place = Path(use_case.__file__).parent.relative_to(ROOT) / "pages"
    assert build_data["force_include"] == ({str(page): f"{place.as_posix()}/causes.md"} if has_pages else {})
