"""Parsing of comma-separated options, for all commands."""

from __future__ import annotations

from nsysprof.errors import UsageError


def parse_names(text: str) -> list[str]:
    """`math, flash` -> ["math", "flash"]."""
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_sizes(option: str, text: str) -> list[int]:
    """`1024,2048` -> [1024, 2048]. Raises UsageError for anything that is not an integer."""
    sizes = []
    for part in parse_names(text):
        try:
            sizes.append(int(part))
        except ValueError:
            raise UsageError(
                f"{option} {part!r} is not an integer.", "Give positive integers, separated by commas."
            ) from None
    return sizes


def parse_causal(text: str) -> list[bool]:
    """`yes`, `no` or `both`. Raises UsageError for anything else."""
    known = {"yes": [True], "no": [False], "both": [True, False]}
    if text not in known:
        raise UsageError(f"--causal {text!r} is none of yes, no, both.", "Give one of them.")
    return known[text]
