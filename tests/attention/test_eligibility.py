"""Torch's own texts become data; the texts are those of sdp_utils.cpp and sdp_utils_cpp.h."""

import pytest

from nsysprof.attention.eligibility import AttentionCall, Constraint, parse_refusal, plain_text
from nsysprof.files.plain_file import decode_json, encode_json

CALL = AttentionCall(seq=16, kv_seq=32, head_dim=8192, heads=8, kv_heads=2, dropout=0.1, mask="bool", causal=False)
WHERE = " (Triggered internally at /pytorch/aten/src/ATen/native/transformers/cuda/sdp_utils.cpp:129.)"
TEXTS = [
    (
        "Flash attention requires q,k,v to have the same last dimension and to be less than or equal to 256. Got "
        "Query.size(-1): 8192, Key.size(-1): 8192, Value.size(-1): 8192 instead.",
        ("head_dim", 8192, "at most", 256),
    ),
    (
        "Mem efficient attention requires last dimension of inputs to be divisible by 8. Got Query.size(-1): 65, "
        "Key.size(-1): 65, Value.size(-1): 65 instead.",
        ("head_dim", 65, "multiple of", 8),
    ),
    (
        "Mem efficient attention on ROCM requires last dimension of inputs to less or equal than 512. Got "
        "Query.size(-1): 600, Key.size(-1): 600, Value.size(-1): 600 instead. (Note this limit differs among "
        "architectures)",
        ("head_dim", 600, "at most", 512),
    ),
    ("head_dim should be no more than 128", ("head_dim", 8192, "at most", 128)),
    ("head_dim should be a multiple of 8", ("head_dim", 8192, "multiple of", 8)),
    (
        "Flash attention only supports gpu architectures in the range [sm80, sm121]. Attempting to run on a sm "
        "7.5 gpu.",
        ("gpu_architecture", "sm75", "between", ["sm80", "sm121"]),
    ),
    (
        "cuDNN MHA only supports gpu architectures in the range [sm80, sm121]. Attempting to run on a sm 7.0 gpu.",
        ("gpu_architecture", "sm70", "between", ["sm80", "sm121"]),
    ),
    (
        "Expected query, key and value to all be of dtype: {Half, BFloat16}. Got Query dtype: float, Key dtype: float, "
        "and Value dtype: float instead.",
        ("dtype", "fp32", "one of", ["fp16", "bf16"]),
    ),
    (
        "Expected query, key and value to all be of dtype: {Half, Float}. Got Query dtype: c10::BFloat16, Key dtype: "
        "c10::BFloat16, and Value dtype: c10::BFloat16 instead.",
        ("dtype", "bf16", "one of", ["fp16", "fp32"]),
    ),
    (
        "Flash attention does not support the is_causal flag when seqlen_q != seqlen_k. Got seqlen_q: 16 seqlen_k: 32. "
        "If you would like to use causal attention with non-square masks, please see CausalAttnMask.",
        ("kv_seq", 32, "equal to", 16),
    ),
    ("Flash Attention does not support non-null attn_mask.", ("mask", "bool", "equal to", "none")),
    (
        "Flash attention currently doesn't support training with head_dim ∈ (192, 224] or (head_dim ∈ (224, 256] and "
        "dropout > 0.0) on gpu architectures in the range[sm86, sm89].Attempting to run with dropout set to: 0.1and "
        "head_dim: 200 on a sm 8.9 gpu.",
        ("head_dim", 200, "outside", [192, 256]),
    ),
    (
        "cuDNN SDPA on SM 9.0/10.x does not support backward with these head dimensions. Got d_qk: 136, d_v: 136",
        ("head_dim", 8192, "unlike", None),
    ),
    (
        "cuDNN dropout probability resolution is limited to 1/16.Use a dropout probability that is a multiple of 1/16 "
        "to select the cuDNN backend",
        ("dropout", 0.1, "multiple of", 0.0625),
    ),
    (
        "cuDNN SDPA does not support batch size or num_heads greater than 65535. Got batch size: 2, num_heads: 70000",
        ("heads", 70000, "at most", 65535),
    ),
    ("cudnn SDPA does not support key/value sequence length 1.", ("kv_seq", 32, "at least", 2)),
    ("Both fused kernels do not support non-zero dropout.", ("dropout", 0.1, "equal to", 0)),
    (
        "91201 cuDNN version does not support droppout in SDPA (9.11 - 9.13).",
        ("dropout", 0.1, "equal to", 0),
    ),
    ("SDPA fprop requires cudnn 8.9.3 or higher", ("cudnn_version", None, "at least", "8.9.3")),
    (
        "8902 cuDNN version too old to use cuDNN Attention (< v9.0.0)",
        ("cudnn_version", "8902", "at least", "9.0.0"),
    ),
    (
        "For dense input, both fused kernels require query, key and value to have the same num_heads. Query.sizes(): "
        "[1, 8, 16, 64], Key sizes(): [1, 2, 16, 64], Value sizes(): [1, 2, 16, 64] instead.",
        ("kv_heads", 2, "equal to", 8),
    ),
    ("Torch was not compiled with flash attention.", ("built", False, "equal to", True)),
    ("Memory Efficient attention has been runtime disabled.", ("enabled", False, "equal to", True)),
    (
        "All tensors need to be on cuda device. Got query on device: cpu, key on device: cpu, value on device: cpu",
        ("device", "cpu", "equal to", "cuda"),
    ),
    ("cuDNN SDPA is not deterministic.", ("deterministic", True, "equal to", False)),
]


@pytest.mark.parametrize(("text", "data"), TEXTS, ids=[data[0] + " " + data[2] for _, data in TEXTS])
def test_torchs_text_becomes_data_and_its_words_stay(text, data):
    (found,) = parse_refusal([text + WHERE], CALL)
    assert (found.property, found.value, found.relation, found.bound) == data
    assert found.text == text, "without the place in torch's source"
    assert decode_json(encode_json(found), Constraint) == found


def test_an_unknown_text_is_kept_without_data():
    (found,) = parse_refusal(["Flash attention dislikes Tuesdays." + WHERE], CALL)
    assert found == Constraint(None, None, "", None, "Flash attention dislikes Tuesdays.")


def test_headlines_and_repeats_are_no_constraints():
    messages = ["Flash attention kernel not used because:" + WHERE, "head_dim should be a multiple of 8" + WHERE]
    assert [each.property for each in parse_refusal(messages * 2, CALL)] == ["head_dim"]
    assert parse_refusal([], CALL) == []
    assert plain_text(messages[0]) == "Flash attention kernel not used because:"
