"""Write what a set of remedies needs: a command that changes no code, and a diff of the program's own files."""

from __future__ import annotations

import ast
import difflib
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from nsysprof.app.optimizing.search import side_of
from nsysprof.app.optimizing.trials import Trial
from nsysprof.results.program_runs import ProgramTraits

_SETTINGS = {
    "tf32": (("matmul", "high"),),
    "cudnn": (("cudnn.benchmark", "True"),),
}
# What a line of the program says, and what it says with the remedy.
_REPLACED = {
    "tf32": (
        (r"(allow_tf32\s*=\s*)False", r"\1True"),
        (r"(set_float32_matmul_precision\(\s*)(['\"])highest\2", r"\1\2high\2"),
        (r"(fp32_precision\s*=\s*)(['\"])ieee\2", r"\1\2tf32\2"),
    ),
    "cudnn": ((r"(benchmark\s*=\s*)False", r"\1True"),),
    "gradients": ((r"(set_to_none\s*=\s*)False", r"\1True"),),
}


def command_of(trials: Sequence[Trial], argv: Sequence[str]) -> str:
    """Return the command that runs the program with all of them, without a change of its code."""
    side = side_of(trials)
    program = shlex.join([*argv, *side.arguments])
    options = ["--remedies", ",".join(side.remedies)] if side.remedies else []
    if side.policy is not None:
        setting = next(trial.setting for trial in trials if trial.side.policy is not None)
        options += ["--policy", setting.partition(" --policy ")[2].partition(" -- ")[0]]
    variables = [f"{name}={shlex.quote(value)}" for name, value in side.variables]
    words = ["nsysprof run", *options, "--"] if options else []
    return " ".join([*variables, *words, program])


def diff_of(trials: Sequence[Trial], traits: ProgramTraits | None, argv: Sequence[str]) -> str:
    """Return a unified diff of the program's files, for what is known where it belongs; empty where nothing is.

    Only files below the current folder are changed: others are of a library.
    """
    if traits is None:
        return ""
    edits = _Edits(argv)
    for trial in trials:
        if trial.edit == "setting":
            _edit_setting(trial, traits, edits)
        elif trial.edit == "model":
            for module in traits.modules[:1]:
                _add_after_model(str(module["place"]), trial.paste, edits)
        elif trial.edit in ("optimizer", "loader", "ddp"):
            made = {"optimizer": traits.optimizers, "loader": traits.loaders, "ddp": traits.wrapped}[trial.edit]
            for place in dict.fromkeys(str(item["place"]) for item in made):
                _add_argument(place, trial.paste, edits)
    return edits.diff()


class _Edits:
    """The files that are changed, as they are and as they will be. Lines keep their numbers until the end."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.script = next((word for word in argv if word.endswith(".py") and Path(word).is_file()), "")
        self._lines: dict[Path, list[str]] = {}
        self._texts: dict[Path, str] = {}

    def lines(self, name: str) -> list[str] | None:
        """Return the lines of a file of the program, which may be changed; None for a file of a library."""
        path = Path(name).resolve()
        is_own = path.is_relative_to(Path.cwd()) or (self.script and path == Path(self.script).resolve())
        if not is_own or "site-packages" in path.parts or not path.is_file():
            return None
        if path not in self._lines:
            self._texts[path] = path.read_text(encoding="utf-8", errors="replace")
            self._lines[path] = self._texts[path].splitlines(keepends=True)
        return self._lines[path]

    def text(self, name: str) -> str:
        return self._texts[Path(name).resolve()]

    def diff(self) -> str:
        parts: list[str] = []
        for path, lines in self._lines.items():
            name = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name
            after = "".join(lines).splitlines(keepends=True)
            before = self._texts[path].splitlines(keepends=True)
            parts += difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
        return "".join(part if part.endswith("\n") else f"{part}\n" for part in parts)


def _split(place: str) -> tuple[str, int]:
    name, _, line = place.rpartition(":")
    return name, int(line) if line.isdigit() else 0


def _edit_setting(trial: Trial, traits: ProgramTraits, edits: _Edits) -> None:
    """Change the lines where the program sets it otherwise; where there are none, set it after the import of torch."""
    flags = dict(_SETTINGS.get(trial.kind, ()))
    places = [place for flag, value, place in traits.settings if flag in flags and value != flags[flag]]
    is_changed = False
    for place in places or (traits.zeroing if trial.kind == "gradients" else ()):
        name, line = _split(place)
        lines = edits.lines(name) if name else None
        if lines is None or not 0 < line <= len(lines):
            continue
        for pattern, after in _REPLACED.get(trial.kind, ()):
            changed = re.sub(pattern, after, lines[line - 1])
            is_changed |= changed != lines[line - 1]
            lines[line - 1] = changed
    if not is_changed and trial.kind in _SETTINGS and edits.script:
        script_lines = edits.lines(edits.script) or []
        for number, text in enumerate(script_lines):
            if re.match(r"(import torch\b(?!\.)|from torch\b)", text):
                script_lines[number] = f"{_ended(text)}{trial.paste}\n"
                break


def _add_argument(place: str, argument: str, edits: _Edits) -> None:
    """Add keyword arguments to the call at a place, which may go over several lines."""
    name, line = _split(place)
    lines = edits.lines(name) if name else None
    if lines is None:
        return
    calls = [
        node for node in ast.walk(_parse(edits.text(name)))
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]  # fmt: skip
    words = {part.partition("=")[0] for part in argument.replace(" ", "").split(",")}
    if not calls or any(keyword.arg in words for keyword in calls[0].keywords):
        return
    call = calls[0]
    end, column = (call.end_lineno or call.lineno) - 1, (call.end_col_offset or 1) - 1
    raw = lines[end].encode()
    before = raw[:column].decode()
    comma = "" if f"{''.join(lines[:end])}{before}".rstrip().endswith((",", "(")) else ", "
    lines[end] = f"{before}{comma}{argument}{raw[column:].decode()}"


def _add_after_model(place: str, statement: str, edits: _Edits) -> None:
    """Add a statement after the last assignment of the module that is called at a place, in the same file."""
    name, line = _split(place)
    lines = edits.lines(name) if name else None
    if lines is None:
        return
    tree = _parse(edits.text(name))
    assigned = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    ]  # fmt: skip
    called = [
        node.func.id for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]  # fmt: skip
    for model in called:
        known = [node for node in assigned if getattr(node.targets[0], "id", "") == model and node.lineno < line]
        if known:
            last = max(known, key=lambda node: node.lineno)
            end = (last.end_lineno or last.lineno) - 1
            new = statement.replace("model", model)
            lines[end] = f"{_ended(lines[end])}{' ' * last.col_offset}{new}\n"
            return


def _parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError:
        return ast.Module([], [])


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n"
