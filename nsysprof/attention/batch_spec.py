"""Read the batch grammar of vLLM's attention benchmarks: the queries and the context of each sequence.

    8q1s1k            8 sequences that decode: 1 query each, 1,024 keys
    q1ks4k            a chunk of a prefill: 1,024 queries, the last of 4,096 keys
    2q2k_32q1s1k      a mixed batch: 2 prefills of 2,048 and 32 sequences that decode

A group is [COUNT]qQUERIES[k][sKEYS[k]]; k is times 1,024, and the keys are those of the queries too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from nsysprof.errors import UsageError

_SIZE = r"([1-9][0-9]{0,8})(k?)"
_GROUP = re.compile(rf"([1-9][0-9]{{0,8}})?q{_SIZE}(?:s{_SIZE})?")
_EXAMPLES = "8q1s1k decodes 8 sequences of 1,024 keys, q1ks4k is a chunk of a prefill, 2q2k_32q1s1k a mixed batch"
# What people write instead, and what it should be.
_SLIPS = (
    (r"\s+", ""),
    (r"[+;/|-]", "_"),
    (r"(?<=\d)[x*](?=q)", ""),
    (r"ctx|kv", "s"),
    (r"(?<=\d)(k?)b(?=$|_|s)", r"\1"),
    (r"(^|_)(\d*)s(\d+k?)(?=$|_)", r"\1\2q1s\3"),
    (r"q(?=s)", "q1"),
    (r"(^|_)(\d+k?)(?=$|_)", r"\1q\2"),
    (r"_+", "_"),
    (r"^_|_$", ""),
)


class BatchGroup(NamedTuple):
    """Sequences of equal lengths in a batch."""

    sequences: int
    queries: int
    # All keys that a sequence has, with those of its queries.
    keys: int


def parse_batch_specs(specs: Sequence[str]) -> list[BatchGroup]:
    """Return the groups of all batches without repeats. Raises UsageError for a spec that is not of the grammar."""
    return list(dict.fromkeys(_parse_group(part, spec) for spec in specs for part in spec.split("_")))


def _parse_group(part: str, spec: str) -> BatchGroup:
    match = _GROUP.fullmatch(part)
    if match is None:
        near = _nearest(spec)
        hint = f"Did you mean {near}? " if near else ""
        what = f"'{part}' in '{spec}'" if part != spec else f"'{spec}'"
        raise UsageError(
            f"--batch-spec: {what} is not [COUNT]qQUERIES[k][sKEYS[k]].",
            f"{hint}{_EXAMPLES[0].upper()}{_EXAMPLES[1:]}.",
        )
    count, queries, many_queries, keys, many_keys = match.groups()
    length = int(queries) * (1024 if many_queries else 1)
    context = length if keys is None else int(keys) * (1024 if many_keys else 1)
    if context < length:
        raise UsageError(
            f"--batch-spec {part}: {context:,} keys are fewer than the {length:,} queries, whose keys are among them.",
            f"Did you mean {count or ''}q{queries}{many_queries}s{queries}{many_queries}, or "
            f"{count or ''}q{keys}{many_keys}s{queries}{many_queries}?",
        )
    return BatchGroup(int(count or 1), length, context)


def _nearest(spec: str) -> str:
    """Return what was probably meant, or "" where no usual slip explains it."""
    text = spec.lower()
    for slip, right in _SLIPS:
        text = re.sub(slip, right, text)
    return text if all(_GROUP.fullmatch(part) for part in text.split("_")) else ""
