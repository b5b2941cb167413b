"""Find the form of a call of scaled_dot_product_attention: the line of the program, the sizes, and whatever counts."""

from __future__ import annotations

import opcode
from typing import Any

_MOST_FORMS = 20_000
# Python 3.11 calls by two instructions, of which a compiled function may be called by the first or by the second.
_FIRST_OF_TWO = opcode.opmap.get("PRECALL", -1)
_BYTES = 4


class Form:
    """What calls have in common that are counted together, as it can be compared piece by piece, and their number."""

    __slots__ = (
        "after", "at", "before", "cast", "code", "dropout", "dtype", "following", "forward", "hash", "is_full", "key",
        "mask", "name", "named", "one_node", "others", "query", "seen", "training",
    )  # fmt: skip

    def __init__(self, seen: Any, frame: Any, query: Any, key: Any) -> None:
        self.seen, self.name = seen, seen.forward_name
        self.code, self.at = frame.f_code, frame.f_lasti
        self.dtype, self.query, self.key = query.dtype, query.shape, key.shape
        self.hash = hash(self.query)
        self.forward: int = 0
        self.training: int = 0
        self.is_full, self.cast = False, None
        self.mask: Any = None
        self.dropout: Any = 0.0
        # dropout_p, is_causal, scale and enable_gqa as the program gives them.
        self.others: tuple[Any, ...] = ()
        # What came after a call of this form the last time that it was another one than before.
        self.following: Any = self
        # The arguments that are given by name; None for none.
        self.named: dict[str, Any] | None = None
        # As Seen has them.
        self.one_node = self.before = self.after = None


class _Place:
    """Where a call was made, as a frame has it."""

    __slots__ = ("f_back", "f_code", "f_lasti", "f_lineno")

    def __init__(self, frame: Any, at: int) -> None:
        self.f_back, self.f_code, self.f_lasti, self.f_lineno = frame.f_back, frame.f_code, at, frame.f_lineno


def settle_place(frame: Any) -> Any:
    """Return a frame with the same instruction for all calls from one place in its code."""
    if _FIRST_OF_TWO < 0 or frame is None or frame.f_code.co_code[frame.f_lasti] != _FIRST_OF_TWO:
        return frame
    return _Place(frame, frame.f_lasti + _BYTES)


class _NoForm:
    """Takes the place of the last form before there is one."""

    code = mask = cast = others = None
    following: Any

    def __init__(self) -> None:
        self.following = self


class FormFinder:
    """All forms of this process, and the number of their calls."""

    __slots__ = ("_calls", "_full", "_known", "count", "due", "last")

    def __init__(self, calls: Any) -> None:
        self._calls, self._full = calls, calls.torch.float32
        self._known: dict[Any, Form] = {}
        self.clear()

    def clear(self) -> None:
        """Forget all forms."""
        self._known.clear()
        # The number of the next call that is timed: the second, since the first is described.
        self.count, self.due, self.last = 0, 2, _NoForm()

    def find(
        self, last: Any, frame: Any, query: Any, key: Any, value: Any, named: dict[str, Any], gqa: Any, more: Any
    ) -> Any:
        """Return the form of a call; None for a call that is told apart otherwise.

        last: the form of the call before, which this one is expected to follow from now on. named: torch's arguments
        other than the tensors. gqa: enable_gqa. more: what torch has added since.
        """
        calls = self._calls
        try:
            frame = settle_place(frame)
            if query.__class__ is not calls.torch.Tensor or more or not calls.is_of_program(frame):
                return None
            dtype, mask = query.dtype, named["attn_mask"]
            cast = calls.cast_of() if dtype is self._full else None
            others = (named["dropout_p"], named["is_causal"], named["scale"], gqa)
            mask_key = None if mask is None else key_of_mask(mask)
            form_key = (id(frame.f_code), frame.f_lasti, dtype, cast, query.shape, key.shape, mask_key, *others)
            form = self._known.get(form_key)
            if form is None:
                if len(self._known) >= _MOST_FORMS:
                    return None
                kwargs = named if gqa is None else {**named, "enable_gqa": gqa}
                seen = None
                if mask is None and last.mask is None and last.others == others and last.cast is cast:
                    seen = calls.find_longer(last, frame, query, key, value, kwargs)
                if seen is None:
                    seen = calls.find("sdpa", (query, key, value), kwargs, frame, "fwd")
                if seen is None:
                    return None
                form = _form_of(seen, frame, query, key, named, gqa)
                form.is_full, form.cast = dtype is self._full, cast
                kept = self._known.setdefault(form_key, form)
                if kept is form:  # and no other thread was faster
                    seen.forms.append(form)
                form = kept
        except Exception:  # noqa: BLE001 - other arguments, or tensors without these facts
            return None
        last.following = form
        return form


def key_of_mask(mask: Any) -> tuple[Any, ...]:
    """Return what tells masks apart."""
    return mask.shape, mask.dtype, mask.requires_grad


def given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that differ from torch's defaults, which are false."""
    return {name: value for name, value in arguments.items() if value is not None and value is not False}


def _form_of(seen: Any, frame: Any, query: Any, key: Any, named: dict[str, Any], gqa: Any) -> Form:
    form = Form(seen, frame, query, key)
    mask, dropout = named["attn_mask"], named["dropout_p"]
    form.mask = None if mask is None else key_of_mask(mask)
    form.dropout = 0.0 if dropout is False else dropout
    form.others = dropout, named["is_causal"], named["scale"], gqa
    by_name = {name: value for name, value in (("scale", named["scale"]), ("enable_gqa", gqa)) if value is not None}
    form.named = by_name or None
    return form
