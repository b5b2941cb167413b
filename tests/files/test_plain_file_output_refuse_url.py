from pathlib import Path

import pytest

import nsysprof
from nsysprof.app.inputs.compare_inputs import find_inputs
from nsysprof.errors import TraceError, UsageError
from nsysprof.files.plain_file import refuse_url
from tests.builders.run_command import fails, run


@pytest.mark.parametrize("address", ["https://example.com/a/t.sqlite", "s3://bucket/run", "file:///tmp/t.sqlite"])
def test_an_address_is_recognised_and_named_as_it_was_typed(address):
    with pytest.raises(UsageError, match="is a URL") as caught:
        refuse_url(Path(address))
    assert address.replace(":///", "://") in caught.value.text
    assert "Download" in caught.value.next_step


@pytest.mark.parametrize("name", ["t.sqlite", "/tmp/t.sqlite", "C:/traces/t.sqlite", "run::2/t", "a:b/c"])
def test_a_path_is_not_an_address(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refuse_url(Path(name))
    with pytest.raises(TraceError, match="does not exist"):
        find_inputs(Path(name))


def test_every_reader_refuses_an_address(tmp_path):
    address = "https://example.com/t.sqlite"
    for call in (
        lambda: nsysprof.analyze(address, out=tmp_path / "o"),
        lambda: nsysprof.compare(address, address),
        lambda: nsysprof.export_trace(address, chrome=tmp_path / "t.json"),
        lambda: nsysprof.write_bundle(address, out=tmp_path / "b.zip"),
        lambda: nsysprof.open_trace(address).__enter__(),
    ):
        with pytest.raises(UsageError, match="is a URL"):
            call()
    assert list(tmp_path.iterdir()) == []
    fails(run("analyze", address, cwd=tmp_path), 2, "https://example.com/t.sqlite is a URL")
