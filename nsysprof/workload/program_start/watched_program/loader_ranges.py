"""Open a range around each batch that a captured program takes from a data loader of torch.

The main thread waits in it for its workers, which may be too slow, while a server that waits for requests loses
nothing. It needs only torch, because it runs in the program's own Python. The ranges have the name in NAME, which
nsysprof.trace.table_readers.layer_ranges reads.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from ..attention_calls.range_marker import find_marker
from .after_import import after_import, attempt

NAME = "nsysprof load"
_MODULE, _WHAT = "torch.utils.data.dataloader", "data loaders"


def begin(torch: Any) -> None:
    """Watch this process, which has just imported torch."""
    push, pop, origin = find_marker(torch)
    if origin not in ("nvtx", "torch"):
        return
    wrap = functools.partial(mark_batches, push=push, pop=pop)
    if _MODULE in sys.modules:
        attempt(lambda: wrap(sys.modules[_MODULE]), f"the program's {_WHAT} are not recorded")
    else:
        after_import(_MODULE, _WHAT, wrap)


def mark_batches(module: Any, push: Callable[[str], Any], pop: Callable[[], Any]) -> None:
    """Let each iterator of torch's module of data loaders open a range while it returns a batch."""
    iterator = module._BaseDataLoaderIter
    original = iterator.__next__

    @functools.wraps(original)
    def next_batch(self: Any) -> Any:
        push(NAME)
        try:
            return original(self)
        finally:
            pop()

    iterator.__next__ = next_batch
