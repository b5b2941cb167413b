"""Attention that is wrong in one respect each, and would pass for right at a glance."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def right(q, k, v, is_causal):
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=q.shape[1] != k.shape[1])


def scaled(q, k, v, is_causal):
    return right(q, k, v, is_causal) * 1.05


def other_scale(q, k, v, is_causal):
    return right(q * 0.9, k, v, is_causal)


def without_mask(q, k, v, is_causal):
    return right(q, k, v, False)


def mask_off_by_one(q, k, v, is_causal):
    if not is_causal:
        return right(q, k, v, False)
    mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=q.shape[1] != k.shape[1])


def last_rows(q, k, v, is_causal):
    out = right(q, k, v, is_causal)
    return torch.cat([out[:, :, :-1], out[:, :, -2:-1]], dim=2)


def one_head(q, k, v, is_causal):
    out = right(q, k, v, is_causal)
    return torch.cat([out[:, :-1], out[:, :1]], dim=1)


def heads_grouped_wrongly(q, k, v, is_causal):
    if q.shape[1] == k.shape[1]:
        return right(q, k, v, is_causal).flip(1)
    repeats = (1, q.shape[1] // k.shape[1], 1, 1)
    return right(q, k.repeat(repeats), v.repeat(repeats), is_causal)


def not_a_number(q, k, v, is_causal):
    out = right(q, k, v, is_causal).clone()
    out[0, 0, -1, -1] = float("nan")
    return out


def overwrites_q(q, k, v, is_causal):
    out = right(q, k, v, is_causal)
    q.detach().mul_(2)
    return out


def of_fewer_bits(q, k, v, is_causal):
    return right(q.bfloat16(), k.bfloat16(), v.bfloat16(), is_causal).to(q.dtype)


class _WrongGradient(torch.autograd.Function):
    """The identity, whose gradient is 5 % too large."""

    @staticmethod
    def forward(_context, tensor):
        return tensor.clone()

    @staticmethod
    def backward(_context, grad):
        return grad * 1.05


def gradient_of_k(q, k, v, is_causal):
    return right(q, _WrongGradient.apply(k), v, is_causal)


def gradient_of_q(q, k, v, is_causal):
    return right(_WrongGradient.apply(q), k, v, is_causal)


def gradient_of_v(q, k, v, is_causal):
    return right(q, k, _WrongGradient.apply(v), is_causal)


def no_gradient_of_k(q, k, v, is_causal):
    return right(q, k.detach(), v, is_causal)
