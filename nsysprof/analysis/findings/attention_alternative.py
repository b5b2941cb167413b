"""Find fused attention for which a policy has measured a faster backend on the same GPU."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from msgspec import structs

from nsysprof.analysis.findings.candidates import Candidate
from nsysprof.analysis.findings.situation import Situation, counted, in_work, number_text
from nsysprof.analysis.kernel_names.variant_names import Texts
from nsysprof.analysis.ranges.open_range import innermost_codes
from nsysprof.analysis.replay.replay import no_change
from nsysprof.attention.kernel_family import kernel_family
from nsysprof.attention.mask import MASKS
from nsysprof.attention.policy_file import AUTO, PolicyFile, PolicyRule
from nsysprof.attention.range_name import RECORDED_PREFIX, parse_attention_range, parse_range
from nsysprof.attention.shape import Shape
from nsysprof.trace.schema import Int64s
from nsysprof.units import format_ns

# A measured latency includes the launch, which may take no time on the GPU.
_LAUNCH_NS = 2_500
# The names of backward kernels, and of kernels that only prepare or finish a call.
_NOT_MAIN = re.compile(r"bwd|backward|bprop|dgrad|combine|convert|dot_do_o|reduce_head|preprocess|postprocess", re.I)
_FUSED = ("flash", "efficient", "cudnn")
_HALF = ("bf16", "fp16")
# A smaller gain (as a share of the call's time) is within what two measurements of one kernel differ by.
_LEAST_GAIN = 0.03


def find_attention_alternative(
    situation: Situation, tid: Int64s, ranges: pd.DataFrame, policy: PolicyFile | None
) -> Iterator[Candidate]:
    """Yield what another backend would save, for calls whose shape is in the trace and in the policy.

    tid: the thread of each call of the graph.
    policy: the measured backends; None where there are none.
    """
    if policy is None or policy.gpu_name is None or policy.gpu_name != situation.board:
        return
    names = [str(text) for text in situation.names.texts]
    family = {number: _family_of(name) for number, name in enumerate(names)}
    main = {number: "" if _NOT_MAIN.search(names[number]) else name for number, name in family.items()}
    work = np.flatnonzero([family.get(number, "") != "" for number in situation.kernel_number.tolist()])
    ran = np.array([main.get(number, "") for number in situation.kernel_number.tolist()], dtype=object)
    if len(work) == 0:
        return
    launch = situation.call[work]
    calls = calls_at(ranges, tid[launch], situation.call_start_ns[launch])
    texts = [names[situation.kernel_number[row]] for row in work.tolist()]
    rules = {rule.shape: rule for rule in policy.rules}
    yield from _of_recorded_calls(situation, work, calls, rules)
    better = [
        None
        if call is None or call.recorded_pass is not None or not ran[row]
        else _rule_for(rules, call, causal, str(ran[row]))
        for row, call, causal in zip(work.tolist(), calls, causal_of(texts), strict=True)
    ]
    yield from _candidates(situation, work, ran, better)


def _of_recorded_calls(
    situation: Situation, work: Int64s, calls: list[CallInTrace | None], rules: dict[Shape, PolicyRule]
) -> Iterator[Candidate]:
    """Yield what another backend would save in calls of `capture --attention`, forward and backward together.

    All kernels of a shape are shortened by one factor, so that a call takes the time measured for the policy.
    """
    graph = situation.graph
    faster_by_change: dict[tuple[str, str], list[_Faster]] = {}
    by_shape: dict[Shape, list[int]] = {}
    for place, call in enumerate(calls):
        if call is not None and call.recorded_pass is not None:
            by_shape.setdefault(call.shape, []).append(place)
    for shape, places in by_shape.items():
        rows = work[places]
        passes = [call.recorded_pass for place in places if (call := calls[place]) is not None]
        texts = [str(situation.names.texts[number]) for number in situation.kernel_number[rows].tolist()]
        is_main = [which == "fwd" and not _NOT_MAIN.search(text) for which, text in zip(passes, texts, strict=True)]
        rule = _recorded_rule(rules, shape, "fwdbwd" if "bwd" in passes else "fwd")
        main_calls, ran = sum(is_main), Counter(_family_of(text) for text in texts).most_common(1)[0][0]
        if not main_calls or rule is None or rule.median_ns is None or rule.backend in (ran, AUTO, "math"):
            continue
        each_ns = float(graph.duration_ns[rows].sum()) / main_calls
        if rule.median_ns < (1 - _LEAST_GAIN) * each_ns:
            faster_by_change.setdefault((ran, rule.backend), []).append(
                _Faster(rows, rows[is_main], each_ns, rule.median_ns)
            )
    for (old, new), parts in faster_by_change.items():
        yield _recorded_candidate(situation, old, new, parts)


@dataclass(frozen=True)
class _Faster:
    """The kernels of one shape, the main one of each call, and how long a call takes and would take (ns)."""

    rows: Int64s
    main_rows: Int64s
    each_ns: float
    measured_ns: float


def _recorded_rule(rules: dict[Shape, PolicyRule], shape: Shape, pass_: str) -> PolicyRule | None:
    """Return the rule for a recorded call. If its memory layout was not measured, use the rule of the usual layout."""
    for layout in (shape.layout, "bhsd"):
        wanted = structs.replace(shape, pass_=pass_, layout=layout)
        if wanted in rules:
            return rules[wanted]
    return None


def _recorded_candidate(situation: Situation, old: str, new: str, parts: list[_Faster]) -> Candidate:
    graph = situation.graph
    base = no_change(graph)
    chosen, main = (np.zeros(len(graph.duration_ns), dtype=np.bool_) for _ in range(2))
    best, low, high = (graph.duration_ns.astype(np.float64) for _ in range(3))
    for part in parts:
        chosen[part.rows], main[part.main_rows] = True, True
        factor, least = (max(0.0, ns) / part.each_ns for ns in (part.measured_ns, part.measured_ns - _LAUNCH_NS))
        for duration, by in ((best, factor), (low, (1 + factor) / 2), (high, least)):
            duration[part.rows] *= by
    change, less, more = (replace(base, duration_ns=duration.astype(np.int64)) for duration in (best, low, high))
    calls = sum(len(part.main_rows) for part in parts)
    most = max(parts, key=lambda part: len(part.main_rows) * part.each_ns)
    text = (
        f"Attention runs on {old} in {number_text(in_work(situation, main))} calls a step, "
        f"{format_ns(int(in_work(situation, chosen, graph.duration_ns)))} with their backward passes; most of it is "
        f"in calls of {format_ns(most.each_ns)}, and for the same shape on this GPU {new} was measured at "
        f"{format_ns(most.measured_ns)}."
    )
    return Candidate("attention-backend", change, less, more, situation.calls_of(chosen), calls, text, _step(new))


def _step(backend: str) -> str:
    return (
        f"with torch.nn.attention.sdpa_kernel(SDPBackend.{_SDPA[backend]}): ..., or with nsysprof.policy(POLICY): ..."
    )


def _family_of(name: str) -> str:
    family = kernel_family([name]) or ""
    return family if family in _FUSED else ""


def _rule_for(rules: dict[Shape, PolicyRule], call: CallInTrace, causal: bool | None, ran: str) -> PolicyRule | None:
    """Return the measured alternative to the backend that ran. Where the mask is unknown, it is the slower of both."""
    shape = call.shape
    if shape.seq != shape.kv_seq:
        return None
    if causal is None and "causal" not in call.unknown:
        causal = shape.causal
    dtypes = _HALF if "dtype" in call.unknown else (shape.dtype,)
    measured_rules = []
    for mask in (True, False) if causal is None else (causal,):
        variants = (structs.replace(shape, causal=mask, dtype=dtype) for dtype in dtypes)
        of_mask = [rule for variant in variants if (rule := rules.get(variant)) is not None]
        if not of_mask or any(rule.median_ns is None or rule.backend in (ran, AUTO, "math") for rule in of_mask):
            return None
        measured_rules += of_mask
    return max(measured_rules, key=lambda rule: rule.median_ns or 0.0)


def _candidates(situation: Situation, work: Int64s, ran: Texts, better: list[PolicyRule | None]) -> Iterator[Candidate]:
    """Yield one candidate for each pair of a backend that ran and a faster one."""
    graph = situation.graph
    duration = graph.duration_ns[work]
    faster = [
        rule is not None and rule.median_ns is not None and rule.median_ns < (1 - _LEAST_GAIN) * took
        for rule, took in zip(better, duration.tolist(), strict=True)
    ]
    pairs = [
        (str(ran[row]), rule.backend) if rule is not None and wins else ("", "")
        for row, rule, wins in zip(work.tolist(), better, faster, strict=True)
    ]
    for (old, new), _ in Counter(pair for pair in pairs if pair[0]).most_common():
        mine = np.array([pair == (old, new) for pair in pairs])
        rows = work[mine]
        own_rules = (rule for rule, is_mine in zip(better, mine, strict=True) if is_mine)
        measured = np.array([rule.median_ns for rule in own_rules if rule is not None], dtype=np.float64)
        before = graph.duration_ns[rows]

        def at(target: npt.NDArray[np.float64], rows: Int64s = rows) -> Int64s:
            changed = graph.duration_ns.copy()
            changed[rows] = np.minimum(changed[rows], np.maximum(target, 0).astype(np.int64))
            return changed

        base = no_change(graph)
        changes = [
            replace(base, duration_ns=at(target))
            for target in (measured, (measured + before) / 2, measured - _LAUNCH_NS)
        ]
        chosen = np.zeros(len(graph.duration_ns), dtype=np.bool_)
        chosen[rows] = True
        in_all = int(in_work(situation, chosen, graph.duration_ns))
        text = (
            f"Attention runs on {old} in {counted(in_work(situation, chosen), 'call')} of "
            f"{format_ns(int(np.median(before)))} each, {format_ns(in_all)} in all; for "
            f"the same shape on this GPU, {new} was measured at {format_ns(float(np.median(measured)))}."
        )
        yield Candidate(
            "attention-backend",
            changes[0],
            changes[1],
            changes[2],
            situation.calls_of(chosen),
            len(rows),
            text,
            _step(new),
        )


_SDPA = {
    "flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "cudnn": "CUDNN_ATTENTION", "math": "MATH",
}  # fmt: skip


# The sizes of q, k and v: the first three of the operator's inputs.
_SIZES = re.compile(r"\[\[(\d+), (\d+), (\d+), (\d+)\], \[(\d+), (\d+), (\d+), (\d+)\], \[\d+, \d+, \d+, \d+\]")
# Operators with inputs (batch, heads, length, head size), and operators with (batch, length, heads, head size).
_HEADS_FIRST = re.compile(r"aten::_?(?:fused_)?scaled_dot_product_\w*attention|aten::_cudnn_attention_forward")
_LENGTH_FIRST = re.compile(r"aten::_(?:flash|efficient)_attention_forward")
# The template arguments of a flash kernel follow those of its traits. Dropout is not among those of splitkv.
_CAUSAL = re.compile(r"flash_fwd_(?:splitkv_kernel<.*?>>, |kernel<.*?>>, \(bool\)[01], )\(bool\)([01])")

# The sizes of a shape, and what a recorded call names them.
_CALL_SIZES = {
    "batch": "batch", "heads": "heads", "kv_heads": "kv_heads", "seq": "seq_q", "kv_seq": "seq_kv",
    "head_dim": "head_dim",
}  # fmt: skip


@dataclass(frozen=True)
class CallInTrace:
    """What a trace says about one call of attention.

    shape: its shape, written as a forward pass.
    unknown: the fields of the shape that neither the range nor the kernel tells, so that their values mean nothing.
    recorded_pass: the pass ("fwd" or "bwd") if capture --attention recorded the call; None otherwise.
    """

    shape: Shape
    unknown: frozenset[str] = frozenset()
    recorded_pass: str | None = None


def calls_at(ranges: pd.DataFrame, tid: Int64s, time: Int64s) -> list[CallInTrace | None]:
    """Return the attention call that each thread was in at each time.

    ranges: the instances that the attribution made, with `sizes` where emit_nvtx recorded them.
    """
    if len(ranges) == 0:
        return [None] * len(time)
    sizes = ranges["sizes"] if "sizes" in ranges else pd.Series("", index=ranges.index)
    known: dict[str, CallInTrace] = {}
    for name, size in zip(ranges["name"], sizes, strict=True):
        text = f"{name}|{size}"
        if text not in known and (call := _call_of(str(name), str(size))) is not None:
            known[text] = call
    texts = ranges["name"].astype(str) + "|" + sizes.astype(str)
    chosen = texts.isin(list(known)).to_numpy(dtype=bool)
    if not chosen.any():
        return [None] * len(time)
    code, names = innermost_codes(ranges[chosen].assign(name=texts[chosen]), tid, time, fold=False)
    return [known.get(str(name)) for name in names[code]]


def causal_of(kernels: Iterable[str]) -> list[bool | None]:
    """Return whether each kernel applies a causal mask; None where its name does not say."""
    matches = (_CAUSAL.search(name) for name in kernels)
    return [None if match is None else match[1] == "1" for match in matches]


def _call_of(name: str, sizes: str) -> CallInTrace | None:
    match = _SIZES.match(sizes)
    if match is None:
        return _recorded_call(name) if name.startswith(RECORDED_PREFIX) else _call_of_our_range(name)
    q, k = tuple(map(int, match.groups()[:4])), tuple(map(int, match.groups()[4:]))
    if _LENGTH_FIRST.fullmatch(name):
        q, k = (q[0], q[2], q[1], q[3]), (k[0], k[2], k[1], k[3])
    elif not _HEADS_FIRST.fullmatch(name):
        return None
    shape = Shape(batch=q[0], heads=q[1], kv_heads=k[1], seq=q[2], kv_seq=k[2], head_dim=q[3])
    return CallInTrace(shape, frozenset({"causal", "dtype"}))


def _recorded_call(name: str) -> CallInTrace | None:
    """Return a call of torch's attention that a policy can choose a backend for."""
    call = parse_attention_range(name)
    if call is None or call.function != "sdpa" or call.dropout or call.head_dim_v not in (None, call.head_dim):
        return None
    sizes: dict[str, Any] = {field: getattr(call, name) or 0 for field, name in _CALL_SIZES.items()}
    mask = call.mask or "none"
    if not all(sizes.values()) or mask.partition(":")[0] not in MASKS or call.dtype is None:
        return None
    shape = Shape(**sizes, dtype=call.dtype, causal=bool(call.causal), mask=mask, layout=call.layout or "bhsd")
    return CallInTrace(shape, recorded_pass=call.pass_)


def _call_of_our_range(name: str) -> CallInTrace | None:
    """Return the call of RUN::BACKEND::S4096::B=1::H=8::D=64::..., where all of that stands in the name."""
    parsed = parse_range(name)
    extra = dict(parsed.extra) if parsed is not None else {}
    if parsed is None or not {"B", "H", "D"} <= set(extra) or {"DV", "cap", "sinks", "cache", "page"} & set(extra):
        return None
    shape = Shape(
        seq=parsed.seq,
        batch=int(extra["B"]),
        heads=int(extra["H"]),
        kv_heads=int(extra.get("KV", 0)),
        kv_seq=int(extra.get("K", 0)),
        head_dim=int(extra["D"]),
        causal=extra.get("causal") == "1",
        dtype=extra.get("dtype", "fp16"),
    )
    return CallInTrace(shape, frozenset({"causal", "dtype"} - set(extra)))
