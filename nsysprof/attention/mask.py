"""List the choices of each dimension of a grid, and define masks: their texts, and what a window leaves of the scores.

A mask is `none`, or `bool`, `float` or `learned` and which of the axes batch, head, query and key it has (`bool:b11k`),
or a window, `window:LEFT:RIGHT`. Windows are as FlashAttention has them: the last query stands at the last key, and
each query sees LEFT keys before its own place and RIGHT keys after it; `all` hides none on that side.

This module imports nothing heavy, because the help of the command line lists the choices.
"""

from __future__ import annotations

import difflib
import re

from nsysprof.errors import UsageError

BACKENDS = ("math", "flash", "efficient", "cudnn", "auto", "naive")
# What this package registers as an entry point, as any other may.
PLUGINS = ("flex", "flash_attn", "xformers")
# Backends of other libraries, and newer ones of torch, that this package adapts.
SERVED = ("varlen", "flash3", "flash4", "flashinfer", "sage", "te")
DTYPES = ("fp16", "bf16", "fp32")
# How k and v are stored: as q is, or in eight bits (e4m3).
KV_DTYPES = ("same", "fp8")
PASSES = ("fwd", "bwd", "fwdbwd")

# The kind of a mask of numbers that needs a gradient, such as a learned bias. Flash and cuDNN do not take it.
LEARNED = "learned"
MASKS = ("none", "bool", "float", LEARNED)
_AXES = "[b1][h1][q1][k1]"
_SIDE = "(?:all|[0-9]{1,12})"
MASK_PATTERN = rf"^(none|(bool|float|{LEARNED})(:{_AXES})?|window:{_SIDE}:{_SIDE})$"
_WINDOW = re.compile(rf"window:({_SIDE}):({_SIDE})")
# The keys before and after the place of a query that it sees; None for all.
Window = tuple[int | None, int | None]
CAUSAL_WINDOW: Window = (None, 0)


def read_window(mask: str) -> Window | None:
    """Return the window that a mask is, or None for any other mask."""
    match = _WINDOW.fullmatch(mask)
    if match is None:
        return None
    left, right = (None if side == "all" else int(side) for side in match.groups())
    return left, right


def parse_window(text: str) -> Window:
    """Return the window of `LEFT,RIGHT`, where -1 hides nothing on a side. Raises UsageError."""
    sides = [side.strip() for side in text.split(",")]
    if len(sides) == 2 and all(re.fullmatch(r"-1|\d{1,12}", side) for side in sides):
        left, right = (None if side == "-1" else int(side) for side in sides)
        return left, right
    numbers = re.findall(r"\d{1,12}", text)
    near = f"{numbers[0]},{numbers[1] if len(numbers) > 1 else 0}" if numbers else "256,0"
    raise UsageError(
        f"--window {text!r} is not LEFT,RIGHT: how many keys a query sees before and after its own place.",
        f"Did you mean --window {near}? -1 sets no limit on that side; 0 on the right is causal.",
    )


def mask_of_window(window: Window, seq: int, kv_seq: int) -> tuple[str, bool]:
    """Return the mask of a window and whether it is the causal one of torch; `none` where it hides no key.

    Raises UsageError where a query has no place among the keys, so that it would see none.
    """
    if kv_seq < seq:
        raise UsageError(
            f"--window needs at least as many keys as queries, not --kv-seq {kv_seq} for --seq {seq}: the last query "
            "stands at the last key, so the first ones would see none.",
            f"Give --kv-seq {seq} or more, or leave --window out.",
        )
    left, right = window
    left = None if left is not None and left >= kv_seq - 1 else left
    right = None if right is not None and right >= seq - 1 else right
    if left is None and (right is None or (right == 0 and seq == kv_seq)):
        return "none", right == 0
    return ":".join(["window", *("all" if side is None else str(side) for side in (left, right))]), False


def check_masks(masks: tuple[str, ...]) -> None:
    """Raise UsageError for no mask, or for an unknown one. The error names the nearest known one."""
    if not masks:
        raise UsageError("--mask is empty.", f"Give one or more of {', '.join(MASKS)}.")
    for mask in masks:
        kind, colon, axes = mask.partition(":")
        if kind == "window":
            raise UsageError(f"--mask {mask} is not a mask.", "Give --window LEFT,RIGHT, such as --window 256,0.")
        if kind not in MASKS:
            close = difflib.get_close_matches(kind, MASKS, 1, 0.5)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise UsageError(f"Unknown mask '{kind}'.{hint}", f"Known: {', '.join(MASKS)}.")
        if colon and (kind == "none" or not re.fullmatch(_AXES, axes)):
            near = "".join(letter if letter in axes else "1" for letter in "bhqk")
            raise UsageError(
                f"--mask {mask} does not say which of the axes batch, head, query and key the mask has.",
                f"Did you mean {kind if kind != 'none' else 'bool'}:{near}? b, h, q, k in this order; 1 for an axis "
                "that it lacks.",
            )


def hidden_before(window: Window, seq: int, kv_seq: int) -> int:
    """Return how many keys no query sees: those before the first query's window."""
    left = window[0]
    return 0 if left is None else max(0, kv_seq - seq - left)


def visible_scores(window: Window, seq: int, kv_seq: int) -> int:
    """Return how many pairs of a query and a key a window leaves, where there are as many keys as queries or more."""
    left, right = window
    before = 0 if left is None else _triangle(kv_seq - 1 - left) - _triangle(kv_seq - seq - 1 - left)
    after = 0 if right is None else _triangle(seq - 1 - right)
    return seq * kv_seq - before - after


def _triangle(count: int) -> int:
    """Return 1 + 2 + ... + count, 0 for less than one."""
    return count * (count + 1) // 2 if count > 0 else 0
