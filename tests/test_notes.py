"""The registry of notes is whole, every note is made from it, and no code is steered by one."""

import ast
from pathlib import Path

import pytest

from nsysprof.files.plain_file import decode_json, encode_json, json_value
from nsysprof.notes import Note, Severity, make_loss, make_note, registry, split_losses

ROOT = Path(__file__).parents[1]
PAGES = {"traces", "dram", "counters", "captures", "bench", "compare", "ranks"}
# Modules that make a note of a code that they hold in a variable, from a table of their own.
TABLES = (
    "nsysprof/analysis/overview/diagnostics.py", "nsysprof/analysis/overview/health.py",
    "nsysprof/capture/user_program/program_hook.py",
)  # fmt: skip


def nodes_of(kind):
    """(file within the repository, node) of every node of this kind in the package. No tree is kept: each is large."""
    for path in sorted((ROOT / "nsysprof").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, kind):
                yield path.relative_to(ROOT).as_posix(), node


def test_a_note_has_the_text_and_the_next_step_of_the_registry():
    note = make_note("graph-mode", replays=12345, how="recorded as wholes: their kernels are")
    assert note == Note(
        "graph-mode",
        Severity.WARNING,
        "12,345 CUDA graph replays were recorded as wholes: their kernels are unknown.",
        "Record with --cuda-graph-trace=node to see the kernels.",
    )
    assert decode_json(encode_json({**json_value(note), "of a newer version": 1}), Note) == note


def test_a_fact_is_never_read_as_a_template():
    assert make_note("bundle-left-out", part="{x} {0.__class__}").text.endswith("without {x} {0.__class__}.")


def test_what_the_registry_does_not_know_is_refused():
    with pytest.raises(KeyError):
        make_note("no-such-note")
    with pytest.raises(KeyError, match="count"):
        make_note("open-ranges")
    with pytest.raises(ValueError, match="never of severity error"):
        make_note("open-ranges", severity=Severity.ERROR, count=1)


def test_a_loss_is_a_fact_whose_note_is_an_error():
    loss, note = make_loss("unknown-names", count=2, kernels=5), make_note("open-ranges", count=1)
    assert loss.note.severity is Severity.ERROR
    assert split_losses([note, loss]) == ((note, loss.note), (loss,))
    with pytest.raises(ValueError, match="never of severity error"):
        make_loss("open-ranges", count=1)


def test_every_code_has_one_meaning_one_page_and_full_sentences():
    meanings = {}
    for kind in registry().values():
        assert kind.page in PAGES
        assert kind.text[-1] in ".}", kind.code
        meanings.setdefault(kind.code, []).append((kind.meaning, kind.page))
    for code, found in meanings.items():
        assert len({page for _, page in found}) == 1, code
        (meaning,) = [meaning for meaning, _ in found if meaning]
        assert meaning.endswith("."), code


def test_notes_are_made_from_the_registry_alone_and_all_of_it_is_used():
    made = set()
    for path, call in nodes_of(ast.Call):
        name = getattr(call.func, "id", "")
        assert name != "Note" or path == "nsysprof/notes.py"
        if name not in ("make_note", "make_loss"):
            continue
        parts = [part.value if isinstance(part, ast.Constant) else None for part in call.args]
        if parts[0] is not None and None not in parts:
            made.add((parts[0], parts[1] if len(parts) > 1 else ""))
        elif parts[0] is None:
            assert path in {*TABLES, "nsysprof/notes.py"}
    assert made - registry().keys() == set()
    texts = "".join((ROOT / name).read_text(encoding="utf-8") for name in TABLES)
    unused = {key for key in registry().keys() - made if f'"{key[0]}"' not in texts}
    assert unused == set()


# The report of a bench: that the machine stalls is said first, and not again below.
READ_BY_CODE = {"nsysprof/report/pages/bench.py"}
# What is shown, and how it is joined: the severities of notes that are about other notes.
READ_BY_SEVERITY = {
    "nsysprof/analysis/comparison/compare.py",
    "nsysprof/cli/export.py",
    "nsysprof/ranks/overview.py",
    "nsysprof/ranks/summarize.py",
    "nsysprof/report/formats/console.py",
}


def test_no_code_is_steered_by_a_note():
    by_code, by_severity = set(), set()
    for path, node in nodes_of(ast.Compare):
        for side in (node.left, *node.comparators):
            if isinstance(side, ast.Attribute) and side.attr == "code" and getattr(side.value, "id", "") == "note":
                by_code.add(path)
            if isinstance(side, ast.Attribute) and side.attr == "severity":
                by_severity.add(path)
    assert by_code == READ_BY_CODE
    assert by_severity == READ_BY_SEVERITY
