"""Define `nsysprof explain`: show which backends accept a shape, why others do not, and what really runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nsysprof.app.inputs.attention_requests import ExplainRequest
from nsysprof.attention.eligibility import changes
from nsysprof.cli import options
from nsysprof.cli.terminal import print_json, print_report
from nsysprof.files.plain_file import json_value

if TYPE_CHECKING:
    from nsysprof.app.explain import ExplainResult
    from nsysprof.attention.eligibility import AttentionCall, EligibilityAnswer

EXAMPLES = (
    "nsysprof explain --seq 16 --head-dim 8192",
    "nsysprof explain --backends flash,cudnn --dtype bf16 --kv-heads 2 --pass bwd",
    "nsysprof explain --backends mine --device cpu    # a backend that an installed package registers",
)


def explain(request: ExplainRequest, as_json: options.Json = False) -> None:
    """Say which backends can run a shape, why the others cannot, and which one really ran.

    Asks torch's own checks, one backend at a time, and looks at the kernels that one call launches. --backends all asks
    about torch's own backends and naive.
    """
    from nsysprof.app import explain as use_case

    result = use_case.explain(request)
    _print(result, as_json)
    if result.failure is not None:
        raise result.failure


def _print(result: ExplainResult, as_json: bool) -> None:
    if as_json:
        shapes = [
            {"call": json_value(call), "backends": [_to_json(call, each) for each in answers]}
            for call, answers in result.blocks
        ]
        data = {"environment": result.facts, "shapes": shapes}
        print_json(data)
        return
    from nsysprof.report.pages.machine import explain_report

    print_report(explain_report(result.blocks, result.facts))


def _to_json(call: AttentionCall, answer: EligibilityAnswer) -> dict[str, Any]:
    nearest = [{"changes": changes(call, each), "call": json_value(each)} for each in answer.nearest]
    return {**json_value(answer), "nearest": nearest}
