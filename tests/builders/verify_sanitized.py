"""Verify a sanitized trace by itself, without a bundle."""

from collections.abc import Iterable
from pathlib import Path

from nsysprof.bundle.secret_values import collect_secrets
from nsysprof.bundle.verify import find_leaks
from nsysprof.trace.open import open_trace


def verify_sanitized(source: Path, target: Path, extra_secrets: Iterable[str] = ()) -> list[str]:
    """Return which private values of the source are still in the target, one line each; empty when it is clean.

    A line shows the first two characters of a value and its length, never the value.
    """
    with open_trace(source) as trace:
        secrets = collect_secrets(trace.connection)
    return find_leaks(target, secrets | {text for text in extra_secrets if text})
