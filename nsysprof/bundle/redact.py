"""Replace the private parts of one text, and leave the rest readable."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nsysprof.bundle.program_text import is_revealed_by

REDACTED = "<redacted>"
_URL = r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s\"'<>]+"
_EMAIL = r"\b[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+"
# At least two components: `/s` in `tokens/s` and `jit(f)/dot` are not paths.
_UNIX_PATH = r"(?<![\w)\]}>.*/~-])(?:~[\w-]{0,32})?/(?:[\w.+@%~=,#-]+/)+[\w.+@%~=,#-]*"
_HOME_PATH = r"(?<![\w/])(?:/(?:home|root|Users|tmp|mnt|data|scratch|work|workspace|opt|var)|~)(?:/[\w.+@%~=,#-]+)+/?"
_WINDOWS_PATH = r"(?<!\w)(?:[A-Za-z]:\\|\\\\[\w.-]+\\)[^\s\"'<>|:;,]+"
_REST_OF_PATH = r"[^\s\"'<>|:;,()]*"


class Redactor:
    """Replaces paths, URLs and secret values by tokens. Within one redactor, equal texts get equal tokens."""

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
        """Return the text with private parts replaced by numbered tokens, so that different paths stay different."""
        text = self._urls.sub(lambda match: self._token("url", match.group()), text)
        text = self._emails.sub("<email>", text)
        text = self._paths.sub(lambda match: self._token("path", match.group()), text)
        return self._without_secrets(text)

    def redact_to_names(self, text: str) -> str:
        """Return a text of our own JSON with each path cut to its last component, which names the program or file."""
        if re.fullmatch(r"/[^\n:]*/[^\n:]*|[A-Za-z]:[\\/][^\n:]+", text):  # the text is one path, which may have spaces
            return self._without_secrets(_last_component(text))
        text = self._urls.sub(lambda match: self._token("url", match.group()), text)
        text = self._emails.sub("<email>", text)
        text = self._paths.sub(lambda match: _last_component(match.group()), text)
        return self._without_secrets(text)

    def redact_diagnostic(self, text: str) -> str:
        return self._without_secrets(self._paths.sub("<path>", self._urls.sub("<path>", text)))

    def _token(self, kind: str, original: str) -> str:
        return self._tokens.setdefault(original, f"<{kind}-{len(self._tokens) + 1}>")

    def _without_secrets(self, text: str) -> str:
        """Repeat until nothing is found, because removing one secret may join the halves of another."""
        if self._secrets is None:
            return text
        for _ in range(10):
            shorter = self._secrets.sub(_redact_if_told, text)
            if shorter == text:
                return text
            text = shorter
        return REDACTED


def _redact_if_told(match: re.Match[str]) -> str:
    text = match.string
    before, secret = (part.encode("utf-8", "replace") for part in (text[: match.start()][-200:], match.group()))
    whole = before + secret + text[match.end() :][:200].encode("utf-8", "replace")
    return REDACTED if is_revealed_by(whole, len(before), len(before) + len(secret)) else match.group()


def _last_component(path: str) -> str:
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]
