"""Hooks of the documentation site: Python API and gallery from the code, and pages that lie beside docs/.

mkdocs calls the functions named on_*. The studies in analysis/, the provenance of traces/ and the project's own pages
are added where they lie in the repository, so that their relative links keep working.
"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import nsysprof

ROOT = Path(__file__).resolve().parents[1]
_BESIDE = ("analysis/*/*.md", "analysis/*/*/*.md", "analysis/*/*.png", "analysis/*/*/*.png", "traces/README.md")
_PROJECT = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")
_API, _GALLERY = "<!-- api -->", "<!-- gallery -->"
# A row of docs/gallery.md: the name of a report and the command that makes it.
_REPORT = re.compile(r"^\| (\w+) \| .* \| `nsysprof ([^`]+)` \|$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and figures that lie outside docs/."""
    for pattern in (*_BESIDE, *_PROJECT):
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    for name, page in make_gallery().items():
        files.append(File.generated(config, f"gallery/{name}.html", content=page))
    return files


def list_gallery() -> dict[str, list[str]]:
    """Return the arguments of nsysprof that make each report of the gallery."""
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    return {row[1]: row[2].split() for row in _REPORT.finditer(text)}


def make_gallery() -> dict[str, str]:
    """Return the pages of the gallery, made of the traces in the repository by the package as it is."""
    pages = {}
    if os.environ.get("GALLERY") == "0":  # links still lead somewhere, in a site that nobody reads
        return dict.fromkeys(list_gallery(), "")
    for name, arguments in list_gallery().items():
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / name
            command = [sys.executable, "-m", "nsysprof", *arguments, "--out", str(out)]
            subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            pages[name] = (out / "report.html").read_text(encoding="utf-8")
    return pages


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in the API and the gallery, and turn links into the repository into links of the site."""
    source = page.file.src_uri
    if _API in markdown:
        markdown = markdown.replace(_API, render_api())
    if _GALLERY in markdown:
        links = [f"- [{name}](gallery/{name}.html)" for name in list_gallery()]
        markdown = markdown.replace(_GALLERY, "\n".join(links))
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


def render_api() -> str:
    """Return the reference of all public names, from their docstrings."""
    parts = []
    for name, home in nsysprof._HOMES.items():
        parts += [f"## nsysprof.{name}", "", f"::: {home}.{name}", ""]
    return "\n".join(parts)
