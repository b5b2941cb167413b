"""Provide the field with which each file names the version of nsysprof that wrote it."""

from nsysprof import __version__ as VERSION

__all__ = ["VERSION"]
