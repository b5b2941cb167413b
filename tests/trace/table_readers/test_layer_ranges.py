"""Names of ranges are read as the recorder writes them, and nothing else is taken for a layer."""

import pytest

from nsysprof.trace.table_readers.layer_ranges import LayerRange, read_layer_range
from nsysprof.workload.program_start.layer_recorder import ModuleRanges


@pytest.mark.parametrize("path", ["layers.0.mlp", "a name\nwith (any) text", "ü.é", "x" * 1000, " "])
def test_what_the_recorder_writes_is_read(path):
    layer = ModuleRanges(path, "Odd (Class)", is_timed=False)
    forward, backward, more = map(read_layer_range, (layer.forward, layer.backward, layer.more_backward))
    assert (forward.way, backward.way, more.way) == ("forward", "backward", "backward")
    assert forward.layer == backward.layer == more.layer == layer.path
    assert forward.is_call and backward.is_call and not more.is_call
    assert forward.kind == "Odd_Class_"


def test_the_step_of_an_optimizer_is_no_layer():
    assert read_layer_range("nsysprof optimizer AdamW (AdamW)") == LayerRange("", "optimizer", "AdamW", True)


@pytest.mark.parametrize("text", [
    "forward", "nsysprof forward", "nsysprof forward x", "nsysprof sideways x (Y)", "nsysprof forward x (Y) and more",
    "my nsysprof forward x (Y)", "nsysprof forward x y (Z)", f"nsysprof forward {'x' * 600} (Y)", "nsysprof operators",
])  # fmt: skip
def test_other_ranges_are_no_layers(text):
    assert read_layer_range(text) is None
