"""What the processes of a program recorded of their attention becomes notes; a damaged file adds nothing."""

import json
from pathlib import Path

from nsysprof.capture.user_program.program_hook import attention_notes


def file(folder: Path, name: str, **changes: object) -> Path:
    call = {"forward": 20, "backward": 5}
    data = {"calls": [call], "problems": [], "own_ns": 10, "wall_ns": 1000, "count": 20, **changes}
    path = folder / name
    path.write_text(json.dumps(data))
    return path


def test_calls_of_all_processes_are_added_and_the_dearest_names_the_cost(tmp_path: Path) -> None:
    paths = [file(tmp_path, "1.json"), file(tmp_path, "2.json", own_ns=30, problems=["sdpa: odd"])]
    paths.append(tmp_path / "3.json")
    paths[-1].write_text("{")
    recorded, cost, problem = attention_notes(paths)
    assert "Calls of attention: 40; backward passes: 10; different shapes and lines of the program: 2." in recorded.text
    assert "took at least 3.00 %" in cost.text
    assert "sdpa: odd" in problem.text


def test_the_cost_has_bounds(tmp_path: Path) -> None:
    cost = attention_notes([file(tmp_path, "1.json", own_most_ns=25), file(tmp_path, "2.json", own_ns=5)])[1]
    assert "took 1.00 to 2.50 %" in cost.text


def test_few_calls_say_nothing_of_the_cost(tmp_path: Path) -> None:
    assert [note.code for note in attention_notes([file(tmp_path, "1.json", count=3)])] == ["attention-recorded"]


def test_no_call_at_all(tmp_path: Path) -> None:
    assert [note.code for note in attention_notes([file(tmp_path, "1.json", calls=[])])] == ["no-attention"]


def test_what_may_call_attention_unseen_is_named_once_and_not_without_end(tmp_path: Path) -> None:
    paths = [file(tmp_path, f"{place}.json", unseen=["a.so", f"b{place}.so"]) for place in range(6)]
    (note,) = [note for note in attention_notes(paths) if note.code == "attention-unseen"]
    assert note.text.endswith("cannot see it: a.so, b0.so, b1.so, b2.so, and 3 more.")
