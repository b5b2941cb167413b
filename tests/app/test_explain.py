import pytest

from nsysprof.app.explain import explain
from nsysprof.app.inputs.attention_requests import ExplainRequest
from nsysprof.errors import UsageError


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"case_timeout_s": 0.0}, "--case-timeout 0"),
        ({"causals": (True, False), "mask": "bool"}, "exclude each other"),
    ],
)
def test_requests_from_python_are_checked_as_options_are(fields, says):
    with pytest.raises(UsageError, match=says):
        explain(ExplainRequest(**fields))
