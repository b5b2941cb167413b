"""Adapters call their libraries as documented, and say what to install where one is missing."""

import math
import sys
from itertools import pairwise
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch.nn import attention as torch_attention  # noqa: E402

from nsysprof.attention.mask import SERVED  # noqa: E402
from nsysprof.attention.shape import Case  # noqa: E402
from nsysprof.workload import served_libraries  # noqa: E402
from nsysprof.workload.backends import attention_for  # noqa: E402
from nsysprof.workload.correctness_check import check_attention  # noqa: E402
from nsysprof.workload.refusal import IneligibleError  # noqa: E402
from nsysprof.workload.served_libraries import flash_implementation  # noqa: E402

pytestmark = pytest.mark.torch
SHAPE = {"seq": 8, "kv_seq": 16, "batch": 2, "heads": 4, "kv_heads": 2, "head_dim": 8, "dtype": "bf16"}
CAUSAL = {"causal": False, "mask": "window:all:0"}
WINDOW = {"causal": False, "mask": "window:3:0"}


@pytest.fixture(autouse=True)
def _any_device(monkeypatch):
    monkeypatch.setattr(served_libraries, "_need_gpu", lambda *_: None)


def attend(q, k, v, left, right, softcap=0.0):
    """Return attention of (tokens, heads, size) of one sequence, in float64, with a window from the last key."""
    q, k, v = (tensor.double().transpose(0, 1) for tensor in (q, k, v))
    k, v = (tensor.repeat_interleave(q.shape[0] // k.shape[0], dim=0) for tensor in (k, v))
    place = torch.arange(k.shape[1] - q.shape[1], k.shape[1])[:, None]
    key = torch.arange(k.shape[1])
    seen = ((left < 0) | (key >= place - left)) & ((right < 0) | (key <= place + right))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    return (torch.softmax(scores.masked_fill(~seen, -math.inf), -1) @ v).transpose(0, 1).bfloat16()


def packed(q, k, v, ends_q, ends_k, **options):
    parts = []
    for (start, end), (first, last) in zip(pairwise(ends_q), pairwise(ends_k), strict=True):
        parts.append(attend(q[start:end], k[first:last], v[first:last], **options))
    return torch.cat(parts)


def is_right(backend, **shape):
    case = Case(backend, **{**SHAPE, **shape})
    result = check_attention(attention_for(backend, case, None, "cpu")[1], case, "cpu")
    assert result.ok, result.reason
    return case


@pytest.mark.parametrize("backend", [*SERVED, "flash_attn", "hub:kernels-community/flash-attn2"])
def test_a_missing_library_says_what_to_install(backend, monkeypatch):
    for name in ("torch.nn.attention.varlen", "flashinfer", "sageattention", "transformer_engine.pytorch", "flash_attn",
                 "transformer_engine", "kernels"):  # fmt: skip
        monkeypatch.setitem(sys.modules, name, None)
    case = Case(backend, seq=8, dtype="bf16", causal=False, mask="window:4:0" if backend == "flash_attn" else "none")
    with pytest.raises(IneligibleError, match="install|torch 2"):
        select, function = attention_for(backend, case, None, "cpu")
        with select:
            function(None, None, None, False)


def test_varlen_gets_packed_sequences_and_windows(monkeypatch):
    def varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale=None, window_size=(-1, -1),
                    enable_gqa=False, seqused_k=None, block_table=None):  # fmt: skip
        assert (max_q, max_k, enable_gqa) == (8, 16, True)
        assert scale == pytest.approx(1 / math.sqrt(8))
        if block_table is not None:
            assert cu_seq_k is None
            assert seqused_k.tolist() == [16, 16]
            key, value = (pool[block_table.long()].flatten(0, 2) for pool in (key, value))
            cu_seq_k = torch.tensor([0, 16, 32])
        return packed(query, key, value, cu_seq_q, cu_seq_k, left=window_size[0], right=window_size[1])

    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", SimpleNamespace(varlen_attn=varlen_attn))
    is_right("varlen", **CAUSAL)
    is_right("varlen", **WINDOW)
    is_right("varlen", causal=False)
    is_right("varlen", **CAUSAL, page_size=4)
    with pytest.raises(IneligibleError, match="counts a causal mask from the last key.*--window -1,0"):
        is_right("varlen", causal=True)


def test_an_older_varlen_says_what_it_lacks(monkeypatch):
    def varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal=False, return_aux=None, scale=None):
        return packed(query, key, value, cu_seq_q, cu_seq_k, left=-1, right=0 if is_causal else -1)

    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", SimpleNamespace(varlen_attn=varlen_attn))
    is_right("varlen", **CAUSAL)
    with pytest.raises(IneligibleError, match="takes no windows"):
        is_right("varlen", **WINDOW)
    with pytest.raises(IneligibleError, match="reads no pages"):
        is_right("varlen", **CAUSAL, page_size=4)


class FakeFlashInfer:
    """FlashInfer's three wrappers, with the arguments of their documentation."""

    def __init__(self):
        self.ran = []
        fake = self

        class Wrapper:
            def __init__(self, workspace, kv_layout, **options):
                assert kv_layout == "NHD"
                self.options = options

            def run(self, q, *cache):
                fake.ran.append(type(self).__name__)
                return self.compute(q, *cache)

        class Ragged(Wrapper):
            def plan(self, qo_indptr, kv_indptr, heads, kv_heads, head_dim_qk, *, head_dim_vo, causal, window_left,
                     logits_soft_cap, sm_scale, q_data_type, kv_data_type):  # fmt: skip
                self.compute = lambda q, k, v: packed(
                    q, k, v, qo_indptr, kv_indptr, left=window_left, right=0 if causal else -1,
                    softcap=logits_soft_cap or 0.0,
                )  # fmt: skip

        class Prefill(Wrapper):
            def plan(self, qo_indptr, indptr, indices, last_page_len, heads, kv_heads, head_dim, page_size, *, causal,
                     window_left, logits_soft_cap, sm_scale, q_data_type, kv_data_type):  # fmt: skip
                assert set(last_page_len.tolist()) == {page_size}

                def compute(q, cache):
                    k, v = (pool[indices.long()].flatten(0, 1) for pool in (cache[0].float(), cache[1].float()))
                    ends = (indptr * page_size).tolist()
                    return packed(q, k, v, qo_indptr, ends, left=window_left, right=0 if causal else -1,
                                  softcap=logits_soft_cap or 0.0)  # fmt: skip

                self.compute = compute

        class Decode(Prefill):
            def plan(self, indptr, indices, last_page_len, heads, kv_heads, head_dim, page_size, **named):
                ends = torch.arange(len(indptr))
                super().plan(ends, indptr, indices, last_page_len, heads, kv_heads, head_dim, page_size, causal=False,
                             **named)  # fmt: skip

        self.BatchPrefillWithRaggedKVCacheWrapper = Ragged
        self.BatchPrefillWithPagedKVCacheWrapper = Prefill
        self.BatchDecodeWithPagedKVCacheWrapper = Decode


def test_flashinfer_plans_once_for_sequences_pages_and_decoding(monkeypatch):
    fake = FakeFlashInfer()
    monkeypatch.setitem(sys.modules, "flashinfer", fake)
    is_right("flashinfer", **CAUSAL)
    is_right("flashinfer", **WINDOW, softcap=2.0)
    is_right("flashinfer", causal=False, head_dim_v=4)
    is_right("flashinfer", **CAUSAL, page_size=4, kv_dtype="fp8")
    is_right("flashinfer", seq=1, causal=False, page_size=8, kv_dtype="fp8")
    assert fake.ran == ["Ragged", "Ragged", "Ragged", "Prefill", "Decode"]
    with pytest.raises(IneligibleError, match="hides all keys after the place.*--window LEFT,0"):
        is_right("flashinfer", causal=False, mask="window:3:2")
    with pytest.raises(IneligibleError, match="with a causal mask alone: give --window 3,0"):
        is_right("flashinfer", causal=False, mask="window:3:all")


def test_sage_is_called_in_its_own_layout(monkeypatch):
    def sageattn(q, k, v, tensor_layout="HND", is_causal=False, sm_scale=None, smooth_k=True, **_):
        assert tensor_layout == "HND"
        if smooth_k:  # as version 1 does, in the caller's tensor
            k -= k.mean(dim=2, keepdim=True)
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=True)

    monkeypatch.setitem(sys.modules, "sageattention", SimpleNamespace(sageattn=sageattn))
    is_right("sage", seq=16, head_dim=64, causal=True)
    is_right("sage", head_dim=64, causal=False)
    with pytest.raises(IneligibleError, match="takes heads of 64, 96, 128, not of 8"):
        is_right("sage", causal=False)
    with pytest.raises(IneligibleError, match="leave --kv-seq out"):
        is_right("sage", head_dim=64, causal=True)


def test_transformer_engine_gets_sequences_first_and_returns_features(monkeypatch):
    class DotProductAttention:
        def __init__(self, heads, kv_channels, *, num_gqa_groups, attention_dropout, qkv_format, attn_mask_type,
                     window_size):  # fmt: skip
            assert (heads, num_gqa_groups, attention_dropout, qkv_format) == (4, 2, 0.0, "bshd")
            self.sizes, self.window, self.mask = kv_channels, window_size, attn_mask_type

        def __call__(self, q, k, v):
            assert self.mask == ("no_mask" if self.window == (-1, -1) else "causal_bottom_right")
            left, right = self.window
            out = [attend(*parts, left, right) for parts in zip(q, k, v, strict=True)]
            return torch.stack(out).flatten(2)

    library = SimpleNamespace(DotProductAttention=DotProductAttention)
    monkeypatch.setitem(sys.modules, "transformer_engine", SimpleNamespace(pytorch=library))
    monkeypatch.setitem(sys.modules, "transformer_engine.pytorch", library)
    is_right("te", **WINDOW)
    is_right("te", causal=False, head_dim_v=4)


def test_a_kernel_of_the_hub_is_called_as_flash_attention_is(monkeypatch):
    def flash_attn_func(q, k, v, causal=False, window_size=(-1, -1), softcap=0.0):
        right = 0 if causal else window_size[1]
        return torch.stack([attend(*parts, window_size[0], right, softcap) for parts in zip(q, k, v, strict=True)])

    loaded = {"owner/flash": SimpleNamespace(flash_attn_func=flash_attn_func), "owner/other": SimpleNamespace()}
    monkeypatch.setitem(sys.modules, "kernels", SimpleNamespace(get_kernel=loaded.__getitem__))
    monkeypatch.setitem(sys.modules, "flash_attn", SimpleNamespace(flash_attn_func=flash_attn_func))
    is_right("hub:owner/flash", **WINDOW, softcap=3.0)
    is_right("hub:owner/flash", causal=False)
    with pytest.raises(IneligibleError, match="owner/other has no flash_attn_func"):
        is_right("hub:owner/other")
    with pytest.raises(IneligibleError, match="owner/lost cannot be loaded from the hub: KeyError"):
        is_right("hub:owner/lost")
    with pytest.raises(IneligibleError, match="flash-attn takes fp16 and bf16 on a GPU"):
        is_right("flash_attn", **WINDOW)


def test_a_flash_function_without_a_cap_says_so(monkeypatch):
    def flash_attn_func(q, k, v, causal=False):
        return q

    module = SimpleNamespace(flash_attn_func=flash_attn_func)
    monkeypatch.setitem(sys.modules, "kernels", SimpleNamespace(get_kernel=lambda _: module))
    with pytest.raises(IneligibleError, match="flash_attn_func of hub:o/n has no softcap"):
        is_right("hub:o/n", causal=False, softcap=2.0)


def test_another_flash_is_active_within_its_block_alone(monkeypatch):
    active = []
    monkeypatch.setattr(torch_attention, "activate_flash_attention_impl", active.append, raising=False)
    monkeypatch.setattr(torch_attention, "restore_flash_attention_impl", active.clear, raising=False)
    monkeypatch.setattr(
        torch_attention, "current_flash_attention_impl", lambda: active[-1] if active else None, raising=False
    )
    with flash_implementation("flash3"):
        assert active == ["FA3"]
    assert not active
    monkeypatch.setattr(torch_attention, "current_flash_attention_impl", lambda: None)
    with (
        pytest.raises(IneligibleError, match="torch runs its own flash in place of FA4"),
        flash_implementation("flash4"),
    ):
        pass
    assert not active
    monkeypatch.delattr(torch_attention, "activate_flash_attention_impl")
    with (
        pytest.raises(IneligibleError, match="cannot activate FA3: install torch 2.11"),
        flash_implementation("flash3"),
    ):
        pass
