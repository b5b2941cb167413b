import stat
import sys

import pytest

from nsysprof.capture import find_nsys as module
from nsysprof.capture.find_nsys import find_nsys, nsys_version
from nsysprof.errors import MissingToolError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="makes shell scripts")


def program(path, text="#!/bin/sh\necho 'NVIDIA Nsight Systems version 2025.3.1.90-x'\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    for variable in ("NSYSPROF_NSYS", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


def test_named_wins_over_variable_over_path_over_cuda_home(monkeypatch, tmp_path):
    cuda = program(tmp_path / "cuda" / "bin" / "nsys")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert find_nsys() == cuda
    on_path = program(tmp_path / "path" / "nsys")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert find_nsys() == on_path
    variable = program(tmp_path / "variable" / "nsys")
    monkeypatch.setenv("NSYSPROF_NSYS", str(variable))
    assert find_nsys() == variable
    named = program(tmp_path / "named" / "nsys")
    assert find_nsys(named) == named
    assert find_nsys(named.parent) == named, "a folder will do"


def test_a_named_nsys_that_is_not_there_is_an_error_and_not_passed_over(monkeypatch, tmp_path):
    with pytest.raises(MissingToolError, match="--nsys names"):
        find_nsys(tmp_path / "nothing")
    monkeypatch.setenv("NSYSPROF_NSYS", str(tmp_path / "nothing"))
    with pytest.raises(MissingToolError, match="NSYSPROF_NSYS names"):
        find_nsys()


def test_the_newest_installed_version_wins(tmp_path):
    for version in ("2023.4.4", "2025.3.1", "2024.10.2"):
        program(tmp_path / version / "bin" / "nsys")
    found = module._newest(tmp_path, "*/bin/nsys")
    assert [path.parts[-3] for path in found] == ["2025.3.1", "2024.10.2", "2023.4.4"]


def test_version_as_nsys_prints_it(tmp_path):
    assert nsys_version(program(tmp_path / "nsys")) == "2025.3.1.90-x"
    assert nsys_version(tmp_path / "nothing") is None
    assert nsys_version(program(tmp_path / "odd", "#!/bin/sh\necho hello\n")) is None
