"""The compiled part of the hook records what Python records, and opens ranges that a profiler sees."""

import _ctypes
import contextlib
import os
import random
import sqlite3
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")

from nsysprof.workload.program_start import attention_facts  # noqa: E402
from nsysprof.workload.program_start.attention_calls import attention_calls, fast_path  # noqa: E402
from nsysprof.workload.program_start.attention_calls.attention_calls import AttentionCalls  # noqa: E402
from tests.builders.record_with_nsys import record_nvtx  # noqa: E402

pytestmark = pytest.mark.torch


def recorder():
    events = []
    calls = AttentionCalls(torch, attention_facts, (events.append, lambda: events.append("end"), "test"))
    return events, calls, calls.wrap_function(torch.nn.functional.scaled_dot_product_attention, "sdpa")


def random_calls(seed, number=120):
    """Return arguments of calls of every kind, most of them of kinds that came before."""
    chosen = random.Random(seed)
    kinds = []
    for _ in range(12):
        dtype = chosen.choice([torch.float32, torch.bfloat16])
        heads, length = chosen.choice([2, 4]), chosen.choice([4, 8])
        sizes = (chosen.choice([1, 2]), heads, length, 8)
        by_name = {
            "is_causal": chosen.choice([True, False]), "dropout_p": chosen.choice([0.0, 0, 0.5]),
            "scale": chosen.choice([None, 0.25, 1]), "enable_gqa": chosen.choice([True, False]),
        }  # fmt: skip
        by_name = dict(chosen.sample(sorted(by_name.items()), chosen.randint(0, 4)))
        if chosen.random() < 0.3 and not by_name.get("is_causal"):
            by_name["attn_mask"] = torch.zeros(length, length, dtype=dtype).requires_grad_(chosen.random() < 0.5)
        kinds.append((sizes, dtype, chosen.random() < 0.5, chosen.random() < 0.3, by_name))
    return [chosen.choice(kinds) for _ in range(number)]


def play(attention, calls):
    for sizes, dtype, is_training, is_turned, by_name in calls:
        q = torch.ones(sizes, dtype=dtype)
        if is_turned:
            q = q.transpose(1, 2).contiguous().transpose(1, 2)
        q.requires_grad_(is_training)
        out = attention(q, q, value=q, **by_name) if is_turned else attention(q, q, q, **by_name)
        if out.requires_grad:
            out.sum().backward()


@pytest.mark.parametrize("seed", range(6))
def test_random_calls_are_recorded_as_python_records_them(seed, hook, monkeypatch):
    if hook == "python":
        pytest.skip("this compares both")
    found = []
    for part in (fast_path.compiled, None):
        monkeypatch.setattr(fast_path, "compiled", part)
        events, calls, attention = recorder()
        assert (calls.fast is None) == (part is None)
        play(attention, random_calls(seed))
        said = calls.to_json()
        assert said["problems"] == []
        found.append((events, said["calls"], said["count"]))
    (events, rows, count), (expected_events, expected_rows, expected_count) = found
    assert events == expected_events
    assert rows == expected_rows
    # The last call that was timed is another one.
    assert abs(count - expected_count) <= 31


def test_threads_count_every_call():
    _, calls, attention = recorder()

    def work(length):
        for number in range(300):
            q = torch.ones(1, 2, length + number % 3, 8)
            attention(q, q, q)

    threads = [threading.Thread(target=work, args=(4 * turn,)) for turn in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = calls.to_json()["calls"]
    assert {row["seq_q"]: row["forward"] for row in rows} == {
        4 * turn + n: 100 for turn in range(1, 5) for n in range(3)
    }


def test_ever_new_sizes_are_counted_together_at_last(hook, monkeypatch):
    most = 20_000  # as compiled; Python asks a constant
    if hook == "python":
        monkeypatch.setattr(attention_calls, "_MOST_CALLS", most := 200)
    _, calls, attention = recorder()
    wide = torch.ones(1, 1, 1, most + 100)
    q = torch.ones(1, 1, 1, 1)
    for length in range(1, most + 51):
        attention(q, wide[..., :length].transpose(2, 3), wide[..., :length].transpose(2, 3))
    said = calls.to_json()
    assert sum(row["forward"] for row in said["calls"]) == most + 50
    assert said["problems"] == ["more different calls than are told apart"]


def test_a_result_that_is_no_tensor_is_given_back():
    events, calls = [], None
    calls = AttentionCalls(torch, attention_facts, (events.append, lambda: events.append("end"), "test"))
    attention = calls.wrap_function(lambda *args, **kwargs: ("anything", kwargs), "sdpa")
    q = torch.ones(1, 1, 2, 2)
    for _ in range(3):
        assert attention(q, q, q, scale=2.0) == ("anything", {"scale": 2.0})
    assert events.count("end") == 3


PROGRAM = """
import torch, torch.nn.functional as F
from nsysprof.workload.program_start import attention_facts
from nsysprof.workload.program_start.attention_calls.attention_calls import AttentionCalls
from nsysprof.workload.program_start.attention_calls.range_marker import find_marker
marker = find_marker(torch)
assert marker[2] == "nvtx", marker
attention = AttentionCalls(torch, attention_facts, marker).wrap_function(F.scaled_dot_product_attention, "sdpa")
q = torch.ones(1, 2, 4, 8, requires_grad=True)
for _ in range(5):
    attention(q, q, q).sum().backward()
"""


@pytest.mark.nsys
def test_a_profiler_sees_the_ranges(tmp_path, nsys, hook):
    if hook == "python":
        pytest.skip("other tests see those of Python")
    report, _ = record_nvtx(nsys, tmp_path, [sys.executable, "-c", PROGRAM])
    found = tmp_path / "found.sqlite"
    subprocess.run([nsys, "export", "--type=sqlite", f"--output={found}", report], check=True, capture_output=True)
    with contextlib.closing(sqlite3.connect(found)) as database:
        text = "coalesce(text, (SELECT value FROM StringIds WHERE id = textId))"
        rows = database.execute(f"SELECT {text}, end > start FROM NVTX_EVENTS WHERE eventType = 59 ORDER BY start")
        kinds = [(name.split("::")[1], ended) for name, ended in rows if name.startswith("attention::")]
    assert kinds == [("fwd", 1), ("bwd", 1)] * 5


@pytest.mark.parametrize("library", ["/nowhere.so", "", _ctypes.__file__])
def test_a_library_that_is_no_profiler_is_ignored(library, hook):
    if hook == "python":
        pytest.skip("this is about the compiled part")
    text = "from nsysprof.workload.program_start.attention_calls import fast_path\n"
    text += "push, pop = fast_path.nvtx_functions()\npush('a')\npop()\npop()"
    environment = {**os.environ, "NVTX_INJECTION64_PATH": library}
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_form_that_another_call_takes_while_it_is_learned_is_not_mixed_up(hook, monkeypatch):
    _, calls, attention = recorder()
    q, other = torch.ones(1, 1, 2, 4), torch.ones(1, 1, 3, 4)
    find, depth = calls.find, []

    def find_and_call(*args):
        if not depth:  # as another thread would, while this one describes
            depth.append(1)
            for length in range(1, 200):
                attention(other, other[:, :, :1].expand(1, 1, length, 4), other[:, :, :1].expand(1, 1, length, 4))
            attention(q, q, q)
        return find(*args)

    monkeypatch.setattr(type(calls), "find", lambda _, *args: find_and_call(*args))
    for _ in range(3):
        attention(q, q, q)
    rows = calls.to_json()["calls"]
    assert sum(row["forward"] for row in rows if row["seq_q"] == 2) == 4
    assert [row["forward"] for row in rows if row["seq_q"] == 3] == [1] * 199


def test_an_interrupt_while_a_call_is_described_reaches_the_program(monkeypatch):
    _, calls, attention = recorder()
    find, interrupts = type(calls).find, [KeyboardInterrupt()]

    def interrupted(*args):
        if interrupts:
            raise interrupts.pop()
        return find(*args)

    monkeypatch.setattr(type(calls), "find", interrupted)
    q = torch.ones(1, 2, 4, 8)
    with pytest.raises(KeyboardInterrupt):
        attention(q, q, q)
    assert attention(q, q, q).shape == q.shape


def test_a_fault_of_what_follows_the_backward_pass_does_not_reach_the_program(hook):
    if hook == "python":
        pytest.skip("this is about the compiled part")
    calls = AttentionCalls(torch, attention_facts, (lambda name: None, lambda: None, "test"))
    calls.watch_call = lambda *_: int("no number")
    attention = calls.wrap_function(torch.nn.functional.scaled_dot_product_attention, "sdpa")
    q = torch.ones(1, 2, 4, 8, requires_grad=True)
    attention(q, q, q).sum().backward()
    assert q.grad is not None


def test_wrong_arguments_have_the_message_of_torch_and_the_function_its_description():
    original, (*_, attention) = torch.nn.functional.scaled_dot_product_attention, recorder()
    assert attention.__doc__ == original.__doc__
    q = torch.ones(1, 2, 4, 8)
    wrong = [((), {}), ((q,), {}), ((q, q), {"query": q}), ((q,) * 9, {}), ((q, q, q), {"causal": True}),
             ((q, q, q), {"attention": q}), ((q, q, "text"), {}), ((q, q, q), {"attn_mask": False}),
             ((q, q, q), {"dropout_p": None}), ((q, q, q), {"enable_gqa": None}), ((q, q, q, None, 0.0, None), {}),
             ((q, q, q), {"scale": "text"}), ((q, q, q), {"is_causal": 1})]  # fmt: skip
    for args, kwargs in wrong:
        said = []
        for function in (original, attention):
            with pytest.raises(TypeError) as error:
                function(*args, **kwargs)
            said.append(str(error.value))
        assert said[0] == said[1]
