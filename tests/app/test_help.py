"""The pages that the program itself can print, as a terminal shows them."""

import re

import pytest

from nsysprof.app import help as use_case
from nsysprof.app.help import list_topics, read_page
from nsysprof.errors import MissingToolError, UsageError


def test_every_page_is_a_topic_with_its_title():
    topics = {topic.name: topic.title for topic in list_topics()}
    assert topics["causes"] == "Why the GPU was idle"
    assert {"analyze", "compare", "files", "notes", "losses"} <= topics.keys()
    assert topics.keys().isdisjoint({"index", "api", "cli"}), "the site makes them, or they list the others"
    assert all(topics.values())


@pytest.mark.parametrize("name", [topic.name for topic in list_topics()])
def test_a_page_holds_nothing_that_only_a_browser_shows(name):
    text = read_page(name).text
    assert text.startswith("# ")
    assert "<!--" not in text
    assert re.findall(r"\]\((?!https?:)[^)]*\.(?:md|png|json)", text) == []
    names = {topic.name for topic in list_topics()}
    assert set(re.findall(r"`nsysprof help ([a-z-]+)`", text)) <= names


def test_a_link_to_a_page_becomes_the_command_that_prints_it():
    text = read_page("demo").text
    assert "`analyze` (`nsysprof help analyze`)" in text
    assert "The study compares" in text, "the study is not in an installation"


@pytest.mark.parametrize("name", ["causes", "CAUSES", "causes.md", "docs/causes.md"])
def test_a_topic_is_found_by_its_name_and_by_its_file(name):
    assert read_page(name).topic.name == "causes"


def test_an_unknown_topic_names_the_nearest():
    with pytest.raises(UsageError, match="no topic 'kauses'") as error:
        read_page("kauses")
    assert error.value.next_step.startswith("Nearest: causes")


def test_an_installation_without_pages_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(use_case, "_PLACES", (tmp_path,))
    with pytest.raises(MissingToolError, match="lacks its documentation"):
        list_topics()
