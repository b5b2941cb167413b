"""Let one run at a time write an output file, which is the older one or the newer one at every moment."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nsysprof.files.folder_lock import hold_lock


@contextmanager
def claim_file(path: Path) -> Iterator[None]:
    """Let no other run write `path`, and remove what killed runs left beside it. Raises OutputError when one does.

    The file itself is written with nsysprof.files.output's `write_whole` or `open_whole`.
    """
    whole = path.absolute()
    with hold_lock(whole):
        leftover = re.compile(rf"\.{re.escape(whole.name[:100])}\.[0-9a-f]{{16}}\.part")
        with contextlib.suppress(OSError):
            for other in whole.parent.iterdir():
                if leftover.fullmatch(other.name):
                    other.unlink(missing_ok=True)
        yield
