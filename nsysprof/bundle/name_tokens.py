"""Replace the user's names by tokens, and the private parts of a text. Equal names get equal tokens everywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from nsysprof.attention.range_name import parse_range
from nsysprof.bundle.public_names import (
    is_public_call,
    is_public_kernel,
    is_public_module,
    is_public_module_class,
    is_public_operator,
    is_public_range,
    is_revealed_by,
    public_backends,
)
from nsysprof.torchprof.operator_facts import LAYER, RangeText, read_layer, read_range_text
from nsysprof.trace.table_readers.layer_ranges import CompileRange, LayerRange, read_compile_range, read_layer_range

# `reduction` is recognised by "reduce" in a name, every other category by its own word.
_NAMED_IN_TEXT = re.compile(r"(?P<range>RUN::[\w.:=]*\w)|(?<![\w.])[A-Za-z_][\w.]*:[A-Za-z_]\w*")


# What the name of an operator says of its work, which a token keeps; see nsysprof.analysis.busy_time.operator_work.
_WORK_OF_OPERATOR = (
    ("gather", re.compile(r"embedding|gather|index|take|scatter")),
    ("norm", re.compile(r"norm|softmax", re.IGNORECASE)),
    ("attention", re.compile(r"attention")),
)
# No program calls as many; a longer number says something else.
_MOST_OPERATORS = 10**12
# What stands before the name of a node of autograd or of an optimizer.
_OPERATOR_PREFIX = re.compile(r"autograd::engine::evaluate_function: |Optimizer\.(?:step|zero_grad)#|")


def _no_category(_name: str) -> str:
    return "other"


class NameTokens:
    """Replaces names of ranges, kernels and backends by numbered tokens, or keeps them all.

    categorize: returns the category of a kernel's name. The token contains it, so that it stays in that category.
    """

    def __init__(self, *, keep: bool = False, categorize: Callable[[str], str] = _no_category) -> None:
        self.keep = keep
        self._categorize = categorize
        self._backends = public_backends()
        self._tokens: dict[tuple[str, str], str] = {}
        self._count: dict[str, int] = {}

    def replaced(self) -> dict[str, str]:
        """Return every name that got a token, to show to the person who shares."""
        return {token: name for (_, name), token in self._tokens.items()}

    def counts(self) -> dict[str, int]:
        """Return how many names of each kind were replaced."""
        return dict(sorted(self._count.items()))

    def kernel(self, name: str) -> str:
        """Return the token of a kernel's or operator's name, or the name where it stays."""
        if self.keep or is_public_kernel(name):
            return name
        category = self._categorize(name)
        return self._token("kernel", name, "" if category == "other" else f" {category}")

    def call(self, name: str) -> str:
        return name if self.keep or is_public_call(name) or is_public_kernel(name) else self._token("call", name)

    def range(self, name: str) -> str:
        """Return the token of the name of a range, mark, domain or thread, or the name where it stays."""
        if self.keeps_range(name):
            return name
        parsed = parse_range(name)
        if parsed is not None:
            return name.replace(f"::{parsed.backend}::", f"::{self.backend(parsed.backend)}::", 1)
        layer = read_layer_range(name)
        if layer is not None and "optimizer" not in layer.way:
            return self._layer(name, layer)
        compiled = read_compile_range(name)
        if compiled is not None:
            return self._compile(compiled)
        operator = read_range_text(name)
        if operator is None or max(operator.op_id, operator.seq or 0) >= _MOST_OPERATORS:
            return self._token("range", name)
        return self._operator_range(operator)

    def operator(self, name: str) -> str:
        """Return the token of an operator's name, or the name where it is one of torch's."""
        if self.keep or is_public_operator(name):
            return name
        prefix = _OPERATOR_PREFIX.match(name)
        before = "" if prefix is None else prefix[0]
        of_work = "".join(f" {word}" for word, pattern in _WORK_OF_OPERATOR if pattern.search(name))
        # An operator that works in place ends with an underscore.
        return before + self._token("operator", name, of_work) + "_" * name.endswith("_")

    def _operator_range(self, operator: RangeText) -> str:
        """Return the range of an operator, or of a module that was recorded with them, without its sizes."""
        layer = read_layer(operator.name)
        if layer is None:
            name = self.operator(operator.name)
        else:
            path, place = layer
            parts = [part if is_public_module(part) else self._token("module", part) for part in path.split(".")]
            name = LAYER + ".".join(parts)
            if place:
                file, _, line = place.rpartition(":")
                name += f" @ {self._token('file', file)}:{line}"
        seq = "" if operator.seq is None else f", seq = {operator.seq}"
        return f"{name}{seq}, op_id = {operator.op_id}"

    def _compile(self, compiled: CompileRange) -> str:
        """Return the range of a compilation in which the function is a token, without its place and the reason."""
        return f"nsysprof compile {compiled.kind} {self._token('function', f'{compiled.what} {compiled.place}')} (:0)"

    def _layer(self, name: str, layer: LayerRange) -> str:
        """Return the range of a module in which the user's own names are tokens, so that it is still a module's."""
        parts = [part if is_public_module(part) else self._token("module", part) for part in layer.layer.split(".")]
        kind = layer.kind if is_public_module_class(layer.kind) else self._token("class", layer.kind)
        return f"{name[: name.index(layer.layer)]}{'.'.join(parts)} ({kind})"

    def keeps_range(self, name: str) -> bool:
        """Return whether the name of a range stays as it is."""
        return self.keep or is_public_range(name, self._backends)

    def backend(self, name: str) -> str:
        """Return the token of a user's own backend, in a form that a range name can contain."""
        if self.keep or name in self._backends:
            return name
        return self._numbered("backend", name, "backend_{}")

    def is_own_backend(self, name: str) -> bool:
        """Return whether a backend is the user's own, so that its messages are private too."""
        return not self.keep and name not in self._backends

    def text(self, text: str) -> str:
        """Return a text of our own files with the user's names replaced: a backend, a range, or a message with one."""
        if self.keep:
            return text
        if ("backend", text) in self._tokens:
            return self._tokens["backend", text]
        return _NAMED_IN_TEXT.sub(self._in_text, text)

    def _in_text(self, match: re.Match[str]) -> str:
        if match["range"]:
            return self.range(match[0]) if parse_range(match[0]) else match[0]
        return self._tokens.get(("backend", match[0]), match[0])

    def _token(self, kind: str, name: str, suffix: str = "") -> str:
        return self._numbered(kind, name, f"<{kind}-{{}}{suffix}>")

    def _numbered(self, kind: str, name: str, pattern: str) -> str:
        if (kind, name) not in self._tokens:
            self._count[kind] = self._count.get(kind, 0) + 1
            self._tokens[kind, name] = pattern.format(self._count[kind])
        return self._tokens[kind, name]


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
