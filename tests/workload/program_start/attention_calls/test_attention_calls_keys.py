"""Calls are told apart by sizes, types and plain arguments, not by the numbers in a tensor or by its identity."""

import pytest

torch = pytest.importorskip("torch")

from nsysprof.workload.program_start.attention_calls.attention_calls import autocast_of, is_plain, key_of  # noqa: E402

pytestmark = pytest.mark.torch


def test_equal_calls_have_equal_keys_whatever_the_numbers():
    one, other = torch.zeros(2, 3), torch.ones(2, 3)
    assert key_of((one, 0.5), {"mask": None}) == key_of((other, 0.5), {"mask": None})


@pytest.mark.parametrize(
    "given",
    [
        (torch.zeros(2, 4), 0.5, None),
        (torch.zeros(2, 3, dtype=torch.bfloat16), 0.5, None),
        (torch.zeros(2, 3), 0.1, None),
        (torch.zeros(2, 3), 0.5, torch.zeros(1, dtype=torch.bool)),
    ],
)
def test_another_size_type_or_argument_is_another_call(given):
    assert key_of(given, {}) != key_of((torch.zeros(2, 3), 0.5, None), {})


def test_a_tensor_that_only_stands_for_one_is_not_plain():
    from torch._subclasses.fake_tensor import FakeTensorMode

    assert is_plain(torch, torch.nn.Parameter(torch.zeros(1)))
    assert not is_plain(torch, FakeTensorMode().from_tensor(torch.zeros(1)))
    assert not is_plain(torch, [1.0])


def test_autocast_says_its_type_only_within():
    get = autocast_of(torch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert get() is torch.bfloat16
    assert get() is None
