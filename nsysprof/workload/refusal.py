"""Define the errors of backends that cannot be used: refused for these inputs, not loadable, or wrong."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_WARNING_WORDS = {"math": "math", "flash": "flash", "efficient": "mem", "cudnn": "cudnn"}


class IneligibleError(Exception):
    """The backend cannot take these inputs, or its library is missing; the text says which."""


class UnusableBackendError(Exception):
    """The backend cannot be imported or called."""


class WrongResultError(Exception):
    """The backend's result is not the attention of its inputs."""


@contextmanager
def eligibility(backend: str) -> Iterator[None]:
    """Turn torch's refusal of a backend into IneligibleError, with torch's warnings as the reason."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except RuntimeError as error:
            if not re.search(r"No (available kernel|viable backend)", str(error)):
                raise
            reasons = refusal_reasons(backend, [str(warning.message) for warning in caught])
            raise IneligibleError(reasons or f"torch: {str(error).splitlines()[0]}") from error


def refusal_reasons(backend: str, messages: list[str]) -> str:
    """Return the warnings of torch that give the reason for `backend`, without source positions."""
    word = _WARNING_WORDS.get(backend, backend)
    reasons: list[str] = []
    mine = False
    for message in messages:
        text = re.sub(r"\s*\(Triggered internally at [^)]*\)", "", message).strip()
        if text.rstrip(".").endswith("not used because:"):
            mine = text.lower().startswith(word) or word in text.lower().split(" kernel")[0]
        elif mine and "runtime disabled" not in text:
            reasons.append(text)
    return " ".join(dict.fromkeys(reasons))
