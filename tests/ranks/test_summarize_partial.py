"""The digest by which results of other code are told apart."""

from pathlib import Path

from nsysprof.ranks.summarize import digest_of_sources


def test_every_change_of_code_or_of_a_note_is_noticed(tmp_path: Path) -> None:
    package = tmp_path / "nsysprof"
    (package / "ranks" / "deep").mkdir(parents=True)
    code, note, other = package / "ranks" / "deep" / "a.py", package / "notes.toml", package / "timeline.js"
    for path in (code, note, other):
        path.write_text("x = 1\n")
    seen = [digest_of_sources(package)]
    code.write_text("x = 2\n")
    seen.append(digest_of_sources(package))
    note.write_text("x = 2\n")
    seen.append(digest_of_sources(package))
    code.rename(package / "ranks" / "a.py")
    seen.append(digest_of_sources(package))
    assert len(set(seen)) == 4
    other.write_text("x = 2\n")
    assert digest_of_sources(package) == seen[-1], "a page's script is no part of a result"
