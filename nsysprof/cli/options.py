"""Define the options of commands that are not part of a request, and make the options of a command from its request."""

from __future__ import annotations

import inspect
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from nsysprof.app.inputs.options import (
    OUTPUT,
    TOOLS,
    VERDICT,
    Option,
    OptionField,
    default_of,
    field_hints,
    option_field,
)
from nsysprof.errors import UsageError

# These panels come last in the help, in this order.
_LAST_PANELS = {VERDICT: 1, TOOLS: 2, OUTPUT: 3}
# The panel of the options that a command with panels of its own does not name.
_ADVANCED = "Advanced"

DryRun = Annotated[bool, Option("Print the plan and stop.", panel=OUTPUT)]
Json = Annotated[bool, Option("Print JSON on stdout.", ("--json",), OUTPUT)]

Links = Annotated[bool, Option("Measure for two seconds what the links between GPUs, and to the host, carry.")]


def with_options(
    command: Callable[..., None], panels: Mapping[str, Sequence[str]] | None = None
) -> Callable[..., None]:
    """Return the command with an option for each field of its requests, and for each parameter that has one.

    A parameter whose type is a union of two requests is the first of them, or the second where a program is given.

    panels: the options that people use, by the panel of the help; all others are advanced. None leaves the options in
        their own panels.
    """
    hints = get_type_hints(command, include_extras=True)
    kinds = {name: kinds for name, hint in hints.items() if (kinds := _requests_in(hint))}
    options: dict[str, OptionField] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        default = MISSING if parameter.default is parameter.empty else parameter.default
        own = option_field(name, hints[name], default)
        for option in (own,) if own else (each for kind in kinds.get(name, ()) for each in _options_of(kind)):
            options.setdefault(option.flag, option)

    def run(context: typer.Context, **typed: Any) -> None:
        arguments = {name: _choose(context, choices, options, typed) for name, choices in kinds.items()}
        for name in hints.keys() - kinds.keys() - {"return"}:
            arguments[name] = context if hints[name] is typer.Context else typed[name]
        command(**arguments)

    in_order = sorted(options.values(), key=lambda option: _LAST_PANELS.get(option.option.panel, 0))
    if panels is not None:
        in_order = _arrange(in_order, panels)
    is_choice = any(len(choices) > 1 for choices in kinds.values())
    parameters = [_parameter(option, is_optional=is_choice) for option in in_order]
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    run.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (context, *parameters)}
    run.__doc__, run.__name__, run.__module__ = command.__doc__, command.__name__, command.__module__
    return run


def _options_of_command(command: Callable[..., None]) -> list[OptionField]:
    hints = get_type_hints(command, include_extras=True)
    return [option for hint in hints.values() for kind in _requests_in(hint) for option in _options_of(kind)]


def old_words(command: Callable[..., None]) -> dict[str, str]:
    """Return the word of each option that earlier versions called by another word, by that word, without dashes."""
    return {
        old.lstrip("-"): option.flag.lstrip("-")
        for option in _options_of_command(command)
        for old in option.option.old_names
    }


def bare_class(command: Callable[..., None]) -> type[TyperCommand]:
    """Return the class of a command whose options may stand without a value where they define one for that."""
    value_of = {option.flag: option.option.bare for option in _options_of_command(command) if option.option.bare}

    class _WithBareOptions(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            return super().parse_args(ctx, _fill_bare(args, value_of))

    return _WithBareOptions if value_of else TyperCommand


def _fill_bare(words: Sequence[str], value_of: Mapping[str, str]) -> list[str]:
    """Return the words of a command line with a value behind each option that has none."""
    filled: list[str] = []
    for word, following in zip(words, (*words[1:], "--"), strict=True):
        filled.append(word)
        if word in value_of and following.startswith("-"):
            filled.append(value_of[word])
    return filled


def is_given(context: typer.Context, name: str) -> bool:
    """Return whether the user typed an option, so that its value is not only the default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _requests_in(hint: Any) -> tuple[type, ...]:
    return tuple(kind for kind in (get_args(hint) or (hint,)) if is_dataclass(kind) and isinstance(kind, type))


def _options_of(request: type, defaults: Any = None) -> Iterator[OptionField]:
    """Yield the fields that have an option, also those of a request inside this one.

    defaults: a request with other defaults.
    """
    hints = field_hints(request)
    for field in fields(request):
        default = default_of(field) if defaults is None else getattr(defaults, field.name)
        option = option_field(field.name, hints[field.name], default)
        if option is not None:
            panel = option.option.panel or ("" if option.option.is_argument else getattr(request, "PANEL", ""))
            yield replace(option, option=replace(option.option, panel=panel))
        elif is_dataclass(hints[field.name]):
            yield from _options_of(hints[field.name], default)


def _parameter(option: OptionField, *, is_optional: bool) -> inspect.Parameter:
    """Return the parameter that typer makes an option of."""
    said, default, kind = option.option, option.typed_default, option.typed_kind
    shared: dict[str, Any] = {
        "help": said.help, "metavar": said.metavar or None, "rich_help_panel": said.panel or None,
        "min": said.min, "max": said.max, "show_default": said.shows_default,
    }  # fmt: skip
    info = typer.Argument(**shared) if said.is_argument else typer.Option(*option.names, **shared)
    if default is MISSING and is_optional:
        kind, default = kind | None, None
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[kind, info],
    )


def _arrange(options: Sequence[OptionField], panels: Mapping[str, Sequence[str]]) -> list[OptionField]:
    """Return the options in the order of the panels, each with its panel; the advanced ones come last."""
    panel_of = {flag: panel for panel, flags in panels.items() for flag in flags}
    place_of = {flag: place for place, flag in enumerate(panel_of)}
    moved = [
        option
        if option.option.is_argument
        else replace(option, option=replace(option.option, panel=panel_of.get(option.flag, _ADVANCED)))
        for option in options
    ]
    return sorted(moved, key=lambda option: place_of.get(option.flag, len(place_of)))


def _choose(
    context: typer.Context, choices: Sequence[type], options: Mapping[str, OptionField], typed: Mapping[str, Any]
) -> Any:
    """Return the request that was typed. Raises UsageError for an option that only the other one has."""
    chosen = choices[-1] if typed.get("argv") else choices[0]
    known = {option.flag for option in _options_of(chosen)}
    for other in choices:
        for option in _options_of(other):
            if option.flag in known or option.option.is_argument or not is_given(context, options[option.flag].name):
                continue
            if chosen is not choices[0]:
                raise UsageError(
                    f"{option.flag} is an option of the grid, but a program was given.",
                    "Leave it out; options of the program follow its name.",
                )
            raise UsageError(f"{option.flag} needs a program, and none was given.", "Add -- PROGRAM [ARGUMENTS].")
    given = {option.flag for option in options.values() if is_given(context, option.name)}
    for option in options.values():
        excluded = next((flag for flag in option.option.excludes if flag in given), None)
        if option.flag in given and excluded is not None:
            raise UsageError(f"{option.flag} and {excluded} exclude each other.", f"Leave {excluded} out.")
    return _request(chosen, {option.flag: typed[option.name] for option in options.values()}, given)


def _request(kind: type, typed: Mapping[str, Any], given: set[str], defaults: Any = None) -> Any:
    """Return the request with what was typed; what was not keeps the request's own default."""
    hints, values = field_hints(kind), {}
    for field in fields(kind):
        default = default_of(field) if defaults is None else getattr(defaults, field.name)
        option = option_field(field.name, hints[field.name], default)
        if option is not None:
            value = typed[option.flag]
            if option.flag in given or value != option.typed_default:
                values[field.name] = option.read(value)
        elif is_dataclass(hints[field.name]):
            values[field.name] = _request(hints[field.name], typed, given, default)
    return kind(**values) if defaults is None else replace(defaults, **values)


def command_line() -> str:
    """Return the command line that the user typed. Paths are reduced to their last part, because reports are shared."""
    arguments = [f"{argument[: argument.find('=') + 1]}{Path(argument).name}" if "/" in argument else argument
                 for argument in sys.argv[1:]]  # fmt: skip
    return shlex.join(["nsysprof", *arguments])
