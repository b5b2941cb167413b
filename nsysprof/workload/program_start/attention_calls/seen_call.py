"""Define the counts of attention calls that share a shape and a line, and how long recording some of them took."""

from __future__ import annotations

from typing import Any

_LONGEST_NAME = 500
_SPARE = 20  # more than the digits of a length
_MOST_SAMPLES = 100_000
# The part of the samples that counts: a process that is not alone is interrupted now and then.
_KEPT = 0.95
_KEYS = (
    ("batch", "B"), ("heads", "H"), ("kv_heads", "KV"), ("seq_q", "Q"), ("seq_kv", "K"), ("head_dim", "D"),
    ("head_dim_v", "DV"), ("dtype", "dtype"), ("causal", "causal"), ("mask", "mask"), ("dropout", "p"),
    ("layout", "layout"),
)  # fmt: skip


class Seen:
    """Calls of one shape from one line of the program."""

    __slots__ = (
        "after", "backward", "before", "facts", "forward", "forward_name", "function", "hooks", "one_node", "paths",
        "site", "training",
    )  # fmt: skip

    def __init__(self, function: str, facts: dict[str, Any], site: str, forward_name: str = "") -> None:
        self.function, self.facts, self.site = function, facts, site
        self.forward = self.backward = self.training = 0
        self.forward_name = forward_name or self._name("fwd")
        # The way from the node of the result to the last node of the backward pass, by the type of the former.
        self.paths: dict[type, tuple[int, ...]] = {}
        # The last type of result whose whole backward pass is its one node, as that of fused backends is.
        self.one_node: Any = None
        self.before: Any = None
        self.after: Any = None
        # Those two where they are compiled, which count for themselves.
        self.hooks: Any = None

    @property
    def backward_name(self) -> str:
        return self._name("bwd")

    def with_keys(self, length: int) -> Seen:
        """Return calls of the same kind with keys of another length."""
        name, old = self.forward_name, f"::K={self.facts['seq_kv']}::"
        renamed = name.replace(old, f"::K={length}::", 1) if len(name) < _LONGEST_NAME - _SPARE else ""
        return Seen(self.function, {**self.facts, "seq_kv": length}, self.site, renamed)

    def all_backward(self) -> int:
        """Return the number of all backward passes."""
        return self.backward + (0 if self.hooks is None else self.hooks.count)

    def _name(self, which: str) -> str:
        facts, words = self.facts, ["attention", which, self.function]
        for name, key in _KEYS:
            value = facts.get(name)
            if value is None or (key == "p" and not value) or (key == "DV" and value == facts.get("head_dim")):
                continue
            words.append(f"{key}={int(value) if value.__class__ is bool else value}")
        name = "::".join(words)
        return f"{name}::at={self.site[-(_LONGEST_NAME - len(name)) :]}" if self.site else name

    def to_json(self) -> dict[str, Any]:
        counts = {"forward": self.forward, "backward": self.all_backward(), "training": self.training}
        return {"function": self.function, "site": self.site, **self.facts, **counts}


class TimedCalls:
    """Calls that were timed."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all calls."""
        self.end_ns = self.calls = 0
        self._samples: list[int] = []

    def add(self, spent_ns: int, end_ns: int, calls: int) -> None:
        """Add one call, which ended at end_ns as the one of number `calls`."""
        if len(self._samples) < _MOST_SAMPLES:
            self._samples.append(spent_ns)
        self.end_ns, self.calls = end_ns, calls

    def mean_ns(self) -> float:
        """Return the mean of the calls that were timed (ns), without the slowest, in which something else ran."""
        kept = sorted(self._samples)[: max(1, int(_KEPT * len(self._samples)))]
        return sum(kept) / len(kept) if kept else 0.0

    def least_ns(self) -> int:
        """Return the shortest of the calls that were timed (ns); 0 for none."""
        return min(self._samples, default=0)
