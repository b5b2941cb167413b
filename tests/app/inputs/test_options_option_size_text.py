import pytest

from nsysprof.app.inputs.options import parse_size
from nsysprof.errors import UsageError


@pytest.mark.parametrize(
    ("text", "size"), [("64MiB", 64 << 20), ("1.5 KB", 1500), ("0B", 0), ("2GiB", 2 << 30)]
)  # fmt: skip
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "64", "-1 B", "1 XB", "1e3 KB"])
def test_another_text_is_no_size(text):
    with pytest.raises(UsageError, match="is not a valid size") as caught:
        parse_size(text)
    assert "MiB" in caught.value.next_step
