import pytest

from nsysprof.app.inputs.attention_requests import TuneRequest
from nsysprof.app.tune import plan_tuning
from nsysprof.errors import UsageError


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"search": "random"}, "Unknown search 'random'"),
        ({"budget_s": float("nan")}, "--budget nan"),
        ({"blocks": 3}, "--blocks 3"),
        ({"gpu_hour_price": -1.0}, "--gpu-hour-price -1"),
        ({"resume": True}, "--resume needs the folder"),
    ],
)
def test_requests_from_python_are_checked_as_options_are(fields, says):
    with pytest.raises(UsageError, match=says):
        plan_tuning(TuneRequest(**fields))
