"""Name the version of nsysprof that writes a file, so that whoever reads it knows."""

from nsysprof import __version__ as VERSION

__all__ = ["VERSION"]
