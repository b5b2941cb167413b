import pytest

from nsysprof.app.explain import explain
from nsysprof.app.inputs.attention_requests import ExplainRequest
from nsysprof.errors import UsageError


def test_options_that_exclude_each_other_are_refused():
    with pytest.raises(UsageError, match="exclude each other"):
        explain(ExplainRequest(causals=(True, False), mask="bool"))
