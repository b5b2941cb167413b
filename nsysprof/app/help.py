"""Run the use case `help`: read the pages of the documentation, which are part of the package."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from nsysprof.errors import MissingToolError, UsageError

# An installed wheel has the pages beside this module (hatch_build.py); a copy of the repository has them in docs/.
_PLACES = (Path(__file__).with_name("pages"), Path(__file__).parents[2] / "docs")
# Pages of the site that are lists of others, or that the site makes of the program itself.
_NO_TOPICS = ("index", "api", "cli")
_NEAR = 4
_COMMENT, _IMAGE = re.compile(r"^<!--.*?-->\n+", re.M | re.S), re.compile(r"^!\[[^]]*\]\([^)]*\)\n", re.M)
_LINK = re.compile(r"\[([^]]+)\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")


@dataclass(frozen=True)
class HelpTopic:
    """A page of the documentation."""

    name: str
    title: str


@dataclass(frozen=True)
class HelpPage:
    """A page of the documentation with its text, which is Markdown."""

    topic: HelpTopic
    text: str


def list_topics() -> list[HelpTopic]:
    """Return all topics in the order of their names. Raises MissingToolError where the installation has no pages."""
    return [HelpTopic(name, _title(path)) for name, path in _pages().items()]


def read_page(name: str) -> HelpPage:
    """Return a page. Raises UsageError for a topic that does not exist, and MissingToolError as list_topics does."""
    pages = _pages()
    wanted = name.lower().removeprefix("docs/").removesuffix(".md")
    if wanted not in pages:
        near = get_close_matches(wanted, pages, n=_NEAR, cutoff=0.5)
        holding = [topic for topic in pages if wanted in topic]
        nearest = ", ".join(dict.fromkeys((*near, *holding)))
        raise UsageError(
            f"There is no topic {name!r}.",
            f"{f'Nearest: {nearest}. ' if nearest else ''}nsysprof help lists all topics, and nsysprof COMMAND --help "
            "the options of a command.",
        )
    text = pages[wanted].read_text(encoding="utf-8")
    return HelpPage(HelpTopic(wanted, _title(pages[wanted])), _for_terminal(text, wanted, pages))


def _pages() -> dict[str, Path]:
    for folder in _PLACES:
        paths = {path.stem: path for path in sorted(folder.glob("*.md")) if path.stem not in _NO_TOPICS}
        if paths:
            return paths
    raise MissingToolError(
        "This installation of nsysprof lacks its documentation.", "Install it again: pip install --force-reinstall."
    )


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix("# ").strip()


def _for_terminal(text: str, own: str, pages: dict[str, Path]) -> str:
    """Return the text of a page without what only a browser shows, and with commands in place of links to pages."""

    def name_command(link: re.Match[str]) -> str:
        topic = Path(link[2]).stem if link[2].endswith(".md") and "/" not in link[2] else ""
        is_other = topic in pages and topic != own
        return f"{link[1]} (`nsysprof help {topic}`)" if is_other else link[1]

    return _LINK.sub(name_command, _IMAGE.sub("", _COMMENT.sub("", text)))
