import json
import subprocess
import sys

import pytest

from nsysprof.attention.mask import PLUGINS
from nsysprof.attention.shape import expand_grid, known_backends, registered_backends
from nsysprof.errors import UsageError
from tests.builders.registering import our_backends, register


def test_a_registered_name_is_a_backend_and_is_named_when_another_is_unknown(tmp_path, monkeypatch):
    register(monkeypatch, tmp_path, {"mine": "no_such_package.kernels:attention"})
    assert [case.backend for case in expand_grid(["mine"], [8])] == ["mine"], "no import of the package is needed"
    with pytest.raises(UsageError) as caught:
        expand_grid(["mime"], [8])
    assert "mine" in caught.value.next_step
    assert "module:function" in caught.value.next_step


def test_a_package_can_neither_replace_a_backend_nor_register_what_a_range_name_cannot_carry(tmp_path, monkeypatch):
    register(monkeypatch, tmp_path, {"math": "a:b", "bad-name": "a:b", "x<y>": "a:b", "good": "a:b"})
    assert known_backends().count("math") == 1
    assert "good" in registered_backends()
    assert not {"bad-name", "x<y>"} & set(known_backends())


def test_the_first_package_on_the_path_wins(tmp_path, monkeypatch):
    register(monkeypatch, tmp_path / "later", {"mine": "later:attention"})
    register(monkeypatch, tmp_path / "first", {"mine": "first:attention"})
    assert registered_backends()["mine"].module == "first"


def test_ours_are_registered_in_pyproject_and_exist():
    assert set(our_backends()) == set(PLUGINS)
    pytest.importorskip("torch", reason="needs the extra [torch]")
    from nsysprof.workload import other_libraries

    for value in our_backends().values():
        module, _, name = value.partition(":")
        assert module == other_libraries.__name__
        assert callable(getattr(other_libraries, name))


def test_reading_the_names_imports_no_package(tmp_path, monkeypatch):
    (tmp_path / "loud.py").write_text("raise SystemExit('imported')")
    register(monkeypatch, tmp_path, {"mine": "loud:attention"})
    code = (
        "import json, sys\nfrom nsysprof.attention.shape import known_backends\nnames = known_backends()\n"
        "print(json.dumps([names, 'torch' in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, torch_loaded = json.loads(done.stdout)
    assert "mine" in names and not torch_loaded
