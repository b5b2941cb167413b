"""Find what the GPU could do faster while it works, as candidates for findings.

Without the shapes of operators, names and times of kernels have to tell. Each factor below stands with the measurement
that it comes from; the bounds are as wide as these were apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nsysprof.analysis.findings.candidates import Candidate, issuing_text, without_work
from nsysprof.analysis.findings.from_operators.operator_evidence import (
    FUSED_LEAST,
    FUSED_MOST,
    FUSED_USUAL,
    RunBytes,
    TensorUses,
    are_images,
    bytes_of_run,
    find_most,
    fused_operator,
    merge_products,
    misaligned_sizes,
    of_floors,
    product_factors,
)
from nsysprof.analysis.findings.situation import Situation, counted, in_work, in_work_by, number_text
from nsysprof.analysis.replay.replay import ReplayChange, combine
from nsysprof.arrays import rows_by_key
from nsysprof.kernels.names import PLAIN, TENSOR, kind_of
from nsysprof.results.roof import find_peak
from nsysprof.trace.schema import Bools, Rows
from nsysprof.units import format_bytes, format_ns

# Products of floats on the other cores. Those in double precision and of complex numbers have no TF32.
_FP32 = re.compile(r"sgemm|scudnn|f32f32_f32f32|<float|float_", re.IGNORECASE)
_NOT_FP32 = re.compile(r"bfloat16|half|f64|dgemm|cf32|cgemm|zgemm|complex|double", re.IGNORECASE)
# What cuDNN's convolutions by Fourier transforms in fp32 consist of beside kernels named as convolutions.
_CONVOLUTION_PIECES = re.compile(r"^(void )?fft2d_|cf32|cgemm|flip_filter")
# A kernel with TF32 takes this share more of its time than the ratio of the two peak rates says: a product and a
# convolution on an H200 (4096 x 4096 floats: 0.9 times the ratio; ResNet-50, NCHW: 1.3 times, with its conversions of
# layout). The bounds: what memory limits (1 x 1 convolutions: six times), and the best product, in bf16.
_TF32_USUAL, _TF32_MOST, _TF32_LEAST = 1.2, 3.0, 0.85
# What a product takes in bf16, to which the finding points as well, of its time in TF32: the ratio of the rates.
_BF16 = 0.5
# Kernels for sizes that are no multiple of 16 bytes, and how long aligned ones take instead. GPT with 50,257 columns
# in bf16 on an H200: 0.16.
_UNALIGNED = re.compile(r"_align([124])(?!\d)")
_ELEMENT_BYTES = (("bf16", 2), ("f16", 2), ("h1688", 2), ("h884", 2), ("h16816", 2), ("s1688gemm", 4))
_ALIGNED_USUAL, _ALIGNED_MOST, _ALIGNED_LEAST = 0.2, 0.45, 0.12
# A run of elementwise kernels that is fused takes as long as its longest one, about. RMSNorm and GELU of a GPT in
# pieces on an H200: 0.6 to 2 times.
_FUSED_USUAL, _FUSED_MOST, _FUSED_LEAST = 1.15, 2.0, 0.7
# However few bytes it moves, a fused kernel usually takes as long as the longest kernel of its run, up to so long (ns),
# and at the bounds as much more or less as other fused kernels do.
_FUSED_LATENCY_NS = 3_000
_MOST_SIZES = 4
_LEAST_RUN, _LONGEST_RUN, _SAME_TENSOR = 3, 32, 0.3
_ELEMENTWISE = ("elementwise", "reduction", "random")
_FUSED_ALREADY = re.compile(r"multi_tensor_apply|(lstm|gru)_cell_")
_CAST = re.compile(r"float16_copy_kernel|unrolled_elementwise_kernel.*direct_copy|convert", re.IGNORECASE)
_CONCATENATION = re.compile(r"CatArrayBatchedCopy")
_STRIDED_COPY = re.compile(r"gpu_kernel_impl_nocast.*direct_copy_kernel|triton_poi_fused_clone")


@dataclass(frozen=True)
class _InNchw:
    """A kind of kernels for tensors in NCHW, and what those for NHWC take instead: usually, at most and at least."""

    what: str
    pattern: re.Pattern[str]
    # The share of their time, where nothing else is known.
    shares: tuple[float, float, float]
    # How many times the floors of their operators, where these are known.
    floors: tuple[float, float, float] | None = None
    # Whether they may also be slower in NHWC.
    may_lose: bool = False

    def holds(self, name: str) -> bool:
        """Return whether a kernel is one of them."""
        return self.pattern.search(name) is not None


# Kernels of torch and cuDNN in fp16 and fp32, with 64 to 256 channels on an H200, each in both formats. With few
# channels those for NCHW leave most of the GPU idle, so shares differ: batch normalization has 0.13 to 1.3, but 2.0 to
# 3.4 floors. Bilinear interpolation makes 43 passes over its input in fp32 and 89 in 16 bit. Nothing is fitted to steps
# of nets. Where floors are unknown, batch normalization has the share of a ResNet-50, 0.58.
_TORCHS_DEPTHWISE = "conv_depthwise2d_"
_NORMS, _DEPTHWISE, _RESIZING = "normalization", "depthwise convolution", "pooling or interpolation"
_IN_NCHW = (
    _InNchw(_NORMS, re.compile(r"^(?!.*nhwc).*cudnn::bn_", re.IGNORECASE), (0.6, 1, 0.5), (2.5, 5, 1.8)),
    _InNchw(
        _NORMS, re.compile(r"batch_norm_(?:collect_statistics|backward|transform_input)_kernel"), (0.25, 0.6, 0.1),
        (2.5, 7, 1.6),
    ),
    _InNchw(_DEPTHWISE, re.compile(_TORCHS_DEPTHWISE), (0.25, 0.6, 0.1), (2, 7, 1.3)),
    _InNchw(_DEPTHWISE, re.compile(r"2d_c1_k1_nchw|wgrad2d_shmem_tiling"), (0.5, 0.7, 0.2)),
    _InNchw(_RESIZING, re.compile(r"max_pool_backward_nchw"), (0.6, 0.9, 0.4)),
    _InNchw(_RESIZING, re.compile(r"upsample_bilinear2d_out_frame<float"), (1, 1, 0.05), (8.6, 12, 6), may_lose=True),
    _InNchw(_RESIZING, re.compile(r"upsample_bilinear2d_out_frame<c10"), (1, 1, 0.05), (18, 25, 12), may_lose=True),
    _InNchw(_RESIZING, re.compile(r"upsample_bilinear2d_backward_out_frame"), (0.7, 1.1, 0.4), may_lose=True),
    _InNchw(_RESIZING, re.compile(r"upsample_nearest2d_out_frame"), (2.3, 2.8, 1.2), may_lose=True),
    _InNchw(_RESIZING, re.compile(r"upsample_nearest2d_backward_out_frame"), (1.6, 2.4, 0.6), may_lose=True),
)  # fmt: skip
_NHWC_LATENCY_NS = 4_000
_GROUP_NORM = re.compile(r"group_?norm|RowwiseMoments", re.IGNORECASE)
# The loss of a language model: log-softmax in fp32, and what its passes take in the dtype of the model. With 50,304
# columns and 8,192 tokens on an H200: 0.41.
_LOGITS_KERNEL = re.compile(r"<(?:\(int\)\d+, )?float, float, float, .*LogSoftMax")
_LOGITS_USUAL, _LOGITS_MOST, _LOGITS_LEAST = 0.45, 0.7, 0.25
# A kernel is small from here down: it takes less time than this (ns), in less than one wave of blocks.
_SMALL_NS = 10_000
# The shares of a step that small kernels, and the pauses between them, have at least.
_SMALL_SHARE, _LEAST_PAUSES = 0.3, 0.02
_EMPTY_KERNEL_NS = 1_500
# Work fills the GPU where it takes less than so many times the least time of its operator.
_FILLS = 2


def list_busy_candidates(situation: Situation) -> Iterator[Candidate]:
    """Yield what could be changed in the work of the graph, so that the GPU takes less time for it."""
    searches: tuple[Callable[[Situation], Candidate | None], ...] = (
        _no_tensor_cores, _misaligned, _pieces, _layouts, _copies, _logits, _small_work,
    )  # fmt: skip
    for search in searches:
        candidate = search(situation)
        if candidate is not None:
            yield candidate


def _scaled(situation: Situation, chosen: Bools, factor: float) -> ReplayChange:
    """Return the change in which some work takes a share of its time."""
    duration = situation.graph.duration_ns
    return without_work(
        situation, np.zeros_like(chosen), np.where(chosen, (duration * factor).astype(np.int64), duration)
    )


def _spent(situation: Situation, chosen: Bools) -> int:
    return int(in_work(situation, chosen, situation.graph.duration_ns))


def _with_conversions(situation: Situation, chosen: Bools) -> Bools:
    """Return conversions of layout and Fourier transforms too, where most convolutions are among the chosen work."""
    convolutions = situation.category == "convolution"
    if 2 * _spent(situation, chosen & convolutions) <= _spent(situation, convolutions):
        return chosen
    pieces = situation.kernels_named(lambda name: _CONVOLUTION_PIECES.search(name) is not None)
    both: Bools = chosen | (situation.category == "layout") | pieces
    return both


def _no_tensor_cores(situation: Situation) -> Candidate | None:
    peak = find_peak(situation.board)
    if peak is None or "tf32" not in peak.flops:
        return None

    def is_plain(name: str) -> bool:
        kind = kind_of(name)
        return (
            kind.unit == PLAIN
            and kind.category in ("gemm", "convolution")
            and _FP32.search(name) is not None
            and _TORCHS_DEPTHWISE not in name
            and _NOT_FP32.search(name) is None
        )

    chosen = situation.kernels_named(is_plain)
    if not chosen.any():
        return None
    chosen = _with_conversions(situation, chosen)
    ratio = peak.flops["fp32"] / peak.flops["tf32"]
    spent = _spent(situation, chosen)
    of_usual, of_most, of_least = product_factors(situation.operators.peak)
    # Products in TF32 take up to twice as many times their floor as those in 16 bit: 2.3 times in a BERT on an H200.
    usual, low, high = (
        of_floors(situation, chosen, min(1.0, ratio * guess), factor, at_least_guess=True)
        for guess, factor in (
            (_TF32_USUAL, of_usual), (_TF32_MOST, of_most), (_BF16 * _TF32_LEAST, _BF16 * of_least),
        )
    )  # fmt: skip
    # What reads and writes the tensors of these products moves half as much in bf16.
    high = replace(high, duration_ns=np.where(_beside(situation, chosen), high.duration_ns // 2, high.duration_ns))
    left = in_work(situation, chosen, usual.duration_ns)
    most = find_most(situation, chosen)
    text = (
        f"{counted(in_work(situation, chosen), 'product or convolution', 'products and convolutions')} in fp32 without "
        f"tensor cores take {format_ns(spent)}. In TF32 they would take about {format_ns(left)}, in bf16 about half of "
        f"that.{most.text if most else ''}"
    )
    step = (
        'torch.set_float32_matmul_precision("high") and torch.backends.cudnn.allow_tf32 = True, or '
        'torch.autocast("cuda", torch.bfloat16); in CUDA C++ cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH).'
    )
    return Candidate(
        "no-tensor-cores", usual, low, high, situation.calls_of(chosen), int(chosen.sum()), text, step, spent_ns=spent,
        most_range=situation.range_of_most(chosen), place=most.location if most else "",
    )  # fmt: skip


def _beside(situation: Situation, chosen: Bools) -> Bools:
    """Return the simple work directly before and behind some other, which reads or writes the same tensors."""
    simple = np.isin(situation.category, (*_ELEMENTWISE, "copy", "softmax"))
    beside = np.zeros_like(chosen)
    for _, rows in rows_by_key(pd.Series(situation.graph.stream)):
        mine = rows[situation.kernel_number[rows] >= 0]  # cuBLAS clears its workspace before some products
        inside = chosen[mine]
        beside[mine[:-1][inside[1:]]] = beside[mine[1:][inside[:-1]]] = True
    simple &= beside & ~chosen
    return simple


def _misaligned(situation: Situation) -> Candidate | None:
    def is_unaligned(name: str) -> bool:
        kind, match = kind_of(name), _UNALIGNED.search(name)
        if match is None or kind.unit != TENSOR or kind.category not in ("gemm", "convolution"):
            return False
        size = next((size for mark, size in _ELEMENT_BYTES if mark in name), None)
        return size is not None and int(match[1]) * size < 8

    chosen = situation.kernels_named(is_unaligned)
    if not chosen.any():
        return None
    spent = _spent(situation, chosen)
    usual, low, high = (
        of_floors(situation, chosen, guess, factor)
        for guess, factor in zip(
            (_ALIGNED_USUAL, _ALIGNED_MOST, _ALIGNED_LEAST), product_factors(situation.operators.peak), strict=True
        )
    )
    times = spent / max(1.0, in_work(situation, chosen, usual.duration_ns))
    text = (
        f"{counted(in_work(situation, chosen), 'product')} of sizes that are no multiple of 8 elements run in slow "
        f"kernels (align1, align2): {format_ns(spent)}, about {times:.0f} times what padded sizes take."
    )
    step = (
        "Pad the size to a multiple of 64, such as the vocabulary of the embedding and the head (50,257 to 50,304); "
        "ignore the added columns."
    )
    most = find_most(situation, chosen)
    if most is not None:
        text += most.text
        padded = _padded_sizes(situation, chosen)
        pairs = [f"{size:,} to {pad:,}" for size, pad in padded.items()]
        if pairs:
            text += f" Rows of {', '.join(f'{size:,}' for size in padded)} elements are no multiple of 16 bytes."
            step = f"Pad {', '.join(pairs)} (a multiple of 64), and ignore the added rows and columns."
    return Candidate(
        "misaligned-gemm", usual, low, high, situation.calls_of(chosen), int(chosen.sum()), text, step, spent_ns=spent,
        most_range=situation.range_of_most(chosen), place=most.location if most else "",
    )  # fmt: skip


def _padded_sizes(situation: Situation, chosen: Bools) -> dict[int, int]:
    """Return the misaligned sizes of the operators of some work, each with what to pad it to, most time first."""
    operators = situation.operators
    spent = in_work_by(situation, chosen & operators.has_facts, situation.graph.duration_ns, operators.call)
    sizes: dict[int, int] = {}
    for number in sorted(spent, key=lambda number: -spent[number]):
        sizes |= {size: pad for size, pad in misaligned_sizes(operators.calls[number]).items() if size not in sizes}
    return dict(list(sizes.items())[:_MOST_SIZES])


@dataclass(frozen=True)
class _Runs:
    """Runs of kernels that follow each other in a stream, and could be one."""

    # The work of each run, and its longest kernel.
    members: list[Rows]
    longest: list[int]

    def marks(self, count: int) -> Bools:
        """Return which of so many pieces of work belong to a run."""
        inside = np.zeros(count, dtype=np.bool_)
        for rows in self.members:
            inside[rows] = True
        return inside


def _elementwise_runs(situation: Situation, least: int = _LEAST_RUN, *, with_concatenations: bool = False) -> _Runs:
    """Return the runs of at least so many elementwise kernels between other work of their stream.

    A loop over parameters has longer runs, over other tensors each time. A kernel that is much shorter than the longest
    has another, smaller tensor.
    """
    multi = situation.kernels_named(lambda name: _FUSED_ALREADY.search(name) is not None)
    casts = situation.kernels_named(lambda name: _CAST.search(name) is not None)
    # By names alone, what fusing concatenations saves was overrated by 10 % of a step.
    concatenations = situation.kernels_named(lambda name: _CONCATENATION.search(name) is not None)
    casts |= concatenations & (situation.operators.has_facts | with_concatenations)
    member = (np.isin(situation.category, _ELEMENTWISE) | ((situation.category == "copy") & casts)) & ~multi
    duration, stream = situation.graph.duration_ns, situation.graph.stream
    members, longest = [], []
    for _, mine in rows_by_key(pd.Series(stream)):
        edges = np.flatnonzero(np.diff(member[mine].astype(np.int8))) + 1
        parts = np.split(mine.astype(np.int32), edges)
        for part in parts[1:-1]:
            if not member[part[0]] or not least <= len(part) <= _LONGEST_RUN:
                continue
            most = int(duration[part].max())
            if int((duration[part] >= _SAME_TENSOR * most).sum()) >= least:
                members.append(part)
                longest.append(int(part[np.argmax(duration[part])]))
    return _Runs(members, longest)


def _fused(situation: Situation, runs: _Runs, factor: float, moves_ns: Sequence[float | None]) -> ReplayChange:
    """Return the change in which each run is one kernel.

    factor: how many times the time of its longest kernel it takes.
    moves_ns: the time for what the fused kernel of each run moves, which counts instead for all but the shortest
        kernels; None where it is unknown.
    """
    duration = situation.graph.duration_ns.copy()
    gone = runs.marks(len(duration))
    gone[runs.longest] = False
    for rows, longest, moves in zip(runs.members, runs.longest, moves_ns, strict=True):
        fused = duration[longest] * factor
        if moves is not None:
            fused = max(moves, min(fused, _FUSED_LATENCY_NS * factor / _FUSED_USUAL))
        duration[longest] = min(int(duration[rows].sum()), int(fused))
    return without_work(situation, gone, duration)


def _bytes_of_runs(situation: Situation, runs: _Runs) -> list[RunBytes | None]:
    """Return what each run moves; None where that is not known."""
    operators = situation.operators
    if operators.peak is None or not operators.calls:
        return [None] * len(runs.members)
    uses = TensorUses(operators.calls)
    known: dict[tuple[int, ...], RunBytes | None] = {}
    found = []
    for rows in runs.members:
        numbers = tuple(dict.fromkeys(operators.call[rows].tolist()))
        if numbers not in known:
            known[numbers] = None if -1 in numbers else bytes_of_run(operators.calls, numbers, uses)
        found.append(known[numbers])
    return found


def _known_runs(situation: Situation, runs: _Runs, moved: Sequence[RunBytes | None]) -> str:
    """Return how many bytes runs of known tensors move, and which fused operators there are for them."""
    known = [(rows, of_run) for rows, of_run in zip(runs.members, moved, strict=True) if of_run is not None]
    if not known:
        return ""
    first = [int(rows[0]) for rows, _ in known]
    at_first = np.zeros(len(situation.kernel_name), dtype=np.int64)
    texts = []
    for values in ([of_run.moved for _, of_run in known], [of_run.fused for _, of_run in known]):
        at_first[first] = values
        texts.append(format_bytes(int(in_work(situation, at_first > 0, at_first))))
    chosen = np.zeros(len(at_first), dtype=np.bool_)
    chosen[first] = True
    number = number_text(in_work(situation, chosen))
    text = f" The operators of {number} of these runs move at least {texts[0]}; fused it would be about {texts[1]}."
    exist = [fused for rows, _ in known if (fused := _fused_operator_of(situation, rows))]
    names = [name for name, _ in Counter(exist).most_common(_MOST_SIZES)]
    return text + (f" Their operators look like those of {'; '.join(names)}." if names else "")


def _fused_operator_of(situation: Situation, rows: Rows) -> str:
    """Return the fused operator that exists for a run of the forward pass; "" where none is known."""
    calls, call = situation.operators.calls, situation.operators.call
    stream = situation.graph.stream
    # A rotary embedding puts halves together in a copy between its other pieces.
    around = [
        at for at in (int(rows[0]) - 1, int(rows[-1]) + 1) if 0 <= at < len(call) and stream[at] == stream[rows[0]]
    ]
    beside = [calls[call[at]].name for at in around if call[at] >= 0 and calls[call[at]].name == "aten::cat"]
    own = [calls[number] for number in call[rows].tolist()]
    if any(one.way != "forward" for one in own):
        return ""
    return fused_operator([*(one.name for one in own), *beside])


def _pieces(situation: Situation) -> Candidate | None:
    runs = _elementwise_runs(situation)
    if not runs.members:
        return None
    inside = runs.marks(len(situation.kernel_name))
    first = np.zeros_like(inside)
    first[[int(rows[0]) for rows in runs.members]] = True
    moved, peak = _bytes_of_runs(situation, runs), situation.operators.peak

    def fused_to(longest: float, of_bytes: float, *, keeps: bool = False) -> ReplayChange:
        times = [
            None if run is None or peak is None
            else of_bytes * 1e9 * (run.kept if keeps else run.fused) / peak.bytes_per_s
            for run in moved
        ]  # fmt: skip
        return _fused(situation, runs, longest, times)

    usual, high = fused_to(_FUSED_USUAL, FUSED_USUAL), fused_to(_FUSED_LEAST, FUSED_LEAST)
    # A compiler also fuses pairs and concatenations: what that saved of a Llama on an H200 was above the bound without.
    every = _elementwise_runs(situation, least=2, with_concatenations=True)
    high = combine(high, _fused(situation, every, _FUSED_LEAST, [None] * len(every.members)))
    low = fused_to(_FUSED_MOST, FUSED_MOST, keeps=True)
    spent = _spent(situation, inside)
    fused = int(in_work(situation, inside, usual.duration_ns))
    text = (
        f"{number_text(in_work(situation, inside))} elementwise kernels in {counted(in_work(situation, first), 'run')} "
        f"read and write the same tensors again and again: {format_ns(spent)}. Fused, each run is one kernel: about "
        f"{format_ns(fused)}.{_known_runs(situation, runs, moved)}"
    )
    text += issuing_text(situation, usual, inside & ~first, spent - fused)
    step = (
        "torch.compile(model), or the fused operator where there is one (rms_norm, layer_norm, gelu, silu, "
        "cross_entropy); in CUDA C++ one kernel for the whole formula."
    )
    return Candidate(
        "unfused-elementwise", usual, low, high, situation.calls_of(inside), len(runs.members), text, step,
        order=1, spent_ns=spent, most_range=situation.range_of_most(inside),
    )  # fmt: skip


def _layouts(situation: Situation) -> Candidate | None:
    """Return what NCHW costs: conversions of layout, and torch's and cuDNN's slow kernels for tensors in NCHW."""
    convolutions, conversions = situation.category == "convolution", situation.category == "layout"
    images = are_images(situation)
    works = [situation.kernels_named(kind.holds) & images for kind in _IN_NCHW]

    def of(what: str) -> Bools:
        rows: Bools = np.any([work for kind, work in zip(_IN_NCHW, works, strict=True) if kind.what == what], axis=0)
        return rows

    native = of(_NORMS) & situation.kernels_named(lambda name: "cudnn" not in name)
    if 2 * int(convolutions.sum()) < int(native.sum()):  # what is normalized are no images
        works = [work & ~native for work in works]
        native = np.zeros_like(native)
    depthwise = of(_DEPTHWISE)
    plain = situation.kernels_named(lambda name: kind_of(name).unit == PLAIN) & convolutions & ~depthwise
    # In NCHW each convolution has its conversions; those of plain ones go with them. torch's group_norm copies
    # channels_last tensors back and forth, which costs more than the conversions.
    if (
        (2 * int(conversions.sum()) < int((convolutions & ~plain).sum()) and not (native | depthwise).any())
        or not (conversions | native | depthwise).any()
        or 2 * _spent(situation, plain) > _spent(situation, convolutions)
        or situation.kernels_named(lambda name: _GROUP_NORM.search(name) is not None).any()
    ):
        return None
    parts = [(conversions, "conversion", " between the layouts NCHW and NHWC")]
    parts += [(of(_NORMS), _NORMS, " in NCHW"), (depthwise, "kernel", " of depthwise convolutions in NCHW")]
    parts += [(of(_RESIZING), "kernel", " of pooling and interpolation in NCHW")]
    texts = []
    for work, what, where in parts:
        if work.any():
            number = counted(in_work(situation, work), what)
            verb = "takes" if number.startswith("1 ") else "take"
            texts.append(f"{number}{where} {verb} {format_ns(_spent(situation, work))}")
    text = f"{'; '.join(texts)}. NHWC needs no conversions, and has faster kernels."
    step = "model.to(memory_format=torch.channels_last) and the same for its inputs; in cuDNN CUDNN_TENSOR_NHWC."
    before, floor = situation.graph.duration_ns, situation.operators.floor_ns

    def at(bound: int, kept: float) -> ReplayChange:
        duration = np.where(conversions, before * kept, before)
        for kind, work in zip(_IN_NCHW, works, strict=True):
            after = before * kind.shares[bound]
            if kind.floors is not None:
                after = np.where(np.isnan(floor), after, kind.floors[bound] * floor + _NHWC_LATENCY_NS)
            duration = np.where(work, after if kind.may_lose else np.minimum(after, before), duration)
        gone = conversions if kept == 0 else np.zeros_like(conversions)
        return without_work(situation, gone, duration.astype(np.int64))

    chosen = np.any([conversions, *works], axis=0)
    return Candidate(
        "layout-conversion", at(0, 0), at(1, 0.5), at(2, 0), situation.calls_of(chosen), int(chosen.sum()), text, step,
        spent_ns=_spent(situation, chosen),
    )  # fmt: skip


def _copies(situation: Situation) -> Candidate | None:
    """Return the copies that torch's group_norm makes of channels_last tensors, before and after it."""
    strided = situation.kernels_named(lambda name: _STRIDED_COPY.search(name) is not None)
    normalizing = situation.kernels_named(lambda name: _GROUP_NORM.search(name) is not None)
    before = np.zeros_like(strided)
    for number in np.unique(situation.graph.stream[normalizing]).tolist():
        mine = np.flatnonzero(situation.graph.stream == number)
        before[mine[:-1][strided[mine][:-1] & normalizing[mine][1:]]] = True
    # Each tensor is copied twice: before the normalization, and into the layout of the next convolution.
    if not before.any() or int(strided.sum()) > 3 * int(before.sum()):
        return None
    if 10 * _spent(situation, situation.category == "layout") > _spent(situation, strided):
        return None
    spent = _spent(situation, strided)
    text = (
        f"{counted(in_work(situation, strided), 'copy', 'copies')} of whole tensors take {format_ns(spent)}: torch's "
        "group_norm works in NCHW, so that channels_last tensors are copied before and after it."
    )
    step = "Leave this model in NCHW, or normalize with a kernel for channels_last."
    # In NCHW the convolutions convert instead, which takes half of it: a U-Net in bf16 on an H200.
    usual, low, high = (_scaled(situation, strided, kept) for kept in (0.5, 0.75, 0.05))
    return Candidate(
        "redundant-copy", usual, low, high, situation.calls_of(strided), int(strided.sum()), text, step, spent_ns=spent,
        most_range=situation.range_of_most(strided),
    )  # fmt: skip


def _logits(situation: Situation) -> Candidate | None:
    loss = situation.kernels_named(lambda name: _LOGITS_KERNEL.search(name) is not None)
    if not loss.any():
        return None
    casts = situation.kernels_named(lambda name: _CAST.search(name) is not None) & (situation.category == "copy")
    beside = np.zeros_like(loss)
    for number in np.unique(situation.graph.stream[loss]).tolist():
        mine = np.flatnonzero(situation.graph.stream == number)
        before = casts[mine][:-1] & loss[mine][1:]
        behind = loss[mine][:-1] & casts[mine][1:]
        beside[mine[:-1][before]] = beside[mine[1:][behind]] = True
    duration = situation.graph.duration_ns
    spent = _spent(situation, loss | beside)
    casting = f", {format_ns(_spent(situation, beside))} of it for casts" if beside.any() else ""
    text = (
        f"The loss reads and writes its logits in fp32: {format_ns(spent)}{casting}. They take twice the memory, too."
    )
    step = (
        "Give cross_entropy the logits in bf16 (it adds up in fp32 anyway), or a fused or chunked loss that never "
        "stores them all (torch.compile, Liger's fused linear cross entropy)."
    )

    def at(factor: float) -> ReplayChange:
        return without_work(situation, beside, np.where(loss, (duration * factor).astype(np.int64), duration))

    return Candidate(
        "large-logits", at(_LOGITS_USUAL), at(_LOGITS_MOST), at(_LOGITS_LEAST), situation.calls_of(loss | beside),
        int(loss.sum()), text, step, spent_ns=spent, most_range=situation.range_of_most(loss | beside),
    )  # fmt: skip


def _small_work(situation: Situation) -> Candidate | None:
    """Return kernels too short to fill the GPU, where the time between them shows it."""
    if not situation.is_looped:
        return None
    graph = situation.graph
    duration = graph.duration_ns
    is_kernel = situation.kernel_number >= 0
    small = is_kernel & (duration < _SMALL_NS) & ~np.isin(situation.category, ("communication", "wait", "graph"))
    floor = situation.operators.floor_ns
    small &= ~(duration < _FILLS * floor)
    pauses = np.where(small, np.clip(graph.stream_ns, 0, 3 * _EMPTY_KERNEL_NS), 0)
    busy = max(1, int(duration.sum()))
    if duration[small].sum() < _SMALL_SHARE * busy or pauses.sum() < _LEAST_PAUSES * busy:
        return None
    # A launch by itself costs the host more than such a kernel takes, which launch-bound is about.
    replayed = np.diff(graph.first_work) > 1
    small &= replayed[situation.call]
    if duration[small].sum() < _SMALL_SHARE * busy:
        return None

    least = np.minimum(np.nan_to_num(floor), duration).astype(np.int64)
    merged = merge_products(situation, small)

    def at(pause: float, empty: float) -> ReplayChange:
        shorter = duration - (pauses * pause).astype(np.int64) - int(empty * _EMPTY_KERNEL_NS)
        changed = np.where(small, np.maximum(np.maximum(shorter, duration // 4), least), duration)
        return without_work(situation, merged, changed)

    text = (
        f"{number_text(in_work(situation, small))} kernels of {format_ns(int(np.median(duration[small])))} each "
        f"(median) are too small to fill the GPU; between them it pauses for "
        f"{format_ns(int(in_work(situation, small, pauses)))}."
    )
    known = small & ~np.isnan(floor)
    if known.any():
        text += (
            f" Those whose operators are known take {format_ns(_spent(situation, known))}, and at the least time of "
            f"these operators {format_ns(int(in_work(situation, known, least)))}."
        )
    step = ""
    if merged.any():
        text += (
            f" {counted(in_work(situation, merged), 'kernel')} of products read the same tensor as the product before: "
            f"as one product with it, these {format_ns(_spent(situation, merged))} are gone."
        )
        step = "Compute products of the same tensor as one, with their weights side by side (as q, k and v). "
    step += (
        "Batch more work into each kernel, fuse neighbours (torch.compile), or let them begin before the last one ends "
        "(programmatic dependent launch)."
    )
    # To merge products is a remedy by itself, which leaves the other pauses as they are.
    low = at(0.0 if merged.any() else 0.3, 0.0)
    return Candidate(
        "small-work", at(0.7, 0.0), low, at(1.0, 1.0), situation.calls_of(small), int(small.sum()), text, step,
        order=2, spent_ns=_spent(situation, small), meanwhile="that stay",
    )  # fmt: skip
