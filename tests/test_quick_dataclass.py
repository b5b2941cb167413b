"""Frozen dataclasses with shared methods behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field, replace
from functools import cached_property

import pytest

from nsysprof.quick_dataclass import dataclass


@dataclass(frozen=True)
class Point:
    """A point."""

    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Set a field in the way that frozen classes need."""
        object.__setattr__(self, "x", abs(self.x))

    @cached_property
    def total(self) -> int:
        return self.x + self.y


@dataclasses.dataclass(frozen=True)
class Original:
    x: int
    y: int = 2


@dataclass(frozen=True, kw_only=True)
class Named(Point):
    name: str


@dataclass(frozen=True)
class Plain:
    x: int
    y: int = 2


def test_fields_replace_and_asdict_are_those_of_the_standard_library() -> None:
    assert [each.name for each in dataclasses.fields(Named)] == ["x", "y", "tags", "name"]
    assert replace(Point(-1), y=5) == Point(1, 5)
    assert dataclasses.asdict(Named(3, name="n")) == {"x": 3, "y": 2, "tags": [], "name": "n"}
    assert Plain.__match_args__ == Original.__match_args__


def test_equality_hash_and_text_are_by_value() -> None:
    assert Plain(1) == Plain(1, 2) != Plain(1, 3)
    assert hash(Plain(1)) == hash(Original(1))
    assert {Plain(1), Plain(1, 2)} == {Plain(1)}
    assert Point(1) != Named(1, name="n")
    assert repr(Plain(1)) == "Plain(x=1, y=2)"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1))


def test_no_attribute_changes_appears_or_goes() -> None:
    point = Point(1)
    for name in ("x", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(point, name, 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    assert (point.x, point.total) == (1, 3)


def test_copies_and_pickles_are_equal() -> None:
    point = Point(1, 5, ["a"])
    assert point == copy.deepcopy(point) == pickle.loads(pickle.dumps(point))


def test_only_frozen_classes_are_made() -> None:
    with pytest.raises(TypeError, match="frozen"):
        dataclass(frozen=False)
