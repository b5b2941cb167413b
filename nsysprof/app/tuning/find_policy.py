"""Turn the result of a tuning into its policy file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import asdict

from nsysprof.analysis.sampling.tune import Choice
from nsysprof.attention.policy_file import AUTO, SDPA_BACKENDS, PolicyFile, PolicyRule, write_policy
from nsysprof.capture.sampling.bench_run import BenchRun


def write_choices(path: Path, run: BenchRun, choices: Sequence[Choice]) -> None:
    """Write the policy, without the shapes whose best backend is not part of torch, because a policy imports nothing.

    Shapes with a window are left out too: calls of torch have no window, but a mask whose content nobody reads.

    Raises OutputError.
    """
    rules = []
    for choice in choices:
        if choice.backend in (*SDPA_BACKENDS, AUTO) and choice.shape.window is None:
            rules.append(
                PolicyRule(
                    choice.backend,
                    **asdict(choice.shape),
                    why=choice.why,
                    median_ns=None if choice.median_ns is None else float(choice.median_ns),
                    over_auto=choice.over_auto,
                )
            )
    environment = run.environment
    write_policy(
        path,
        PolicyFile(
            tuple(rules),
            device=run.plan.device,
            gpu_name=environment.get("gpu_name"),
            torch_version=environment.get("torch_version"),
            cudnn_version=environment.get("cudnn_loaded_version") if run.plan.device == "cuda" else None,
            created_utc=run.created_utc,
        ),
    )
