import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nsysprof.attention.policy_file import PolicyFile, PolicyRule, read_policy, write_policy
from nsysprof.errors import PolicyError

RULE = PolicyRule("cudnn", seq=512, why="winner", median_ns=10_200.0, over_auto=1.08)
POLICY = PolicyFile((RULE, replace(RULE, seq=1024, backend="auto", median_ns=None)), "cuda", "GPU", "2.13", "9.19.0")


def test_a_policy_survives_the_disk(tmp_path):
    write_policy(tmp_path / "p.json", POLICY)
    assert read_policy(tmp_path / "p.json") == POLICY


def changed(tmp_path, **fields):
    write_policy(tmp_path / "p.json", POLICY)
    data = json.loads((tmp_path / "p.json").read_text())
    data["rules"][0].update(fields)
    (tmp_path / "p.json").write_text(json.dumps(data))
    return tmp_path / "p.json"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"batch": 0}, r"rules\[0\].batch: expected int >= 1"),
        ({"seq": "512"}, r"rules\[0\].seq: expected int, got str"),
        ({"seq": 10**30}, r"rules\[0\].seq: expected int"),
        ({"heads": True}, r"rules\[0\].heads: expected int, got bool"),
        ({"dtype": "fp8"}, r"rules\[0\].dtype: expected str matching regex"),
        ({"backend": "os:system"}, r"rules\[0\]: backend is not one of"),
        ({"causal": 1}, r"rules\[0\].causal: expected bool, got int"),
        ({"pass": "sideways"}, r"rules\[0\].pass: expected str matching regex"),
        ({"kv_heads": 3}, r"rules\[0\]: kv_heads does not divide heads"),
        ({"why": "x" * 10**6}, r"rules\[0\].why: expected str of length <= 1000"),
        ({"seq": 1024}, "rules 0 and 1 are for the same call"),
    ],
)
def test_a_rule_that_is_none(tmp_path, fields, says):
    with pytest.raises(PolicyError, match=says):
        read_policy(changed(tmp_path, **fields))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "it is empty or ends too early"),
        (b"\xff\xfe", "it is not JSON"),
        (b'{"format_version": 1, "x": ' + b"[" * 100_000, "nested too deeply"),
        (b"[]", "expected object, got array"),
        (b'{"rules": []}', "the field format_version is missing"),
        (b'{"format_version": 99, "rules": []}', "newer nsysprof"),
        (b'{"format_version": NaN, "rules": []}', "it is not JSON"),
        (b'{"format_version": 1, "rules": 7}', "rules: expected array, got int"),
        (b'{"format_version": 1, "rules": [], "gpu_name": 7}', "gpu_name: expected str"),
    ],
)
def test_files_that_are_none(tmp_path, content, says):
    (tmp_path / "p.json").write_bytes(content)
    with pytest.raises(PolicyError, match=says) as caught:
        read_policy(tmp_path / "p.json")
    assert caught.value.next_step
    with pytest.raises(PolicyError, match="cannot be read"):
        read_policy(tmp_path / "none.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["format_version", "rules", "device", "gpu_name"]), JSON | st.just(1)))
def test_any_json_is_a_policy_or_an_error_of_ours(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("p") / "p.json"
    path.write_text(json.dumps(data))
    try:
        read_policy(path)
    except PolicyError as error:
        assert error.next_step


def test_facts_of_a_strange_policy_command_no_terminal(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"format_version": 1, "torch_version": "\x1b]0;PWN\x07\x1b[2J", "rules": []}))
    assert read_policy(path).torch_version == "\ufffd]0;PWN\ufffd\ufffd[2J"
