"""Lock an output file, so that only one run at a time writes it.

At every moment the file is either the older or the newer one.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nsysprof.files.folder_lock import hold_lock


@contextmanager
def claim_file(path: Path) -> Iterator[None]:
    """Prevent other runs from writing `path`, and remove what killed runs left beside it.

    Raises OutputError when one does.

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
