"""Of two runs that write one file the second is refused, whatever the file, and a killed run's leftovers go."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysprof.app.bundle import bundle
from nsysprof.app.export import export
from nsysprof.app.inputs.reading_requests import BundleRequest, ExportRequest
from nsysprof.errors import OutputError
from nsysprof.files.folder_lock import claim_file
from nsysprof.files.folder_state import EXPORT
from nsysprof.files.plain_file import write_whole
from nsysprof.files.result_folder import claim_folder
from tests.builders.build_trace import TraceBuilder


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    builder = TraceBuilder()
    builder.launch(0, 1)
    return builder.write(tmp_path / "t.sqlite")


def test_the_second_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with claim_file(tmp_path / "out.json"):
        with pytest.raises(OutputError, match=r"Another run is writing .*out\.json"), claim_file(tmp_path / "out.json"):
            pass
        with claim_file(tmp_path / "other.json"):
            pass
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_this_file_alone_go(tmp_path: Path) -> None:
    ours = tmp_path / ".out.json.0123456789abcdef.part"
    others = [tmp_path / name for name in (".out.json.part", ".out2.json.0123456789abcdef.part", "out.json")]
    for path in (ours, *others):
        path.write_text("x")
    with claim_file(tmp_path / "out.json"):
        assert not ours.exists()
        write_whole(tmp_path / "out.json", b"new")
    assert sorted(tmp_path.iterdir()) == sorted(others)


@pytest.mark.parametrize("name", ["perfetto", "chrome", "bundle"])
def test_two_runs_at_once_into_one_file(trace: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out.zip"
    with claim_file(out), pytest.raises(OutputError, match="Another run is writing"):
        if name == "bundle":
            bundle(BundleRequest(trace, out, force=True))
        else:
            export(ExportRequest(trace, **{name: out}, force=True))
    assert not out.exists()


def test_two_runs_at_once_into_one_folder_of_parquet(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with claim_folder(out, EXPORT, force=False), pytest.raises(OutputError, match="Another run is writing"):
        export(ExportRequest(trace, parquet=out, force=True))


def test_what_another_run_wrote_meanwhile_is_not_replaced(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended while this one read the trace, so that no lock is held any more."""
    out = tmp_path / "out"
    real = export.__globals__["read_content"]

    def slow(*arguments: object, **options: bool) -> object:
        with monkeypatch.context() as patch:
            patch.setattr("nsysprof.app.export.read_content", real)
            export(ExportRequest(trace, parquet=out))
        return real(*arguments, **options)

    monkeypatch.setattr("nsysprof.app.export.read_content", slow)
    with pytest.raises(OutputError, match="already holds an export"):
        export(ExportRequest(trace, parquet=out))
