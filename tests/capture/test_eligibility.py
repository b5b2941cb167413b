"""The process that asks torch dies, hangs or answers: nothing of it is lost, and nothing hangs with it."""

import sys
import time

import pytest

from nsysprof.attention.eligibility import AttentionCall, EligibilityQuestion
from nsysprof.capture.eligibility import run_probe
from nsysprof.errors import MissingToolError, ToolFailedError

CALL = AttentionCall(seq=16, kv_seq=16)
QUESTIONS = [EligibilityQuestion(name, CALL) for name in ("math", "flash", "naive")]
# A process that answers like the real one, and meets `fault` at its second question.
PROGRAM = """
import json, os, signal, sys, time
from pathlib import Path
from nsysprof.attention.eligibility import EligibilityAnswer, EligibilityJob
from nsysprof.files.plain_file import json_value
from nsysprof.workload.job import append_event
job = EligibilityJob.read(Path(sys.argv[1]))
print("UserWarning: torch speaks")
append_event(job.events_path, "environment", facts={"torch_version": "0"})
for index in map(int, sys.argv[2].split(",")):
    append_event(job.events_path, "start", question=index)
    backend = job.questions[index].backend
    if backend == "flash":
        FAULT
    append_event(job.events_path, "done", question=index, answer=json_value(EligibilityAnswer(backend, True)))
"""


def ask(fault, timeout_s=20.0):
    program = [sys.executable, "-c", PROGRAM.replace("FAULT", fault)]
    return run_probe(QUESTIONS, "cpu", timeout_s=timeout_s, program=program)


def test_answers_come_in_the_order_of_the_questions(capfd):
    answers = ask("pass")
    assert [(each.backend, each.eligible) for each in answers.answers] == [(n.backend, True) for n in QUESTIONS]
    assert answers.facts == {"torch_version": "0"}
    assert answers.lost == []
    assert capfd.readouterr() == ("", ""), "what the process prints stays out of the terminal"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_killed_process_costs_one_answer():
    answers = ask("os.kill(os.getpid(), signal.SIGKILL)")
    assert [each.eligible for each in answers.answers] == [True, None, True]
    (lost,) = answers.lost
    assert (lost.backend, lost.ran.status) == ("flash", "crashed")
    assert "SIGKILL" in lost.reason


def test_an_exit_without_an_answer_costs_one_answer():
    (lost,) = ask("os._exit(3)").lost
    assert "exit code 3" in lost.reason


def test_a_hanging_process_is_ended():
    start = time.monotonic()
    answers = ask("time.sleep(600)", timeout_s=1.0)
    assert time.monotonic() - start < 60
    assert [each.ran.status for each in answers.answers] == ["not_run", "timeout", "not_run"]
    assert "within 1 s" in answers.answers[1].reason


def test_a_gpu_that_is_gone_afterwards_costs_the_rest_alone():
    fault = "Path(job.events_path + '.dead').touch(); os._exit(3)"
    program = PROGRAM.replace("FAULT", fault).replace(
        'append_event(job.events_path, "environment"',
        "if Path(job.events_path + '.dead').exists():\n"
        "    append_event(job.events_path, 'unusable', reason='no device'); sys.exit(1)\n"
        'append_event(job.events_path, "environment"',
    )
    answers = run_probe(QUESTIONS, "cuda", timeout_s=20.0, program=[sys.executable, "-c", program])
    assert [each.eligible for each in answers.answers] == [True, None, None]
    assert "no device" in answers.answers[2].reason
    assert len(answers.lost) == 2


@pytest.mark.parametrize(
    ("code", "startup_s", "word"),
    [
        ("import sys; sys.exit('no such symbol')", 60.0, "no such symbol"),
        ("pass", 60.0, "exit code 0"),
        ("import time; time.sleep(600)", 1.0, "not ready within 1 s"),
    ],
)
def test_a_process_that_never_starts_is_an_error(code, startup_s, word):
    with pytest.raises(ToolFailedError, match=word):
        run_probe(QUESTIONS, "cpu", timeout_s=5.0, startup_s=startup_s, program=[sys.executable, "-c", code])


@pytest.mark.parametrize(("device", "word"), [("cuda", "cannot use the GPU"), ("cpu", "cannot be imported")])
def test_a_torch_that_cannot_be_used_is_missing(device, word):
    code = (
        "import sys; from pathlib import Path\n"
        "from nsysprof.attention.eligibility import EligibilityJob; from nsysprof.workload.job import append_event\n"
        "job = EligibilityJob.read(Path(sys.argv[1]))\n"
        "append_event(job.events_path, 'unusable', reason='driver too old')"
    )
    with pytest.raises(MissingToolError, match=f"{word}: driver too old"):
        run_probe(QUESTIONS, device, timeout_s=5.0, program=[sys.executable, "-c", code])
