"""Ask torch which backends accept a call and why others do not, and observe what each really launches.

Run as `python -m nsysprof.workload.probe_eligibility JOB.json 0,1,4`. It answers the questions with these numbers, one
JSON line each. It is a separate process because torch may hang, crash or lose its GPU, and so that no warning of torch
reaches the terminal.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from nsysprof.attention.eligibility import EligibilityJob
from nsysprof.files.plain_file import json_value
from nsysprof.workload.job import REPLACE_ME, append_event


def main(arguments: list[str]) -> int:
    job = EligibilityJob.read(Path(arguments[0]))
    indices = [int(part) for part in arguments[1].split(",")]
    parent = os.getppid()
    try:
        from nsysprof.workload.torch_checks import answer, collect_facts, is_poisoned

        facts = collect_facts(job.device)
    except Exception as error:  # noqa: BLE001 - whatever torch's import or CUDA's start raises is the answer
        append_event(job.events_path, "unusable", reason=f"{type(error).__name__}: {error}"[:500])
        return 1
    append_event(job.events_path, "environment", facts=facts)
    for index in indices:
        if os.getppid() != parent:
            return 1  # the process that waits for the answers has ended
        append_event(job.events_path, "start", question=index)
        answered = answer(job.questions[index], job.device)
        append_event(job.events_path, "done", question=index, answer=json_value(answered))
        if is_poisoned(answered):
            return REPLACE_ME
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
