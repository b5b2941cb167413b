import pytest

from nsysprof.bundle.name_tokens import REDACTED, Redactor


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("open /home/ada/project/run.py failed", "open <path-1> failed"),
        ("see https://intra.example/x?y=1 now", "see <url-1> now"),
        ("ask ada@example.org", "ask <email>"),
        (r"C:\Users\ada\run.py", "<path-1>"),
        ("120 tokens/s and jit(f)/dot", "120 tokens/s and jit(f)/dot"),
    ],
)
def test_paths_urls_and_addresses_become_tokens(text, left):
    assert Redactor().redact(text) == left


def test_equal_paths_have_equal_tokens_and_different_ones_do_not():
    redactor = Redactor()
    assert redactor.redact("/home/a/x /home/a/y /home/a/x") == "<path-1> <path-2> <path-1>"
    assert redactor.redact("/home/a/y") == "<path-2>"


def test_our_own_json_keeps_what_a_program_is_called():
    assert Redactor().redact_to_names("/home/ada/my project/train.py") == "train.py"
    assert Redactor().redact_to_names("python /home/ada/train.py --x") == "python train.py --x"


def test_a_secret_goes_even_where_removing_another_joins_its_halves():
    redactor = Redactor(["hunter2secret", "topsecretvalue"])
    assert redactor.redact("x hunter2secret y") == f"x {REDACTED} y"
    assert "topsecretvalue" not in redactor.redact("topsecrettopsecretvaluevalue")
