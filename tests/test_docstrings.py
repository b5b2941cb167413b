"""Docstrings of functions begin with a verb, and neither docstrings nor errors contain some unidiomatic phrases.

ruff checks the verb's mood; this finds docstrings without a verb.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "nsysprof"
# Words with which a phrase begins that is not a sentence, such as "The median" or "Whether it is slow".
PHRASES = """
    a all an as at both by each every few for from how in its many most no none of on one only some that the their these
    this those two what when where whether which who whose why with without
"""
NOUNS = "bytes columns files folders kernels latency mean median names numbers ratio seconds times values"
NO_VERB = frozenset(f"{PHRASES} {NOUNS}".split())
# A verb is not followed by these: "Count of calls", "Time per call".
AFTER_NOUNS = frozenset(("of", "per"))
# "Time" is a verb only before an object: "Time the call", but not "Time for a call".
AFTER_TIME = AFTER_NOUNS | {"by", "for", "from", "in"}
UNIDIOMATIC = re.compile(
    r"\bthat of\b|\bof which\b|(?<!there )\bis no (?!faster|further|larger|less|longer|more|slower)", re.IGNORECASE
)


def headless_docstrings(module: ast.Module) -> list[str]:
    """Return the first lines of docstrings of functions in a module that do not begin with a verb."""
    found = []
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text and not begins_with_a_verb(text):
                found.append(f"{node.name}: {text.splitlines()[0]}")
    return found


def begins_with_a_verb(text: str) -> bool:
    """Return False where a docstring's first words show that they are not a verb and its object."""
    first, second = [*text.split(), ""][:2]
    word = first.strip("(),.:").lower()
    return first[0].isupper() and word not in NO_VERB and second not in (AFTER_TIME if word == "time" else AFTER_NOUNS)


def unidiomatic_texts(module: ast.Module) -> list[str]:
    """Return the docstrings and the texts of raised errors in a module that contain an unidiomatic phrase."""
    texts: list[str] = []
    for node in ast.walk(module):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            texts.append(ast.get_docstring(node) or "")
        elif isinstance(node, ast.Raise):
            constants = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
            texts.extend(value for value in constants if isinstance(value, str))
    joined = (" ".join(text.split()) for text in texts)
    return [text for text in joined if UNIDIOMATIC.search(text)]


def test_docstrings_begin_with_a_verb_and_errors_are_idiomatic() -> None:
    headless, unidiomatic = {}, {}
    for path in PACKAGE.rglob("*.py"):
        module, name = ast.parse(path.read_text(encoding="utf-8")), str(path.relative_to(PACKAGE))
        headless[name], unidiomatic[name] = headless_docstrings(module), unidiomatic_texts(module)
    advice = "Begin with what the function does: Return, Write, Raise, ..."
    assert {name: lines for name, lines in headless.items() if lines} == {}, advice
    advice = 'Name the thing instead of "that of" and "of which", and write "is not a" instead of "is no".'
    assert {name: texts for name, texts in unidiomatic.items() if texts} == {}, advice


@pytest.mark.parametrize(
    "text",
    [
        "Of the ratio.",
        "The median.",
        "`3x`.",
        "(start, end) of each.",
        "nothing at all.",
        "Time per call.",
        "Time in which a device worked.",
        "Count of calls.",
        "Bytes that moved.",
    ],
)
def test_a_phrase_without_a_verb_is_found(text: str) -> None:
    assert headless_docstrings(ast.parse(f'def given() -> None:\n    """{text}"""\n')) == [f"given: {text}"]
    assert headless_docstrings(ast.parse('def given() -> None:\n    """Return the median."""\n')) == []


def test_a_verb_that_is_also_a_noun_is_a_verb_before_its_object() -> None:
    assert headless_docstrings(ast.parse('def given() -> None:\n    """Time the call."""\n')) == []
    assert headless_docstrings(ast.parse('def given() -> None:\n    """Count calls of a range."""\n')) == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('"""Return the size, or that\nof the folder."""', 1),
        ('class Given:\n    """Work of which none is left."""', 1),
        ("raise ValueError(f\"'{given}' is no rule.\")", 1),
        ("raise ValueError(f\"'{given}' is not a rule.\")", 0),
        ('raise ValueError("There is no GPU here, and this is no longer allowed.")', 0),
    ],
)
def test_an_unidiomatic_phrase_is_found(source: str, count: int) -> None:
    assert len(unidiomatic_texts(ast.parse(source))) == count


# "of ours" and "as X has it" in a comment make a reader read it twice; so does a comment that begins with "Of".
UNIDIOMATIC_COMMENT = re.compile(r"#.*\b(?:of ours|which is no|as \w+ has (?:it|them))\b|^\s*# Of (?!one|these|those)")


def test_comments_are_idiomatic() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if UNIDIOMATIC_COMMENT.search(line)
    ]
    assert found == [], "write whole sentences that name the thing"
