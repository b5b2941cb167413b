"""From what a tuner found to the policy file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nsysprof.policy_file import AUTO, SDPA_BACKENDS, PolicyFile, Rule, write_policy

if TYPE_CHECKING:
    from nsysprof.analysis.tune import Choice
    from nsysprof.capture.bench import BenchRun


def write_choices(path: Path, run: BenchRun, choices: Sequence[Choice]) -> None:
    """Shapes whose best backend is none of torch's own are left out: a policy imports nothing. Raises OutputError."""
    rules = []
    for choice in choices:
        if choice.backend in (*SDPA_BACKENDS, AUTO):
            shape = dict(choice.shape)
            rules.append(
                Rule(
                    batch=int(shape["batch"]),
                    heads=int(shape["heads"]),
                    kv_heads=int(shape["kv_heads"]),
                    seq=int(shape["seq"]),
                    head_dim=int(shape["head_dim"]),
                    dtype=str(shape["dtype"]),
                    causal=bool(shape["causal"]),
                    pass_=str(shape["pass"]),
                    backend=choice.backend,
                    why=choice.why,
                    median_ns=float(choice.median_ns),
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
