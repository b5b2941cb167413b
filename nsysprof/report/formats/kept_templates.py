"""Keep the template of the page as compiled code, because compiling it takes a tenth of the time of a small trace."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import FileSystemBytecodeCache

# The code lies where Python keeps the compiled code of this package, and whoever may write there may change both.
_FOLDER = Path(__file__).resolve().parent / "__pycache__"


def kept_templates(folder: Path = _FOLDER) -> FileSystemBytecodeCache | None:
    """Return where compiled templates are kept; None where Python keeps no compiled code either.

    A template that has changed, or code of another Python or another engine, is compiled again.
    """
    import jinja2

    class Kept(jinja2.FileSystemBytecodeCache):
        def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
            try:
                super().dump_bytecode(bucket)
            except OSError:  # a read-only installation or a full disk: it is compiled each time
                return

        def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
            try:
                super().load_bytecode(bucket)
            except Exception:  # noqa: BLE001 - damaged code can raise anything
                bucket.reset()

    if sys.dont_write_bytecode or not folder.is_dir():
        return None
    return Kept(str(folder), f"%s.jinja-{jinja2.__version__}.{sys.implementation.cache_tag}.code")
