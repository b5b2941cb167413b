import pytest

from nsysprof.capture.self_check.probe import cache_folder, probe_key, read_probes, write_probes
from nsysprof.results.checks import ProbeResult, ProbeVerdict

KEY = probe_key("2025.3.1", "580", ("H200", "H200"))


def result(name="usual", verdict=ProbeVerdict.COMPLETE):
    return ProbeResult(name, (), verdict, "text", 5, 5, 1.0)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_results_are_kept_for_one_machine_and_nsys(cache):
    assert read_probes(KEY) == ()
    assert write_probes(KEY, (result(),))
    assert write_probes(KEY, (result("forks", ProbeVerdict.LOST),))
    assert {each.name: each.verdict for each in read_probes(KEY)} == {"usual": "complete", "forks": "lost"}
    for other in (("2026.1", "580", ("H200",)), ("2025.3.1", "590", ("H200",)), ("2025.3.1", "580", ("A100",))):
        assert read_probes(probe_key(*other)) == ()
    assert write_probes(KEY, (result(verdict=ProbeVerdict.LOST),))
    assert {each.name: each.verdict for each in read_probes(KEY)} == {"usual": "lost", "forks": "lost"}


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"format_version": 99}', b"\0" * 100])
def test_a_damaged_file_is_as_good_as_none(cache, damage):
    write_probes(KEY, (result(),))
    (path,) = cache.rglob("*.json")
    path.write_bytes(damage)
    assert read_probes(KEY) == ()
    assert write_probes(KEY, (result(),))
    assert len(read_probes(KEY)) == 1


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert not write_probes(KEY, (result(),))
    assert read_probes(KEY) == ()


def test_without_a_home(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    pwd = pytest.importorskip("pwd")

    def unknown(_uid):
        raise KeyError("no such user")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert cache_folder() is None
    assert not write_probes(KEY, (result(),))
    assert read_probes(KEY) == ()


def test_a_relative_folder_is_not_used(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "nsysprof" / "probes"
