import pytest

from nsysprof.bundle.secret_values import is_public


@pytest.mark.parametrize("value", ["", "ab", "8", "0,1,2,3", "12.4.1", "1024x768", "CUDA", "True", "median"])
def test_what_says_nothing_of_its_owner_is_public(value):
    assert is_public(value)


@pytest.mark.parametrize(
    "value", ["acme-cluster-7", "hunter2secret", "ada.lovelace", "/home/ada/project", "sk-123456789012"]
)
def test_what_may_name_somebody_is_searched_for(value):
    assert not is_public(value)
