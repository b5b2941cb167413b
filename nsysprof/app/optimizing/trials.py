"""List what is worth trying on a whole program: the policy, settings that its trace suggests, and the user's own."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nsysprof.analysis.attention_tuning.program_attention import ProgramFacts
from nsysprof.analysis.attention_tuning.worth_trying import allocates_in_loops, wants_sdpa, wants_tf32
from nsysprof.app.measuring.program_timing import ProgramSide, parse_program_side
from nsysprof.app.optimizing.tune_uses import TunedProgram
from nsysprof.capture.user_program.time_program import ATTN_IMPLEMENTATION
from nsysprof.results.optimization import UNFUSED_ATTENTION, PredictedGain

# The variables of torch's allocator; a newer torch reads the first of them before the second.
_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


@dataclass(frozen=True)
class Trial:
    """Something to try on the whole program.

    setting, paste, predicted: as in Attempt.
    """

    name: str
    why: str
    side: ProgramSide
    setting: str
    paste: str
    predicted: PredictedGain | None = None


def list_trials(
    facts: ProgramFacts,
    tuning: TunedProgram,
    policy_name: str,
    predicted: PredictedGain | None,
    tries: Sequence[str],
) -> list[Trial]:
    """Return what to try, in order.

    policy_name: the path under which the user finds the policy.
    predicted: what the policy should save.
    tries: settings that the user asked for.
    """
    found = []
    if tuning.policy is not None:
        found.append(
            Trial(
                "the policy",
                "another backend won for shapes of this program",
                ProgramSide(policy=tuning.policy),
                f"nsysprof run --policy {shlex.quote(policy_name)} -- PROGRAM",
                f'import nsysprof\n\nwith nsysprof.policy("{policy_name}"):\n    ...  # the training or serving loop',
                predicted,
            )
        )
    return [*found, *_settings(facts), *_wanted(tries)]


def _settings(facts: ProgramFacts) -> list[Trial]:
    """Return the settings that the trace suggests."""
    found = []
    if wants_sdpa(facts):
        found.append(
            Trial(
                "sdpa in transformers",
                "transformers computes this program's attention in separate kernels (unfused-attention)",
                ProgramSide(((ATTN_IMPLEMENTATION, "sdpa"),)),
                "",  # the variable alone changes nothing outside of nsysprof's commands
                'model = AutoModel.from_pretrained(NAME, attn_implementation="sdpa")  # or in the config',
                facts.findings.get(UNFUSED_ATTENTION),
            )
        )
    if wants_tf32(facts):
        found.append(
            Trial(
                "TF32",
                f"{facts.fp32_share_pct:.0f} % of the time of all kernels are matrix products in plain fp32",
                ProgramSide((("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1"),)),
                "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1",
                'torch.set_float32_matmul_precision("high")',
            )
        )
    allocator = _with_expandable_segments(os.environ)
    if allocates_in_loops(facts) and allocator is not None:
        name, value = allocator
        found.append(
            Trial(
                "expandable segments",
                "there are findings about allocations in the loop, or about fragmented memory",
                ProgramSide((allocator,)),
                f"{name}={value}",
                f'os.environ["{name}"] = "{value}"  # before importing torch',
            )
        )
    return found


def _with_expandable_segments(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the variable of torch's allocator with expandable segments added to what the user has set in it.

    None where the user has chosen them, or another allocator that has none.
    """
    name = next((name for name in _ALLOCATOR if environment.get(name)), _ALLOCATOR[-1])
    present = environment.get(name, "")
    if "expandable_segments" in present or "cudaMallocAsync" in present:
        return None
    return name, ",".join(filter(None, (present, "expandable_segments:True")))


def _wanted(tries: Sequence[str]) -> list[Trial]:
    """Return what the user asked to try in addition to what findings suggest."""
    return [
        Trial(
            f"attempt {number}",
            "it was asked for with --try",
            parse_program_side(text),
            text,
            "",
        )
        for number, text in enumerate(tries, 1)
    ]
