"""Let a Python function take the fields of a request as keywords, as its command takes their options."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from types import GenericAlias
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from nsysprof.app.inputs.option import default_of, field_hints, option_field

Source = str | os.PathLike[str]
Function = TypeVar("Function", bound=Callable[..., Any])
Request = TypeVar("Request")
# Fields that only commands fill.
_OF_COMMANDS = ("command", "stdout_to_stderr")


def takes_fields_of(request: type, *, but: Sequence[str] = ()) -> Callable[[Function], Function]:
    """Return a decorator: its function takes, beside its own parameters, the fields of a request as keywords.

    The signature and the docstring of the function list them. The function gets them as its `**keywords`.

    but: fields that the function decides itself.
    """

    def decorate(function: Function) -> Function:
        own = inspect.signature(function).parameters
        chosen = [field for field in fields(request) if field.name not in {*own, *but, *_OF_COMMANDS}]
        names = {field.name for field in chosen}

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            unknown = sorted(keywords.keys() - own.keys() - names)
            if unknown:
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {unknown[0]!r}")
            return function(*arguments, **keywords)

        hints = field_hints(request)
        keywords = [_keyword(field, hints[field.name]) for field in chosen]
        plain = [parameter for parameter in own.values() if parameter.kind is not parameter.VAR_KEYWORD]
        last = [parameter for parameter in plain if parameter.name == "progress"]
        first = [parameter for parameter in plain if parameter.name != "progress"]
        call.__signature__ = inspect.Signature([*first, *keywords, *last])  # type: ignore[attr-defined]
        call.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{_help_of(chosen, hints)}\n"
        return call  # type: ignore[return-value]

    return decorate


def make_request(request: type[Request], /, **values: Any) -> Request:
    """Return the request with these values. A path may be a text, and a tuple any sequence, or one path alone."""
    hints = get_type_hints(request)
    return request(**{name: _as_field(value, hints[name]) for name, value in values.items()})


def _as_field(value: Any, hint: Any) -> Any:
    if get_origin(hint) is tuple:
        one = get_args(hint)[0]
        parts = (value,) if one is Path and isinstance(value, str | os.PathLike) else value
        return tuple(_as_field(part, one) for part in parts)
    if Path in (hint, *get_args(hint)) and value is not None:
        return Path(value)
    return value


def _keyword(field: Field[Any], hint: Any) -> inspect.Parameter:
    option = option_field(field.name, hint, default_of(field))
    default = default_of(field)
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=_taken(hint if option is None else option.kind),
    )


def _taken(hint: Any) -> Any:
    """Return the type that a function takes for a field of a type."""
    if hint is Path:
        return Source
    if hint == Path | None:
        return Source | None
    return GenericAlias(Sequence, (_taken(get_args(hint)[0]),)) if get_origin(hint) is tuple else hint


def _help_of(chosen: Sequence[Field[Any]], hints: dict[str, Any]) -> str:
    options = [option_field(field.name, hints[field.name], None) for field in chosen]
    return "\n".join(f"{option.name}: {option.option.help}" for option in options if option is not None)
