"""Restrict what a page may load and run: nothing from outside, and only scripts and styles with known hashes."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

_FOLDER = resources.files("nsysprof.report")


def read_asset(name: str) -> str:
    """Return the text of a file of this package, such as `vendor/echarts.js`."""
    return _FOLDER.joinpath(name).read_text(encoding="utf-8")


def content_security_policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """Return the policy of a page that has exactly these inline scripts and styles."""
    allowed = {"script-src": scripts, "style-src": styles}
    rules = [f"{what} {' '.join(map(_source, texts)) or _NONE}" for what, texts in allowed.items()]
    return "; ".join([f"default-src {_NONE}", "img-src data:", *rules, f"base-uri {_NONE}", f"form-action {_NONE}"])


_NONE = "'none'"


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def json_for_script(data: Any) -> str:
    """Return JSON that cannot end its script element, whatever texts it contains."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
