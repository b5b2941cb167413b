import stat
import sys

import pytest

from nsysprof.errors import MissingToolError
from nsysprof.nsight import run_tool as module
from nsysprof.nsight.run_tool import NCU, NSYS, find_tool, tool_version

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="makes shell scripts")


def program(path, text="#!/bin/sh\necho 'NVIDIA Nsight Systems version 2025.3.1.90-x'\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    for variable in ("NSYSPROF_NSYS", "NSYSPROF_NCU", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


@pytest.mark.parametrize("tool", [NSYS, NCU], ids=lambda tool: tool.name)
def test_named_wins_over_variable_over_path_over_cuda_home(monkeypatch, tmp_path, tool):
    cuda = program(tmp_path / "cuda" / "bin" / tool.name)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert find_tool(tool) == cuda
    on_path = program(tmp_path / "path" / tool.name)
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert find_tool(tool) == on_path
    variable = program(tmp_path / "variable" / tool.name)
    monkeypatch.setenv(tool.variable, str(variable))
    assert find_tool(tool) == variable
    named = program(tmp_path / "named" / tool.name)
    assert find_tool(tool, named) == named
    assert find_tool(tool, named.parent) == named, "a folder will do"


@pytest.mark.parametrize("tool", [NSYS, NCU], ids=lambda tool: tool.name)
def test_a_named_tool_that_is_not_there_is_an_error_and_not_passed_over(monkeypatch, tmp_path, tool):
    with pytest.raises(MissingToolError, match=f"{tool.option} names"):
        find_tool(tool, tmp_path / "nothing")
    monkeypatch.setenv(tool.variable, str(tmp_path / "nothing"))
    with pytest.raises(MissingToolError, match=f"{tool.variable} names"):
        find_tool(tool)


def test_the_newest_installed_version_wins(tmp_path):
    for version in ("2023.4.4", "2025.3.1", "2024.10.2"):
        program(tmp_path / version / "bin" / "nsys")
    found = module._newest(tmp_path, "*/bin/nsys")
    assert [path.parts[-3] for path in found] == ["2025.3.1", "2024.10.2", "2023.4.4"]


def test_version_as_the_tools_print_it(tmp_path):
    ncu = program(tmp_path / "ncu", "#!/bin/sh\necho 'Copyright (c) 2018-2025'\necho 'Version 2025.3.1.0 (build 36)'\n")
    assert tool_version(ncu) == "2025.3.1.0"
    assert tool_version(program(tmp_path / "nsys")) == "2025.3.1.90-x"
    assert tool_version(tmp_path / "nothing") is None
    assert tool_version(program(tmp_path / "odd", "#!/bin/sh\necho hello\n")) is None
