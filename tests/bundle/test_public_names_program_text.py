import pytest

from nsysprof.bundle.public_names import is_program_token, is_program_word, is_revealed_by


def told(text, secret):
    start = text.index(secret)
    return is_revealed_by(text, start, start + len(secret))


@pytest.mark.parametrize(
    ("text", "secret", "is_told"),
    [
        (b"owner: adalovelace;", b"adalovelace", True),
        (b"kernel_total_ns", b"total_ns", False),  # a column of ours
        (b"my zoe says", b"zoe", True),
        (b"azoetic", b"zoe", False),  # within a longer word
        (b"/home/adalovelace/x", b"adalovelace", True),
    ],
)
def test_a_secret_is_told_where_it_is_a_word_of_its_own(text, secret, is_told):
    assert told(text, secret) is is_told


def test_words_of_our_own_source_are_known():
    assert is_program_word("median")
    assert not is_program_word("zyxwvut")
    assert is_program_token(b"kernel_total_ns")
    assert is_program_token(b"tbody"), "of a template"
    assert not is_program_token(b"kernel_total_zyx")
    assert not is_program_token(b"is_program_token"), "a name within the program is not written"
    assert not is_program_token(b"")
