"""Read JSON files into types, and encode values as JSON. An error for a damaged file names the file and the field.

The types are frozen dataclasses and msgspec structs. Each of our files begins with `format_version`. A file with a
newer version than this nsysprof knows is refused before anything else is read from it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from nsysprof import __version__
from nsysprof.errors import NsysprofError, TraceError
from nsysprof.plain_text import CONTROL_IN_LINES

T = TypeVar("T")
# The field with which each file names the version that wrote it.
VERSION = __version__
_LARGEST_BYTES = 1 << 30
_LONGEST_FIELD = 120


class FileHeader(msgspec.Struct):
    """The fields with which each of our files begins."""

    format_version: int
    nsysprof_version: str = "of unknown version"


def encode_json(value: object) -> bytes:
    """Return dataclasses, structs and plain values, also those of numpy, as JSON that ends with a newline.

    A number that is not finite becomes null. Bytes of a path that are not UTF-8 survive as lone surrogates.
    """
    try:
        text = msgspec.json.format(msgspec.json.encode(value, enc_hook=_plain), indent=1).decode()
        return _escape_controls(text).encode() + b"\n"
    except UnicodeEncodeError:
        return (json.dumps(msgspec.to_builtins(value, enc_hook=_plain), indent=1) + "\n").encode()


def plain_json(data: Any, indent: int | None = 1) -> str:
    """Return JSON with readable letters and escaped control characters, and with a newline at its end."""
    text = json.dumps(data, ensure_ascii=False)
    if indent is not None:
        try:
            text = msgspec.json.format(text, indent=indent)  # several times faster than the encoder of Python
        except (msgspec.DecodeError, UnicodeEncodeError):  # NaN, or half of a character
            text = json.dumps(data, indent=indent, ensure_ascii=False)
    return _escape_controls(text) + "\n"


def _escape_controls(text: str) -> str:
    """Return equivalent JSON without any control character in it."""
    return CONTROL_IN_LINES.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def json_value(value: object) -> Any:
    """Return dataclasses and structs as the dicts, lists and plain values that JSON knows."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def _plain(value: Any) -> Any:
    """Return a number of numpy as one of Python."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def read_json(
    path: Path,
    type_: type[T],
    *,
    kind: str,
    advice: str,
    error: type[NsysprofError] = TraceError,
    newest: int | None = None,
    largest_bytes: int = _LARGEST_BYTES,
) -> T:
    """Return the content of a JSON file as `type_`. Raises `error` with the field that is wrong.

    kind: what the file should be, e.g. "a capture's manifest".
    advice: what the user can do when the file is something else.
    newest: the newest format_version that is understood; None for a file without versions.
    largest_bytes: the size above which the file is refused (bytes).
    """
    try:
        is_file, size = path.is_file(), path.stat().st_size
        data = path.read_bytes() if is_file and size <= largest_bytes else b""
    except OSError as failed:
        raise error(f"{path} cannot be read: {failed.strerror}.", advice) from failed
    if not is_file:  # a pipe would block, and a device might never end
        raise error(f"{path} is not a plain file.", advice)
    if size > largest_bytes:
        raise error(f"{path} is too large for {kind} ({size:,} bytes).", advice)
    try:
        if newest is not None:
            header = _decode(data, FileHeader)
            if header.format_version > newest:
                raise error(f"{path} was written by a newer nsysprof ({header.nsysprof_version[:40]}).", "Update it.")
        return _decode(data, type_)
    except (ValueError, RecursionError) as failed:
        raise error(f"{path} is not {kind}: {explain_decoding(failed)}.", advice) from failed


def decode_json(data: bytes | str, type_: type[T]) -> T:
    """Return JSON text as `type_`. Raises ValueError that names the wrong field."""
    try:
        return _decode(data, type_)
    except (ValueError, RecursionError) as failed:
        raise ValueError(explain_decoding(failed)) from failed


def _decode(data: bytes | str, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as failed:
        if "surrogate" not in str(failed):
            raise
        return msgspec.convert(json.loads(data), type_)


def explain_decoding(failed: Exception) -> str:
    """Return what msgspec found wrong as text for a user: `cases[0].seq: expected int, got str`."""
    if isinstance(failed, RecursionError):
        return "it is nested too deeply"
    if isinstance(failed, UnicodeDecodeError):
        return "it is not UTF-8 text"
    text, _, where = str(failed).partition(" - at `")
    text = text.replace("`", "").replace("JSON is malformed", "it is not JSON")
    text = text.replace("Input data was truncated", "it is empty or ends too early")
    text = re.sub(r"Object missing required field (\S+)", r"the field \1 is missing", text)
    text = text[:1].lower() + text[1:] if text.startswith(("Expected", "Number", "Invalid")) else text
    field = where.removesuffix("`").removeprefix("$").removeprefix(".")[:_LONGEST_FIELD]
    return f"{field}: {text}" if field else text
