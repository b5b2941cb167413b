"""Hooks of the documentation site: the commands and the Python API from the code, and pages that lie beside docs/.

mkdocs calls the functions named on_*. The studies in analysis/, the provenance of traces/ and the project's own pages
are added where they lie in the repository, so that their relative links keep working.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

import typer.main
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import nsysprof
from nsysprof.cli import app

ROOT = Path(__file__).resolve().parents[1]
_BESIDE = ("analysis/*/*.md", "analysis/*/*/*.md", "analysis/*/*.png", "analysis/*/*/*.png", "traces/README.md")
_PROJECT = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")
_COMMANDS, _API = "<!-- commands -->", "<!-- api -->"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and figures that lie outside docs/."""
    for pattern in (*_BESIDE, *_PROJECT):
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in the commands and the API, and turn links into the repository into links of the site."""
    source = page.file.src_uri
    if _COMMANDS in markdown:
        markdown = markdown.replace(_COMMANDS, render_commands())
    if _API in markdown:
        markdown = markdown.replace(_API, render_api())
    folder = posixpath.dirname(source if _is_beside(source) else f"docs/{source}")
    here = posixpath.dirname(source)
    known = {file.src_uri for file in files}

    def site_link(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[1]))
        inside = target.removeprefix("docs/")
        anchor = link[2] or ""
        if inside in known:
            return f"]({posixpath.relpath(inside, here or '.')}{anchor})"
        # Only what is in the repository and not on the site leads there; anything else stays and fails the build.
        if (ROOT / target).exists():
            return f"]({config.repo_url}/blob/main/{target}{anchor})"
        return link[0]

    return _LINK.sub(site_link, markdown)


def _is_beside(source: str) -> bool:
    return source in _PROJECT or source.startswith(("analysis/", "traces/"))


def render_commands() -> str:
    """Return the reference of all commands, from the command line's own definition."""
    group: Any = typer.main.get_command(app)
    parts = []
    for name, command in group.commands.items():
        context = command.context_class(command, info_name=f"nsysprof {name}")
        usage = " ".join(["nsysprof", name, *command.collect_usage_pieces(context)])
        parts += [f"## {name}", "", _paragraphs(command.help or ""), "", "```", usage, "```", ""]
        records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
        rows = [f"| `{record[0].strip()}` | {_escape(' '.join(record[1].split()))} |" for record in records if record]
        parts += ["| parameter | meaning |", "|---|---|", *(row for row in rows), ""]
        parts += [_paragraphs(command.epilog), ""] if command.epilog else []
    return "\n".join(parts)


def _paragraphs(text: str) -> str:
    """Help without click's marks: a block after \\b keeps its lines, as code."""
    blocks = []
    for block in re.split(r"\n\s*\n", text.strip()):
        if block.startswith("\b"):
            blocks.append("```\n" + block.removeprefix("\b").strip("\n") + "\n```")
        else:
            blocks.append(_escape(" ".join(block.split())))
    return "\n\n".join(blocks)


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def render_api() -> str:
    """Return the reference of all public names, from their docstrings."""
    parts = []
    for name, home in nsysprof._HOMES.items():
        parts += [f"## nsysprof.{name}", "", f"::: {home}.{name}", ""]
    return "\n".join(parts)
