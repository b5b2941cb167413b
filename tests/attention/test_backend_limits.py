"""What a backend does not take is told in one line, with those that do."""

import pytest

from nsysprof.attention.backend_limits import INSTALL, TAKES, is_lossy, refuse_hopeless, takes_of, why_refused
from nsysprof.attention.mask import BACKENDS, PLUGINS, SERVED
from nsysprof.attention.shape import Shape
from nsysprof.errors import UsageError


def test_every_named_backend_has_its_row():
    assert set(TAKES) == {*BACKENDS, *PLUGINS, *SERVED, "hub"}
    assert set(INSTALL) == {"flash_attn", "xformers", *SERVED, "hub"}
    assert takes_of("hub:kernels-community/flash-attn2") == TAKES["hub"]
    assert takes_of("mine") == takes_of("my.module:function") == {"gradient", "fp32"}
    assert [name for name in TAKES if is_lossy(name)] == ["sage"]


@pytest.mark.parametrize(
    ("backend", "shape", "said"),
    [
        ("math", {"softcap": 50.0}, "math does not take --softcap; naive, flex, flash_attn, flashinfer may."),
        ("flash", {"sinks": True}, "flash does not take --sinks; naive, flex may."),
        ("varlen", {"head_dim_v": 128, "kv_dtype": "fp8"}, "varlen does not take --head-dim-v and --kv-dtype fp8; "),
        ("sage", {"pass_": "bwd"}, "sage does not take --pass bwd; math, "),
        ("mine", {"page_size": 16}, "mine does not take --page-size; math, "),
        ("te", {"mask": "bool:b11k"}, "te does not take --mask; math, "),
        ("te", {"mask": "window:8:0"}, ""),
        ("naive", {"softcap": 50.0, "sinks": True, "page_size": 16, "kv_dtype": "fp8", "head_dim_v": 8}, ""),
    ],
)
def test_a_refusal_names_the_options_and_who_can(backend, shape, said):
    whole = {"causal": "mask" not in shape, "seq": 64, "head_dim": 64, **shape}
    answer = why_refused(backend, Shape(**whole))
    assert answer.startswith(said)
    assert bool(answer) == bool(said)


def test_a_grid_that_no_backend_can_run_is_refused():
    capped = Shape(seq=64, softcap=50.0)
    refuse_hopeless(["math", "naive"], [capped])
    with pytest.raises(UsageError, match="math does not take --softcap") as refused:
        refuse_hopeless(["math", "flash"], [Shape(seq=64), capped])
    assert refused.value.next_step == "Give --backends naive,flex."
