import re

from hypothesis import given
from hypothesis import strategies as st

from nsysprof.report.document import clean, escape_markdown, escape_mathtext
from tests.report.samples import HOSTILE


@given(st.text(), st.integers(2, 50))
def test_clean_text_is_one_line_of_bounded_length_that_encodes(text, limit):
    line = clean(text, limit)
    assert len(line) <= limit
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", line)
    line.encode()


def test_hostile_text_keeps_its_letters_and_loses_its_power():
    assert "\x1b" not in clean(HOSTILE)
    assert "\u202e" not in clean(HOSTILE)
    assert "alert(1)" in clean(HOSTILE)
    marked = escape_markdown(HOSTILE)
    assert "\\<script\\>" in marked
    assert "\\|" in marked
    assert "\\`" in marked
    assert "\\$x^2\\$" in escape_mathtext("$x^2$")


def test_links_and_mentions_do_not_come_alive():
    assert "https://" not in escape_markdown("https://evil.example")
    text = "@user #1 owner/repo#23 GH-4 gh-5 www.evil.example mailto:a@b.example xmpp:x org/repo@0123abc"
    shown = escape_markdown(text)
    # GitHub looks for these in what it has rendered, where the backslashes are gone.
    rendered = re.sub(r"\\(.)", r"\1", shown)
    assert not re.search(r"@\w|#\d|GH-\d|www\.|(mailto|xmpp):", rendered, re.IGNORECASE)
    assert rendered.replace("\u200b", "") == text
