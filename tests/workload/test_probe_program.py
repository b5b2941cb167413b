"""The probe's program, with a stand-in for the CUDA driver that writes down what it is asked for."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from nsysprof.workload import probe_program

_RETURNS = {
    "cuDeviceGet": "*(int *)a = 0;",
    "cuMemGetAllocationGranularity": "*(long *)a = 2097152;",
    "cuStreamEndCapture": "*(void **)b = (void *)0x77;",
}
_MAKES = (
    "cuDevicePrimaryCtxRetain", "cuModuleLoadData", "cuModuleGetFunction", "cuMemAlloc_v2", "cuStreamCreate",
    "cuMemAllocAsync", "cuGraphInstantiateWithFlags", "cuMemAllocHost_v2", "cuMemAddressReserve", "cuMemCreate",
)  # fmt: skip


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """Return the folder of a libcuda that does nothing but succeed."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("a stand-in for the driver needs a C compiler and Linux")
    names = sorted(set(re.findall(r'"(cu[A-Z]\w+)"', Path(probe_program.__file__).read_text(encoding="utf-8"))))
    lines = [
        "#include <stdio.h>",
        "#include <stdlib.h>",
        'static int said(const char *n) { FILE *o = fopen(getenv("ASKED"), "a"); fprintf(o, "%s\\n", n); fclose(o); '
        "return 0; }",
    ]
    for name in names:
        body = _RETURNS.get(name, "*(void **)a = (void *)0x1000;" if name in _MAKES else "")
        lines.append(f'int {name}(void *a, void *b) {{ {body} return said("{name}"); }}')
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text("\n".join(lines))
    library = folder / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", library, folder / "driver.c"], check=True)
    return folder


def test_the_three_processes_do_what_they_say(driver, tmp_path):
    asked = tmp_path / "asked"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver), "ASKED": str(asked)}
    subprocess.run([sys.executable, probe_program.__file__, tmp_path / "counts"], env=environment, check=True)
    did = {name: json.loads((tmp_path / f"counts.{name}").read_text()) for name in ("main", "forked", "spawned")}
    assert len({facts["pid"] for facts in did.values()}) == 3
    assert set(did["main"]["ways"].values()) == {True}
    calls = Counter(asked.read_text().split())
    launched = sum(facts["launches"] for facts in did.values())
    assert calls["cuLaunchKernel"] == launched + probe_program.NODES
    assert (calls["cuGraphLaunch"], did["main"]["nodes"]) == (probe_program.REPLAYS, 20)
    assert calls["cuMemAlloc_v2"] == calls["cuMemFree_v2"] + 3, "each process keeps one"


def test_without_a_driver_it_says_so(tmp_path):
    if Path("/dev/nvidia0").exists():
        pytest.skip("this machine has a GPU")
    done = subprocess.run(
        [sys.executable, probe_program.__file__, tmp_path / "counts"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "no CUDA: " in done.stderr
