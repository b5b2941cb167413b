"""Shapes of `explain`: what is left out follows the rest, and what makes no sense is refused."""

import pytest

from nsysprof.attention.eligibility import AttentionCall, expand_backends, expand_calls
from nsysprof.attention.mask import BACKENDS
from nsysprof.errors import UsageError
from nsysprof.files.plain_file import decode_json, encode_json


def expand(**fields):
    usual = dict(
        seqs=[16], kv_seqs=[], batches=[1], heads=[8], kv_heads=[], head_dims=[64], dtypes=["fp16"], causal=None,
        mask="none", dropout=0.0, passes=["fwd"],
    )  # fmt: skip
    return expand_calls(**{**usual, **fields})


def test_k_and_v_are_like_q_unless_said_otherwise():
    assert expand(seqs=[16, 32]) == [AttentionCall(seq=16, kv_seq=16), AttentionCall(seq=32, kv_seq=32)]
    assert expand(seqs=[16, 32], kv_seqs=[64]) == [AttentionCall(seq=16, kv_seq=64), AttentionCall(seq=32, kv_seq=64)]
    assert expand(heads=[8, 8, 4]) == [
        AttentionCall(seq=16, kv_seq=16),
        AttentionCall(seq=16, kv_seq=16, heads=4, kv_heads=4),
    ]
    assert expand(kv_heads=[2])[0].kv_heads == 2


def test_a_mask_replaces_causal():
    assert expand()[0].causal
    assert not expand(mask="bool")[0].causal
    assert not expand(causal=False)[0].causal
    with pytest.raises(UsageError, match="exclude each other"):
        expand(mask="float", causal=True)


def test_a_window_is_a_mask():
    (call,) = expand(kv_seqs=[64], window=(4, 0))
    assert (call.mask, call.causal) == ("window:4:0", False)
    assert expand(window=(None, 0))[0].causal
    for other in (dict(mask="bool"), dict(causal=True)):
        with pytest.raises(UsageError, match="exclude each other"):
            expand(window=(4, 0), **other)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        (dict(seqs=[]), "--seq is empty"),
        (dict(kv_seqs=[0]), "--kv-seq 0"),
        (dict(kv_heads=[3]), "cannot be shared"),
        (dict(heads=[8], kv_heads=[16]), "cannot be shared"),
        (dict(dtypes=["int8"]), "Unknown dtype"),
        (dict(dropout=float("nan")), "--dropout nan"),
        (dict(dropout=-0.1), "--dropout -0.1"),
    ],
)
def test_what_makes_no_sense_is_refused(fields, word):
    with pytest.raises(UsageError, match=word):
        expand(**fields)


def test_all_is_every_backend_once():
    assert expand_backends(["flash", "all"]) == ["flash", *(name for name in BACKENDS if name != "flash")]
    with pytest.raises(UsageError, match="Unknown backend 'quick'"):
        expand_backends(["quick"])


def test_the_bytes_of_q_k_v_and_the_output():
    call = AttentionCall(seq=16, kv_seq=32, heads=8, kv_heads=2, head_dim=64, dtype="fp32")
    assert call.tensor_bytes == 4 * (2 * 8 * 16 * 64 + 2 * 2 * 32 * 64)
    assert decode_json(encode_json(call), AttentionCall) == call
