"""Read from the analysis of a capture which attention a program calls, and what else may be worth trying."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from nsysprof.analysis.attention_tuning.choose_shapes import known_shape, why_not
from nsysprof.attention.shape import has_learned_mask
from nsysprof.results.analysis import Analysis
from nsysprof.results.findings import MEAN_STEP, TRACE, Findings
from nsysprof.results.program_runs import UNFUSED_ATTENTION, AttentionUse, PredictedGain, Suggestion, known_cells

_PLAIN_FP32 = re.compile(r"sgemm|f32f32_f32f32|simt_sgemm|_ffma_", re.IGNORECASE)


@dataclass(frozen=True)
class ProgramFacts:
    """What the trace of a program says that matters for its optimization."""

    uses: tuple[AttentionUse, ...]
    attention_share_pct: float | None
    # The share of all kernels' time in plain fp32 matrix products (percent).
    fp32_share_pct: float
    # What each finding would save, by its code; None where its share of a step is unknown.
    findings: Mapping[str, PredictedGain | None]
    # The libraries that the program had loaded at its end, as far as they matter here.
    libraries: frozenset[str] = frozenset()
    # The lines that call attention on a GPU with a mask whose keys do not lie side by side in memory.
    strided_masks: frozenset[str] = frozenset()


def read_program(analysis: Analysis) -> ProgramFacts:
    """Return the program's attention by shape, the largest share first, and what its findings say."""
    rows = [] if analysis.attention is None else known_cells(analysis.attention)
    shares = [_number(row["share_pct"]) for row in rows]
    known = [share for share in shares if share is not None]
    uses = sorted(_uses(rows), key=lambda use: (-(use.share_pct or 0.0), -use.calls, use.site))
    findings = {} if analysis.findings is None else _savings(analysis.findings)
    if analysis.allocator is not None:  # the capture recorded what torch's allocator held
        findings |= dict.fromkeys((item.code for item in analysis.allocator.findings), None)
    strided = frozenset(str(row["range"] or "") for row in rows if row.get("mask_stride") not in (None, 1))
    return ProgramFacts(
        tuple(uses), sum(known) if known else None, _fp32_share(analysis.kernels), findings, strided_masks=strided
    )


def _savings(findings: Findings) -> dict[str, PredictedGain | None]:
    """Return what the findings of each kind save together (percent of a step)."""
    per = "recorded part" if findings.per == TRACE else "step"
    if not findings.replayed_ns:
        return dict.fromkeys((item.code for item in findings.items), None)
    saved: dict[str, list[float]] = {}
    # What only slow steps lose is no part of the steps that were replayed.
    for item in (item for item in findings.items if item.per != MEAN_STEP):
        times = saved.setdefault(item.code, [0.0, 0.0, 0.0])
        for place, value in enumerate((item.saving_ns, item.saving_low_ns, item.saving_high_ns)):
            times[place] += value
    part = 100.0 / findings.replayed_ns
    unknown: dict[str, PredictedGain | None] = dict.fromkeys(item.code for item in findings.items)
    return unknown | {
        code: PredictedGain(part * best, part * low, part * high, per, f"the finding {code}")
        for code, (best, low, high) in saved.items()
    }


def _uses(rows: Sequence[dict[Any, Any]]) -> list[AttentionUse]:
    """Return one use for each line and shape. Calls of a training include their backward pass."""
    groups: dict[tuple[Any, ...], list[dict[Any, Any]]] = {}
    names = ("range", "batch", "heads", "kv_heads", "seq_q", "seq_kv", "head_dim", "dtype", "causal", "mask", "dropout")
    for row in rows:
        groups.setdefault(tuple(str(row.get(name)) for name in names), []).append(row)
    return [use for group in groups.values() for use in _use(group)]


def _use(group: list[dict[Any, Any]]) -> list[AttentionUse]:
    first = group[0]
    site = str(first["range"] or "")
    calls = {kind: sum(int(row["calls"]) for row in group if row["pass"] == kind) for kind in ("fwd", "bwd")}
    totals = [total for row in group if (total := _number(row["kernel_total_ns"])) is not None]
    shares = [share for row in group if (share := _number(row["share_pct"])) is not None]
    forward = next((row for row in group if row["pass"] == "fwd"), first)
    ran = forward["backend_ran"]
    uses = []
    kinds = [("fwdbwd", calls["bwd"]), ("fwd", calls["fwd"] - calls["bwd"])]
    for pass_, count in kinds:
        if count <= 0:
            continue
        shape = known_shape(first, pass_)
        part = count / max(1, *calls.values())
        uses.append(
            AttentionUse(
                site,
                shape,
                count,
                ran,
                int(part * sum(totals)) if totals else None,
                part * sum(shares) if shares else None,
                why_not(first) if shape is not None else _why_no_shape(first),
            )
        )
    return uses


def _why_no_shape(row: dict[Any, Any]) -> str:
    """Return why a row of attention.csv has no shape. Kernels without a recorded call have no sizes."""
    return (why_not(row) if row["function"] is not None else "") or "its sizes are unknown"


def _fp32_share(kernels: pd.DataFrame) -> float:
    """Return the share of all kernels' time in plain fp32 matrix products (percent), judged by kernel names."""
    if "share_pct" not in kernels or not len(kernels):
        return 0.0
    mine = kernels["name"].astype(str).str.contains(_PLAIN_FP32)
    return float(kernels.loc[mine, "share_pct"].sum())


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


# From this share on, attention that no fused backend takes is told even where no finding says what it costs.
_LEAST_REFUSED_PCT = 5.0
_OPTIMIZER = "unfused-optimizer"


def wants_sdpa(facts: ProgramFacts) -> bool:
    """Return whether transformers computes attention in separate kernels, which its own sdpa may fuse."""
    return UNFUSED_ATTENTION in facts.findings and "transformers" in facts.libraries


def list_suggestions(facts: ProgramFacts) -> tuple[Suggestion, ...]:
    """Return what findings suggest that cannot be tried without changing the program."""
    suggestions = []
    is_refused = any(
        (_is_learned(use) or _has_strided_mask(use, facts)) and (use.share_pct or 0.0) >= _LEAST_REFUSED_PCT
        for use in facts.uses
    )
    if is_refused or (UNFUSED_ATTENTION in facts.findings and not wants_sdpa(facts)):
        text = _why_unfused(facts) + _worth(facts.findings.get(UNFUSED_ATTENTION))
        suggestions.append(Suggestion(UNFUSED_ATTENTION, text))
    if _OPTIMIZER in facts.findings:
        worth = _worth(facts.findings[_OPTIMIZER])
        text = f"The optimizer is not fused (unfused-optimizer): give it fused=True.{worth}"
        suggestions.append(Suggestion(_OPTIMIZER, text))
    return tuple(suggestions)


def _why_unfused(facts: ProgramFacts) -> str:
    """Return why attention runs in separate kernels, by its recorded calls, and what to do."""
    runs_math = [use for use in facts.uses if use.backend_ran == "math" and use.shape is not None]
    if not runs_math:
        return (
            "The program writes its attention out by hand (unfused-attention): call "
            "torch.nn.functional.scaled_dot_product_attention."
        )
    strided = next((use for use in runs_math if _has_strided_mask(use, facts)), None)
    if strided is not None:
        return (
            f"The keys of the mask of scaled_dot_product_attention at {strided.site} do not lie side by side in memory "
            "(its last stride is not 1). No fused backend takes such a mask on a GPU, so that torch runs separate "
            "kernels (unfused-attention): give it attn_mask.contiguous()."
        )
    where = f" at {runs_math[0].site}" if runs_math[0].site else ""
    if any(_is_learned(use) for use in runs_math):
        return (
            f"The mask of scaled_dot_product_attention{where} needs a gradient, which flash and cuDNN do not take, and "
            "torch runs separate kernels (unfused-attention): torch.nn.attention.flex_attention computes such a bias "
            "in one, as a score_mod."
        )
    return (
        f"Torch runs scaled_dot_product_attention{where} as separate kernels (unfused-attention): `nsysprof explain` "
        "with its shape says what each fused backend does not accept."
    )


def _is_learned(use: AttentionUse) -> bool:
    return use.backend_ran == "math" and use.shape is not None and has_learned_mask(use.shape)


def _has_strided_mask(use: AttentionUse, facts: ProgramFacts) -> bool:
    return use.backend_ran == "math" and use.site in facts.strided_masks


def _worth(gain: PredictedGain | None) -> str:
    if gain is None:
        return ""
    return f" A replay predicts {gain.pct:.1f} % [{gain.low_pct:.1f}, {gain.high_pct:.1f}] of a {gain.per}."
