"""Search a finished bundle for private values: unpack it as a stranger would, and search all of it."""

from __future__ import annotations

import filecmp
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from nsysprof.bundle.allow_list import base_name
from nsysprof.bundle.name_tokens import NameTokens
from nsysprof.bundle.operator_file import OPERATOR_FILE, operator_file_name
from nsysprof.bundle.public_names import is_public_call, is_public_kernel, is_public_range, public_backends
from nsysprof.bundle.source import BundleSource
from nsysprof.bundle.verify import Originals, SecretLeakError, collect_originals, find_originals, texts_of_json
from nsysprof.errors import TraceDamagedError
from nsysprof.trace.inputs.bundle_file import unpack_bundle
from nsysprof.trace.open import open_trace, quote
from nsysprof.trace.table_readers.collective_payloads import FIELDS

_MODULE_TOKEN = re.compile(r"<(module|class)-\d+>")
_TOKEN = re.compile(r"<(kernel|call|range|path|url)-\d+( [a-z]+)?>|<(redacted|email|path)>|backend_\d+")
_NAME_COLUMNS = ("demangledName", "shortName", "mangledName", "nameId", "textId", "text", "name")


@dataclass(frozen=True)
class Searched:
    """How many private values were searched for, and how many texts of the original that were not kept."""

    secrets: int
    texts: int


def check_bundle(
    source: BundleSource,
    shared: Sequence[Path],
    archive: Path,
    markdown: Path,
    title: str,
    names: NameTokens,
    work: Path,
    of_traces: Originals | None = None,
) -> Searched:
    """Search the archive, what is packed in it, and the Markdown for everything that is not shared on purpose.

    Raises SecretLeakError when anything is found, and TraceError when the archive cannot be read as a bundle.

    shared: what each of the source's traces became; empty where no trace is shared.
    of_traces: what originals_of_traces returned for them, where that is known.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            members = set(opened.namelist())
            ours = {name for name in members if name in source.texts or OPERATOR_FILE.fullmatch(name)}
            after = {name: opened.read(name).decode("utf-8") for name in ours}
    except (zipfile.BadZipFile, zlib.error) as error:
        raise TraceDamagedError(f"{archive} is damaged: {error}.", "Make the bundle again.") from error
    originals = _originals(source, title, after, of_traces or originals_of_traces(source, shared))
    packed = {trace.name: trace for trace in shared if f"{trace.name}.xz" in members}
    cancelled = Event()
    with ThreadPoolExecutor(1, thread_name_prefix="unpack") as pool:  # decompression releases the GIL
        unpacking = pool.submit(unpack_bundle, archive, work, cancelled)
        try:
            leaks = find_originals([archive, markdown, *packed.values()], originals)
            for trace in () if names.keep else shared:
                leaks += _unlisted_names(trace)
        except BaseException:
            cancelled.set()
            raise
        folder = unpacking.result()
    leaks += find_originals(_not_searched(folder, packed), originals)
    if leaks:
        more = f" and {len(leaks) - 5} more" if len(leaks) > 5 else ""
        raise SecretLeakError(
            f"Nothing was written: {len(leaks)} texts that must not be shared would be: {'; '.join(leaks[:5])}{more}.",
            "If the bundle's own name contains one, choose another with --out. Otherwise do not share it; report this.",
        )
    return Searched(len(originals.secrets), len(originals.texts))


def originals_of_traces(source: BundleSource, shared: Sequence[Path]) -> Originals:
    """Return what must not be shared of the source's traces.

    shared: as for check_bundle.
    """
    originals = Originals(source.secrets, frozenset(), b"")
    for trace, target in zip(source.traces, shared or (None,) * len(source.traces), strict=True):
        originals = originals.joined(collect_originals(trace, target, source.secrets, source.public))
    return originals


def _not_searched(folder: Path, packed: Mapping[str, Path]) -> Iterator[Path]:
    """Yield the unpacked files, without traces that are byte for byte a file that was searched before."""
    for path in sorted(folder.rglob("*")):
        searched = packed.get(path.name) if path.parent == folder else None
        if path.is_file() and not (searched is not None and filecmp.cmp(path, searched, shallow=False)):
            yield path


def _originals(source: BundleSource, title: str, packed: Mapping[str, str], of_traces: Originals) -> Originals:
    of_operators = {operator_file_name(process): text for process, text in source.operators.items()}
    before, after = (
        frozenset(text for name, content in files.items() for text in texts_of_json(content, name))
        for files in ({**source.texts, **of_operators}, packed)
    )
    # The user chose the title, and the ranks' names are ours, so both explain a text. A secret in the title stays
    # secret.
    ours = {title, *(f"ranks/{rank.name}" for rank in source.ranks)}
    return of_traces.with_texts(before - after, after | source.public | ours)


def _unlisted_names(trace: Path) -> list[str]:
    """Return names in the rebuilt trace that are neither a library's nor tokens, whatever the rebuild decided."""
    backends = public_backends()
    wrong = 0
    for column, texts in shared_texts(trace).items():
        for text in texts:
            plain = _TOKEN.sub("", _MODULE_TOKEN.sub("Module", text))
            if column == "shortName":  # it is part of the kernel's whole name, which is checked
                continue
            if column == "name" and text in FIELDS:  # the words of NCCL for a size or a rank in its ranges
                continue
            fine = not plain.strip() or is_public_kernel(plain) or is_public_call(plain)
            wrong += not (fine or is_public_range(text, backends | set(re.findall(r"backend_\d+", text))))
    return [f"{wrong} names that are not on the list"] if wrong else []


def shared_texts(*traces: Path) -> dict[str, list[str]]:
    """Return every name that rebuilt traces contain, by its column."""
    texts_by_column: dict[str, set[str]] = {}
    for trace in traces:
        _add_texts(trace, texts_by_column)
    return {column: sorted(texts) for column, texts in sorted(texts_by_column.items())}


def _add_texts(trace: Path, texts_by_column: dict[str, set[str]]) -> None:
    with open_trace(trace) as opened:
        strings = {}
        if "StringIds" in opened.columns:
            strings = dict(opened.connection.execute("SELECT id, value FROM StringIds"))
        for table, columns in opened.columns.items():
            if table == "StringIds" or not base_name(table).startswith(("CUPTI", "CUDA", "NVTX", "PROFILER")):
                continue
            for column in set(columns) & set(_NAME_COLUMNS):
                rows = opened.connection.execute(f"SELECT DISTINCT {quote(column)} FROM {quote(table)}")
                cells = [strings.get(cell) if isinstance(cell, int) else cell for (cell,) in rows]
                texts_by_column.setdefault(column, set()).update(cell for cell in cells if isinstance(cell, str))
