"""Every test here runs with the compiled part of the hook, and without it."""

import pytest

from nsysprof.workload.program_start.attention_calls import fast_path


@pytest.fixture(autouse=True, params=["compiled", "python"])
def hook(request, monkeypatch):
    """Which of the two a test runs with."""
    if request.param == "python":
        monkeypatch.setattr(fast_path, "compiled", None)
    elif fast_path.compiled is None:
        pytest.skip("hatch_build.py compiled nothing when nsysprof was installed here")
    return request.param
