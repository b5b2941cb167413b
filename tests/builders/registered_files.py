"""Look up a table file in the registry of columns."""

from nsysprof.results.column_registry.column import FILES, TableFile


def find_file(folder: str, name: str) -> TableFile:
    """Return the file with this name in this kind of folder."""
    return FILES[f"{folder}/{name}"]
