"""Decide by what a trace says which settings are worth trying on a program, and what needs a change of the program."""

from __future__ import annotations

from nsysprof.analysis.attention_tuning.program_attention import ProgramFacts
from nsysprof.attention.shape import has_learned_mask
from nsysprof.results.program_runs import UNFUSED_ATTENTION, AttentionUse, PredictedGain, Suggestion

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
