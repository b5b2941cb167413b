from pathlib import Path

import pytest

from nsysprof.files.plain_file import name_after


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("run.sqlite", "run"),
        ("run.sqlite.xz", "run"),
        ("run.pt.trace.json.gz", "run"),
        ("run.nsys-rep", "run"),
        ("run.v2.sqlite", "run.v2"),
        (".sqlite", "trace"),
        ("a\x1b[31m.sqlite", "a\N{REPLACEMENT CHARACTER}[31m"),
    ],
)
def test_a_file_gives_its_name_without_what_says_its_format(tmp_path, file, name):
    assert name_after(tmp_path / file) == name


def test_a_folder_gives_its_whole_name(tmp_path):
    (tmp_path / "run.sqlite").mkdir()
    assert name_after(tmp_path / "run.sqlite") == "run.sqlite"


def test_the_root_has_no_name():
    assert name_after(Path("/"), "traces") == "traces"
