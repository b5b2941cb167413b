"""Define the names and limits of a bundle, for the code that writes bundles and the code that reads them."""

from __future__ import annotations

import re

# The version of bundle.json. 1: the first.
FORMAT_VERSION = 1
# Not MANIFEST.json: a capture has a manifest.json, and some file systems do not distinguish the two.
CONTENTS = "bundle.json"
SUFFIX = ".zip"
# The row of META_DATA_CAPTURE in which a shared trace says what was left out on purpose.
LEFT_OUT = "NSYSPROF:LEFT_OUT"
REPORT_FOLDER = "analysis"
# Flat names and one folder: no name can leave the folder, be absolute, or name a device. Anything else is not a bundle.
MEMBER_NAME = re.compile(rf"(?:{REPORT_FOLDER}/)?[a-z][a-z0-9_]{{0,40}}(?:\.[a-z][a-z0-9_-]{{0,20}}){{1,2}}")

MAX_MEMBERS = 700  # this allows nearly as many ranks
MAX_UNPACKED_BYTES = 8 << 30
# How many times its compressed size a file or a member may have, once it is larger than MAX_FREE_BYTES. Traces are
# compressed about ten times, a million launches of one kernel in a loop seven times. A file of 1.6 MB that unpacked to
# 390 MB took a minute.
MAX_RATIO = 40
MAX_FREE_BYTES = 32 << 20
MAX_DIRECTORY_BYTES = 64 << 10


def plain_title(name: str) -> str:
    """Return a bundle's name in a form that can name a folder: one part, and no character that is special on disk."""
    plain = "".join(c if c.isalnum() or c in "-_.+ " else "_" for c in name[:100]).strip(". ")
    return plain or "bundle"
