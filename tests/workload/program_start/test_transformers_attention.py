"""The models of transformers get another attn_implementation; the library is played by a package of its names."""

import importlib.util
import sys

import pytest

from nsysprof.workload.program_start import transformers_attention as hook
from nsysprof.workload.program_start.watched_program.after_import import WATCH

MODULE = """
class PreTrainedModel:
    _supports_sdpa = True

    def __init__(self, config, *inputs, **named):
        self.config = config

class Old(PreTrainedModel):
    _supports_sdpa = False
"""


class Config:
    _attn_implementation = "eager"


@pytest.fixture
def models(tmp_path, monkeypatch):
    """Return the module of models as a program imports it, with the hook."""
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "__init__.py").touch()
    (tmp_path / "transformers" / "modeling_utils.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(hook.IMPLEMENTATION, "sdpa")
    kept = {name: sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] == "transformers"}
    hook.begin()
    hook.begin()
    assert len(WATCH.after["transformers.modeling_utils"]) == 1
    assert importlib.util.find_spec("transformers.modeling_utils") is not None, "asking is no import"
    import transformers.modeling_utils as found

    yield found
    for name in [name for name in sys.modules if name.partition(".")[0] == "transformers"]:
        del sys.modules[name]
    sys.modules.update(kept)


def test_a_model_is_made_with_what_is_wanted_where_it_supports_that(models, capsys):
    assert models.PreTrainedModel(Config()).config._attn_implementation == "sdpa"
    assert models.Old(Config()).config._attn_implementation == "eager"
    models.PreTrainedModel(Config())
    told = capsys.readouterr().err.splitlines()
    assert told == [
        "nsysprof attn_implementation: PreTrainedModel has sdpa in place of eager.",
        "nsysprof attn_implementation: Old has no sdpa.",
    ]


def test_nothing_waits_any_more_after_the_import(models):
    assert "transformers.modeling_utils" not in WATCH.after
