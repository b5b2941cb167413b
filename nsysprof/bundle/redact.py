"""Take private parts out of one text and leave the rest readable."""

from __future__ import annotations

import re
from collections.abc import Iterable

REDACTED = "<redacted>"
_URL = r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s\"'<>]+"
_EMAIL = r"\b[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+"
# Two components at least: `/s` in `tokens/s` and `jit(f)/dot` are no paths.
_UNIX_PATH = r"(?<![\w)\]}>.*/~-])(?:~[\w-]{0,32})?/(?:[\w.+@%~=,#-]+/)+[\w.+@%~=,#-]*"
_HOME_PATH = r"(?<![\w/])(?:/(?:home|root|Users|tmp|mnt|data|scratch|work|workspace|opt|var)|~)(?:/[\w.+@%~=,#-]+)+/?"
_WINDOWS_PATH = r"(?<!\w)(?:[A-Za-z]:\\|\\\\[\w.-]+\\)[^\s\"'<>|:;,]+"
_REST_OF_PATH = r"[^\s\"'<>|:;,()]*"


class Redactor:
    """Replaces paths, URLs and secret values by tokens. The same text gets the same token for as long as it lives."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        longest_first = sorted({secret for secret in secrets if secret}, key=lambda text: (-len(text), text))
        paths = [text for text in longest_first if re.match(r"[/\\~]|[A-Za-z]:[\\/]", text) and len(text) > 4]
        known = [f"{re.escape(text.rstrip('/'))}(?![\\w-]){_REST_OF_PATH}" for text in paths if text.strip("/")]
        self._urls = re.compile(_URL)
        self._emails = re.compile(_EMAIL)
        self._paths = re.compile("|".join([*known, _HOME_PATH, _UNIX_PATH, _WINDOWS_PATH]))
        self._secrets = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self._tokens: dict[str, str] = {}

    def redact(self, text: str) -> str:
        """Numbered tokens, so that two different paths stay different."""
        text = self._urls.sub(lambda found: self._token("url", found.group()), text)
        text = self._emails.sub("<email>", text)
        text = self._paths.sub(lambda found: self._token("path", found.group()), text)
        return self._without_secrets(text)

    def redact_to_names(self, text: str) -> str:
        """For our own JSON: a path becomes its last component, which says which program or file was meant."""
        if re.fullmatch(r"/[^\n:]*/[^\n:]*|[A-Za-z]:[\\/][^\n:]+", text):  # nothing but a path, spaces and all
            return self._without_secrets(_last_component(text))
        text = self._urls.sub(lambda found: self._token("url", found.group()), text)
        text = self._emails.sub("<email>", text)
        text = self._paths.sub(lambda found: _last_component(found.group()), text)
        return self._without_secrets(text)

    def redact_diagnostic(self, text: str) -> str:
        return self._without_secrets(self._paths.sub("<path>", self._urls.sub("<path>", text)))

    def _token(self, kind: str, original: str) -> str:
        return self._tokens.setdefault(original, f"<{kind}-{len(self._tokens) + 1}>")

    def _without_secrets(self, text: str) -> str:
        """Again until nothing is found: taking one secret out may put the halves of another together."""
        if self._secrets is None:
            return text
        for _ in range(10):
            shorter = self._secrets.sub(REDACTED, text)
            if shorter == text:
                return text
            text = shorter
        return REDACTED


def _last_component(path: str) -> str:
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]
