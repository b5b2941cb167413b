"""Make frozen dataclasses whose classes take a fifth of the time to define: their methods are shared, not generated.

`dataclass(frozen=True)` of Python 3.11 writes and compiles seven functions for each class, which takes half a
millisecond. Nearly two hundred classes are defined before a small trace is read. Here only `__init__` is compiled. All
else is as with the original: `fields`, `replace`, `asdict`, `match`, equality by value, and attributes that keep their
value.
"""

from __future__ import annotations

import dataclasses
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - given on to others
else:

    def dataclass(*, frozen, kw_only=False):
        """Return a decorator that makes a frozen dataclass. `frozen` is there to be read, and must be true."""
        if not frozen:
            raise TypeError("only frozen classes can share their methods")

        def decorate(cls):
            made = dataclasses.dataclass(repr=False, eq=False, kw_only=kw_only)(cls)
            made._values = tuple(each.name for each in dataclasses.fields(made))
            for name, method in _SHARED.items():
                if name not in cls.__dict__:
                    setattr(made, name, method)
            return made

        return decorate


def _set_once(self: Any, name: str, value: object) -> None:
    """Set an attribute for `__init__`, and never again."""
    if name in self.__dict__ or name not in self._values:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    self.__dict__[name] = value


def _keep(_self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _equals(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return _values_of(self) == _values_of(other)


def _hash(self: Any) -> int:
    return hash(_values_of(self))


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{name}={getattr(self, name)!r}" for name in self._values)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _values_of(value: Any) -> tuple[object, ...]:
    return tuple([getattr(value, name) for name in value._values])


_SHARED = {
    "__setattr__": _set_once,
    "__delattr__": _keep,
    "__eq__": _equals,
    "__hash__": _hash,
    "__repr__": _repr,
}
