"""What every command must have: a page, examples that parse, --json, and options that mean the same everywhere."""

import re
import shlex
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import typer

from nsysprof.cli import app

ROOT = Path(__file__).parents[2]
GROUP = typer.main.get_command(app)
COMMANDS = GROUP.commands
# Said in the command's own words: what is written to --out, and the passes, of which explain knows fewer.
OWN_WORDS = {"--out", "--pass"}


def options_of(command):
    """Return the options of a command by their first long name."""
    return {parameter.opts[0]: parameter for parameter in command.params if parameter.param_type_name == "option"}


def examples_of(command):
    first, *examples = command.epilog.split("\n\n")
    assert first == "Examples:"
    return [example.removeprefix("$ ").partition("    #")[0] for example in examples]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "help"])
def test_a_page_of_the_documentation(name):
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    assert f"nsysprof {name}" in page


# A server speaks JSON in its own protocol.
@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "mcp"])
def test_json(name):
    assert options_of(COMMANDS[name])["--json"].is_flag


@pytest.mark.parametrize("name", list(COMMANDS))
def test_examples_are_in_the_help_and_parse(name, capsys):
    command = COMMANDS[name]
    found = examples_of(command)
    assert found
    for example in found:
        program, chosen, *arguments = shlex.split(example.partition(">")[0])
        assert (program, chosen) == ("nsysprof", name)
        context = command.make_context(name, arguments)  # raises for an unknown option or a wrong value
        assert context.params
    app([name, "--help"], standalone_mode=False)
    said = capsys.readouterr().out
    assert "Examples:" in said
    assert f"$ nsysprof {name}" in said


def test_the_help_of_capture_shows_twelve_options_and_then_the_rest():
    shown, options = {}, options_of(COMMANDS["capture"])
    for flag, parameter in options.items():
        shown.setdefault(parameter.rich_help_panel, []).append(flag)
    assert list(shown) == ["Program or grid", "Program", "Grid", "Advanced"]
    assert shown["Program or grid"] == ["--profiler", "--out"]
    assert shown["Program"][:2] == ["--duration", "--per-rank"]
    assert shown["Grid"] == ["--backends", "--seq", "--dtype"]
    assert len(options) - len(shown["Advanced"]) == 12
    assert {"--warmup-calls", "--nsys-option", "--json"} <= set(shown["Advanced"])


# whatif asks for a number of ranks, and capture for the ranks to record; bundle keeps several ranges; explain takes the
# axes of a mask; capture counts a program's kernels, where analyze reads counters that the user has; the duration of a
# capture is in whole seconds, as nsys wants it, and 0 is to the program's end.
OWN_MEANING = {
    ("record", "--duration"),
    ("whatif", "--ranks"),
    ("bundle", "--range"),
    ("explain", "--mask"),
    ("capture", "--counters"),
}


def test_an_option_of_several_commands_is_the_same_in_each():
    seen = {}
    for name, command in COMMANDS.items():
        types = get_type_hints(command.callback)
        for option, parameter in options_of(command).items():
            if (name, option) in OWN_MEANING:
                continue
            words = None if option in OWN_WORDS else parameter.help
            names = (*parameter.opts, *parameter.secondary_opts)
            bounded = parameter if hasattr(parameter, "min") else parameter.type  # of an older typer
            limits = (getattr(bounded, "min", None), getattr(bounded, "max", None))
            # Only some commands can do without; what is given means the same in all.
            typed = set(get_args(types[parameter.name]) or {types[parameter.name]}) - {type(None)}
            kind = (typed, parameter.is_flag, names, limits, words)
            first, known = seen.setdefault(option, (name, kind))
            assert kind == known, f"{option} differs between {first} and {name}"


@pytest.mark.parametrize("name", ["capture", "record"])
def test_an_old_spelling_is_read_but_not_shown(name, capsys):
    rest = ["--", "true"] if name == "capture" else []
    typed = [
        COMMANDS[name].make_context(name, [flag, "7", *rest]).params["max_bytes"]
        for flag in ("--max-recording", "--max-size")
    ]
    assert typed == [7, 7], "the megabytes that were typed"
    app([name, "--help"], standalone_mode=False)
    said = capsys.readouterr().out
    assert "--max-recording" in said
    assert "--max-size" not in said


@pytest.mark.parametrize(
    ("name", "new", "old", "field"),
    [
        ("capture", "--duration", "--seconds", "duration_s"),
        ("record", "--duration", "--seconds", "seconds"),
        ("capture", "--warmup-calls", "--warmup", "warmup"),
        ("bench", "--block-samples", "--samples", "samples"),
        ("tune", "--block-samples", "--samples", "samples"),
    ],
)
def test_one_thing_has_one_word_and_the_word_before_still_works(name, new, old, field):
    typed = [COMMANDS[name].make_context(name, [flag, "7"]).params[field] for flag in (new, old)]
    assert typed == [7, 7]


def test_the_help_of_options_says_what_they_are():
    for command in COMMANDS.values():
        for option, parameter in options_of(command).items():
            assert parameter.help, f"{command.name} {option}"
            assert parameter.help.endswith((".", ".pftrace.", ".gz.")), f"{command.name} {option}: {parameter.help}"


def test_the_terminal_shows_every_word_of_the_help():
    """What stands in brackets would be taken for markup and left out, such as the extra in 'nsysprof[mcp]'."""
    for command in COMMANDS.values():
        for text in (command.help, *(parameter.help for parameter in command.params if parameter.help)):
            assert not re.search(r"\[[a-z@#/][^\]]*\]", text), f"{command.name}: {text}"


def test_a_paragraph_of_the_help_breaks_at_the_width_of_the_terminal_alone():
    for command in COMMANDS.values():
        assert command.help
        assert not re.search(r"[^\n]\n[^\n]", command.help), command.name
