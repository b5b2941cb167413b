"""Check that a backend really computes attention: compare it with a float64 reference before anything is timed.

The error of a tensor (out, dq, dk, dv) is the relative Frobenius norm |x - ref| / |ref|. It is computed for the whole
tensor and for every block of 64 rows of every head. So a few wrong rows in a long sequence, or one wrong head among
many, are not averaged away.

The tolerance is measured. The reference runs a second time, and every intermediate that attention written by hand would
store (scores, probabilities, their gradients, results) is rounded to the case's dtype. A backend may be FACTOR times as
far from the exact result as this second run, block by block. The second run adds up in float64, so the rounding of
float32 sums is added to the tolerance. It is relative to the result. For dq and dk it is relative to the terms, because
their terms cancel (in the first row of a causal mask to exactly zero). The norms of two random errors of n numbers
differ by chance, by a share of 1/sqrt(n). Therefore everything is multiplied by 1 + 16/sqrt(n). This is 1.25 for a
block of 64 rows of 64 numbers, and matters only for tiny tensors.

FACTOR is 4. The backends of torch 2.13 stay below 1.6 in fp16, bf16 and fp32 on the CPU (measured by
tests/workload/test_correctness_check.py), so 4 leaves room for another order of operations. The errors that matter (a
forgotten mask, another scale, a wrong block) are tens to thousands of times the tolerance.

On a GPU, fp32 may run in TF32: torch's efficient kernels and triton's `tl.dot` do so by default. There, intermediates
and inputs are cut to the 10 bits of TF32. A kernel that cuts fp32 further, to bf16, is found. One that cuts it to fp16,
which has the same 10 bits, is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from nsysprof.attention.shape import Case
from nsysprof.workload.backends import Attention, check_form
from nsysprof.workload.measuring.case_tensors import (
    DTYPES,
    draw_gradient,
    draw_inputs,
    make_mask,
    make_sinks,
    page_table,
    plain_keys,
)
from nsysprof.workload.refusal import WrongResultError

FACTOR = 4.0
ROWS = 64  # rows of a block that is judged by itself
_FEW = 16.0
_FLOAT32_UNIT = 2.0**-24
# Up to this much forward work (multiplications and additions) every query is checked. The reference takes up to about
# eight times as much in float64, which is slow on most GPUs: a second on an RTX 4060 Ti, two seconds on two CPU cores.
_WHOLE_WORK = {"cuda": 1e11, "cpu": 1e10}
_LEAST_BLOCKS = 2  # the first and the last
_SEED = 1  # other inputs than those that are timed
BLOCK_BYTES = 256 << 20  # the size of all (queries x keys) intermediates of one block together
_INTERMEDIATES = 8  # arrays of that size at once: scores, probabilities, their gradients, and temporaries
Rounding = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class CheckResult:
    """How far a backend's results are from the reference."""

    ok: bool
    # What is wrong; empty when ok.
    reason: str
    # Which queries were compared, in words.
    checked: str
    # Relative Frobenius norms by tensor: out, and in a backward pass dq, dk and dv too.
    errors: dict[str, float]
    tolerances: dict[str, float]


def check_attention(attention: Attention, case: Case, device: str, whole_work: float | None = None) -> CheckResult:
    """Run `attention` on random inputs of the case's shape, compare it with the reference, and return the result.

    The gradients are compared too when the case has a backward pass. The backend must be selected already, and its
    exceptions pass through.

    whole_work: the most forward work (FLOP) with which every query is compared; None chooses by device. Beyond it, the
        first, the last and random blocks of 64 queries are compared. The gradient of the output is zero elsewhere, so
        that dk and dv are exact for those rows.
    """
    backward = case.pass_ != "fwd"
    rows = choose_rows(case, _WHOLE_WORK[device] if whole_work is None else whole_work).to(device)
    checked = "every query" if len(rows) == case.seq else f"{len(rows)} of {case.seq} queries in blocks of {ROWS}"
    stored = _make_inputs(case, device, rows)
    try:
        results = _run(attention, stored, backward)
    except WrongResultError as error:
        return CheckResult(False, str(error), checked, {}, {})
    faults = _changed_inputs(stored, _make_inputs(case, device, rows)) + _not_finite(results)
    if faults:
        return CheckResult(False, faults[0], checked, {}, {})
    table = page_table(case, device) if case.page_size else None
    k, v = plain_keys(case, stored.k, stored.v, table)
    inputs = replace(stored, k=k, v=v)
    rounding = rounding_of(case.dtype, device)
    tensors = {name: _TensorComparison(name, inputs, rows) for name in results}
    exact = reference_pieces(inputs, rows)
    rounded = reference_pieces(inputs, rows, rounding)
    for piece, yardstick in zip(exact, rounded, strict=True):
        for name, comparison in tensors.items():
            comparison.add(piece, yardstick, results[name])
    return _judge(list(tensors.values()), case, checked)


def choose_rows(case: Case, whole_work: float) -> torch.Tensor:
    """Return the positions of the queries to compare: all of them, or the first, the last and random blocks between."""
    work = 4.0 * case.batch * case.heads * case.seq * case.kv_seq * case.head_dim / (2 if case.causal else 1)
    blocks = -(-case.seq // ROWS)
    wanted = max(_LEAST_BLOCKS, int(blocks * whole_work / work))
    if wanted >= blocks:
        return torch.arange(case.seq)
    generator = torch.Generator().manual_seed(_SEED)
    between = 1 + torch.randperm(blocks - 2, generator=generator)[: wanted - 2]
    chosen = torch.cat([torch.tensor([0, blocks - 1]), between]).sort().values
    rows = (chosen[:, None] * ROWS + torch.arange(ROWS)).flatten()
    return rows[rows < case.seq]


def rounding_of(dtype: str, device: str) -> Rounding:
    """Return a function that rounds float64 to the format in which this device stores intermediates of the dtype."""
    if dtype == "fp32" and device == "cuda":
        return _cut_to_tf32
    narrow = DTYPES[dtype]
    return lambda tensor: tensor.to(narrow).double()


def _cut_to_tf32(tensor: torch.Tensor) -> torch.Tensor:
    """Cut a tensor to TF32 without rounding, as tensor cores read a float32."""
    return (tensor.float().view(torch.int32) & ~0x1FFF).view(torch.float32).double()


def _make_inputs(case: Case, device: str, rows: torch.Tensor) -> Inputs:
    generator = torch.Generator(device=device).manual_seed(_SEED)
    q, k, v = draw_inputs(case, device, generator)
    mask = make_mask(case, device)
    mask = None if mask is None else mask.detach()
    sinks = make_sinks(case, device)
    if case.pass_ == "fwd":
        return Inputs(q, k, v, None, case.causal, mask, case.softcap, sinks)
    grad = draw_gradient(case, device, generator)
    if len(rows) < case.seq:
        kept = torch.zeros_like(grad)
        kept[:, :, rows] = grad[:, :, rows]
        grad = kept
    return Inputs(q, k, v, grad, case.causal, mask, case.softcap, sinks)


def _run(attention: Attention, inputs: Inputs, backward: bool) -> dict[str, torch.Tensor]:
    leaves = [tensor.detach().requires_grad_(backward) for tensor in (inputs.q, inputs.k, inputs.v)]
    with torch.set_grad_enabled(backward):
        out = check_form(attention(leaves[0], leaves[1], leaves[2], inputs.is_causal), leaves[0], leaves[2])
        results = {"out": out.detach()}
        if backward:
            if not out.requires_grad:
                raise WrongResultError("returned a tensor without gradient")
            gradients = torch.autograd.grad(out, leaves, inputs.grad, allow_unused=True)
            for name, gradient in zip(("dq", "dk", "dv"), gradients, strict=True):
                if gradient is None:
                    raise WrongResultError(f"{name} does not exist: the result does not depend on {name[1]}")
                results[name] = gradient
    return results


def _changed_inputs(used: Inputs, fresh: Inputs) -> list[str]:
    return [
        f"the backend overwrites its input {name}"
        for name in ("q", "k", "v")
        if not _is_same(getattr(used, name), getattr(fresh, name))
    ]


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.element_size() == 1:  # torch compares no fp8
        one, other = one.view(torch.uint8), other.view(torch.uint8)
    return bool(torch.equal(one, other))


def _not_finite(results: dict[str, torch.Tensor]) -> list[str]:
    faults = []
    for name, tensor in results.items():
        if not bool(torch.isfinite(tensor).all()):
            kind = "NaN" if bool(torch.isnan(tensor).any()) else "infinity"
            faults.append(f"{name} holds {kind}")
    return faults


class _TensorComparison:
    """Squared norms of one tensor, row by row: the reference, the backend's error and the rounded reference's error.

    Each array has the shape (batch * kv_heads, heads / kv_heads, rows).
    """

    def __init__(self, name: str, inputs: Inputs, rows: torch.Tensor) -> None:
        self.name = name
        groups, members = inputs.k.shape[0] * inputs.k.shape[1], inputs.q.shape[1] // inputs.k.shape[1]
        of_queries = name in ("out", "dq")
        self.rows = rows if of_queries else torch.arange(inputs.k.shape[2], device=rows.device)
        shape = (groups, members if of_queries else 1, len(self.rows))
        self.reference, self.error, self.yardstick = (
            torch.zeros(shape, dtype=torch.float64, device=rows.device) for _ in range(3)
        )
        self.kv_heads = inputs.k.shape[1]
        self.head_dim = (inputs.v if name in ("out", "dv") else inputs.q).shape[3]
        self.terms = _size_of_terms(name, inputs, len(rows))

    def add(self, piece: Piece, yardstick: Piece, result: torch.Tensor) -> None:
        """Add this tensor's part of a piece, if it has one."""
        reference, rounded = getattr(piece, self.name), getattr(yardstick, self.name)
        if reference is None:
            return
        rows = piece.rows if self.name in ("out", "dq") else self.rows
        mine = split_heads(result, self.kv_heads)[piece.kv_heads][:, :, rows].double()
        first = int(torch.searchsorted(self.rows, rows[:1]))
        place = (piece.kv_heads, slice(None), slice(first, first + len(rows)))
        for norms, tensor in (
            (self.reference, reference),
            (self.error, mine - reference),
            (self.yardstick, rounded - reference),
        ):
            norms[place] = tensor.square().sum(-1)


def _size_of_terms(name: str, inputs: Inputs, rows: int) -> float:
    """Return the size of what a row of dq or dk adds up before it cancels: scale * |grad| * max |v| * max |k or q|."""
    if inputs.grad is None or name not in ("dq", "dk"):
        return 0.0
    other = inputs.k if name == "dq" else inputs.q
    grad = float(inputs.grad.float().norm()) / math.sqrt(inputs.q.shape[0] * inputs.q.shape[1] * rows)
    largest = [float(tensor.float().norm(dim=-1).max()) for tensor in (inputs.v, other)]
    return grad * largest[0] * largest[1] / math.sqrt(inputs.q.shape[-1])


def _limit(comparison: _TensorComparison, case: Case, total: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Return the largest permitted norm of the error, for the rows that `total` adds up."""
    relative = (4 + 2 * math.sqrt(max(case.seq, case.kv_seq))) * _FLOAT32_UNIT
    unit = torch.finfo(DTYPES[case.dtype]).eps / 2
    rows = total(torch.ones_like(comparison.reference))
    return (1 + _FEW / (rows * comparison.head_dim).sqrt()) * (
        FACTOR * total(comparison.yardstick).sqrt()
        + (relative + unit) * total(comparison.reference).sqrt()
        + 8 * _FLOAT32_UNIT * comparison.terms * rows.sqrt()
    )


def _judge(comparisons: list[_TensorComparison], case: Case, checked: str) -> CheckResult:
    errors, tolerances, faults = {}, {}, []
    for comparison in comparisons:
        error, limit, size = (
            float(t)
            for t in (
                comparison.error.sum().sqrt(),
                _limit(comparison, case, torch.sum),
                comparison.reference.sum().sqrt(),
            )
        )
        errors[comparison.name] = _ratio(error, size)
        tolerances[comparison.name] = _ratio(limit, size)
        if error > limit:
            faults.append(_fault(comparison.name, error, limit, size, ""))
        else:
            faults += _block_faults(comparison, case)
    return CheckResult(not faults, faults[0] if faults else "", checked, errors, tolerances)


def _block_faults(comparison: _TensorComparison, case: Case) -> list[str]:
    """Return the fault of the worst block of rows of one head, when the block exceeds its own limit."""
    limit = _limit(comparison, case, _by_block)
    error, size = _by_block(comparison.error).sqrt(), _by_block(comparison.reference).sqrt()
    excess = error / limit.clamp_min(1e-300)
    worst = int(excess.argmax())
    if float(excess.flatten()[worst]) <= 1:
        return []
    group, member, block = (int(i) for i in torch.unravel_index(torch.tensor(worst), excess.shape))
    batch, kv_head = divmod(group, comparison.kv_heads)
    rows = comparison.rows[block * ROWS : (block + 1) * ROWS]
    kind = "queries" if comparison.name in ("out", "dq") else "keys"
    where = f" in {kind} {int(rows[0])} to {int(rows[-1])} of batch {batch}, head {kv_head * excess.shape[1] + member}"
    norms = [float(tensor.flatten()[worst]) for tensor in (error, limit, size)]
    return [_fault(comparison.name, norms[0], norms[1], norms[2], where)]


def _by_block(norms: torch.Tensor) -> torch.Tensor:
    """Return sums over blocks of ROWS rows; the last block may be shorter."""
    missing = -norms.shape[-1] % ROWS
    return torch.nn.functional.pad(norms, (0, missing)).unflatten(-1, (-1, ROWS)).sum(-1)


def _ratio(norm: float, size: float) -> float:
    """Return a norm relative to the reference. Where the reference is zero, return zero or infinity."""
    if size > 0:
        return norm / size
    return 0.0 if norm == 0 else math.inf


def _fault(name: str, error: float, limit: float, size: float, where: str) -> str:
    return (
        f"{name} differs from the float64 reference by {_ratio(error, size):.2g} relative "
        f"(tolerance {_ratio(limit, size):.2g}){where}"
    )


@dataclass(frozen=True)
class Inputs:
    """The inputs of one attention, all of one dtype."""

    # (batch, heads, queries, head_dim)
    q: torch.Tensor
    # (batch, kv_heads, keys, head_dim)
    k: torch.Tensor
    v: torch.Tensor
    # The gradient of some loss with respect to the output, shaped like q. Without it, no gradients are computed.
    grad: torch.Tensor | None
    is_causal: bool
    # What is added to the scores, or which of them count; it has four axes, some of size 1.
    mask: torch.Tensor | None = None
    # The bound of the scores; 0 for none.
    softcap: float = 0.0
    # A score of each head beside those of the keys, without a value; None for none.
    sinks: torch.Tensor | None = None


@dataclass(frozen=True)
class Piece:
    """Float64 results of some heads, each of shape (heads of k, heads of q for each, rows, head_dim)."""

    # Positions in the flattened (batch, kv_heads).
    kv_heads: slice
    # The query positions of out and dq.
    rows: torch.Tensor
    # None where not computed.
    out: torch.Tensor | None = None
    dq: torch.Tensor | None = None
    # For all keys, with 1 in place of the heads of q.
    dk: torch.Tensor | None = None
    dv: torch.Tensor | None = None


def reference_pieces(
    inputs: Inputs, rows: torch.Tensor, rounding: Rounding | None = None, block_bytes: int = BLOCK_BYTES
) -> Iterator[Piece]:
    """Yield the results in float64 head by head: out and dq by blocks of queries, then dk and dv.

    The same arithmetic can run twice: exactly, and with every intermediate that a plain implementation would store
    rounded to a narrower format. A backend is compared with the first. The distance between the two is what rounding
    alone costs on these inputs; the tolerance is made from it.

    dk and dv hold what the given rows contribute, which is everything when grad is zero elsewhere. A causal mask lets
    query i see the keys up to i, as torch's is_causal does. Memory holds one block, and float64 copies of the inputs of
    one group of heads.

    rows: the query positions to compute, ascending.
    rounding: a function applied to intermediates and results; None computes exactly.
    block_bytes: the size of the intermediates of one block (bytes).
    """
    round_ = rounding or _exact
    groups = inputs.k.shape[0] * inputs.k.shape[1]
    members = inputs.q.shape[1] // inputs.k.shape[1]
    keys = inputs.k.shape[2]
    row_bytes = members * keys * 8 * _INTERMEDIATES
    height = max(1, min(len(rows), block_bytes // row_bytes))
    width = max(1, min(groups, block_bytes // (row_bytes * len(rows))))
    for first in range(0, groups, width):
        yield from _heads(inputs, slice(first, min(first + width, groups)), rows, height, round_)


def split_heads(tensor: torch.Tensor, kv_heads: int) -> torch.Tensor:
    """Return (batch, heads, rows, dim) as (batch * kv_heads, heads / kv_heads, rows, dim), the form of a Piece."""
    return tensor.unflatten(1, (kv_heads, -1)).flatten(0, 1)


def _exact(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _heads(inputs: Inputs, heads: slice, rows: torch.Tensor, height: int, round_: Rounding) -> Iterator[Piece]:
    count = inputs.k.shape[1]
    q, k, v = (round_(split_heads(t, count)[heads].double()) for t in (inputs.q, inputs.k, inputs.v))
    grad = None if inputs.grad is None else round_(split_heads(inputs.grad, count)[heads].double())
    dk, dv = (None, None) if grad is None else (torch.zeros_like(k), torch.zeros_like(v))
    for block in rows.split(height):
        # Keys that no query of the block sees are skipped.
        seen = slice(0, min(k.shape[2], int(block[-1]) + 1) if inputs.is_causal else k.shape[2])
        scores = _scores(q[:, :, block], k[:, :, seen], round_)
        slope = None
        if inputs.softcap:
            bent = torch.tanh(scores / inputs.softcap)
            slope = None if grad is None else 1 - bent.square()
            scores = round_(inputs.softcap * bent)
        if inputs.is_causal:
            scores.masked_fill_(torch.arange(scores.shape[-1], device=q.device) > block[:, None], float("-inf"))
        if inputs.mask is not None:
            _apply_mask(scores, _mask_of(inputs, heads, block)[..., seen])
        p = round_(_softmax(scores, inputs, heads))
        del scores
        out = round_(p @ v[:, :, seen])
        if grad is None or dk is None or dv is None:
            yield Piece(heads, block, out=out)
            continue
        g = grad[:, :, block]
        dv[:, :, seen] += (p.mT @ g).sum(1, keepdim=True)
        # The sums of p * dp and of g * out are equal. Kernels compute the second, whose rounding differs.
        ds = round_(p * (round_(g @ v[:, :, seen].mT) - (g * out).sum(-1, keepdim=True)))
        if slope is not None:
            ds = round_(ds * slope)
        ds = round_(ds / math.sqrt(q.shape[-1]))
        dk[:, :, seen] += (ds.mT @ q[:, :, block]).sum(1, keepdim=True)
        yield Piece(heads, block, out=out, dq=round_(ds @ k[:, :, seen]))
    if dk is not None and dv is not None:
        yield Piece(heads, rows, dk=round_(dk), dv=round_(dv))


def _mask_of(inputs: Inputs, heads: slice, rows: torch.Tensor) -> torch.Tensor:
    """Return the mask of some heads and queries, of shape (heads of k, heads of q for each, queries, keys)."""
    assert inputs.mask is not None
    batch, count, keys = inputs.k.shape[0], inputs.k.shape[1], inputs.k.shape[2]
    whole = inputs.mask.expand(batch, inputs.q.shape[1], inputs.q.shape[2], keys).unflatten(1, (count, -1))
    chosen = range(*heads.indices(batch * count))
    return torch.stack([whole[group // count, group % count][:, rows] for group in chosen])


def _apply_mask(scores: torch.Tensor, mask: torch.Tensor) -> None:
    if mask.dtype is torch.bool:
        scores.masked_fill_(~mask, float("-inf"))
    else:
        scores += mask.double()


def _scores(q: torch.Tensor, k: torch.Tensor, round_: Rounding) -> torch.Tensor:
    """Return the scaled scores."""
    return round_(round_(q @ k.mT) / math.sqrt(q.shape[-1]))


def _softmax(scores: torch.Tensor, inputs: Inputs, heads: slice) -> torch.Tensor:
    """Return the softmax over the keys, in which the sinks of the heads take part."""
    if inputs.sinks is None:
        return torch.softmax(scores, dim=-1)
    count = inputs.k.shape[1]
    chosen = [group % count for group in range(*heads.indices(inputs.k.shape[0] * count))]
    sinks = inputs.sinks.double().unflatten(0, (count, -1))[chosen][:, :, None, None]
    whole = torch.cat([scores, sinks.expand(*scores.shape[:-1], 1)], dim=-1)
    return torch.softmax(whole, dim=-1)[..., :-1]
