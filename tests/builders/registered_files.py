"""Look up a table file in the registry of columns."""

from nsysprof.results.column_registry.column import TableFile
from nsysprof.results.column_registry.columns import FILES


def find_file(folder: str, name: str) -> TableFile:
    """Return the file with this name in this kind of folder."""
    (found,) = (file for file in FILES if (file.folder, file.name) == (folder, name))
    return found
