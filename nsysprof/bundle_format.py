"""What a bundle is called inside: shared by what writes one and what reads it."""

from __future__ import annotations

import re

# History of bundle.json. 1: first.
FORMAT_VERSION = 1
# Not MANIFEST.json: a capture has a manifest.json, and some disks take the two for one.
CONTENTS = "bundle.json"
SUFFIX = ".zip"
# The row of a shared trace's META_DATA_CAPTURE that says what was left out of it on purpose.
LEFT_OUT = "NSYSPROF:LEFT_OUT"
REPORT_FOLDER = "analysis"
# Flat names, and one folder: nothing that could climb, be absolute or name a device. An archive with more is no bundle.
MEMBER_NAME = re.compile(rf"(?:{REPORT_FOLDER}/)?[a-z][a-z0-9_]{{0,40}}(?:\.[a-z][a-z0-9_-]{{0,10}}){{1,2}}")

MAX_MEMBERS = 700  # of as many ranks, nearly
MAX_UNPACKED_BYTES = 8 << 30
# How many times its packed size a member may be, once it is larger than MAX_FREE_BYTES. Traces pack some ten times,
# and one that repeats itself for ten million kernels some hundred times; a bomb packs a thousand times and more.
MAX_RATIO = 400
MAX_FREE_BYTES = 32 << 20
MAX_DIRECTORY_BYTES = 64 << 10


def plain_title(name: str) -> str:
    """A bundle's name as that of a folder: one part, without anything that a disk takes for more."""
    plain = "".join(c if c.isalnum() or c in "-_.+ " else "_" for c in name[:100]).strip(". ")
    return plain or "bundle"
