import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nsysprof.errors import PolicyError
from nsysprof.policy_file import PolicyFile, Rule, read_policy, write_policy

RULE = Rule(1, 8, 8, 512, 64, "fp16", True, "fwd", "cudnn", "winner", 10_200.0, 1.08)
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
        ({"batch": 0}, "batch is no size"),
        ({"seq": "512"}, "seq is no size"),
        ({"heads": True}, "heads is no size"),
        ({"dtype": "fp8"}, "dtype is none of"),
        ({"backend": "os:system"}, "backend is none of"),
        ({"causal": 1}, "causal is neither"),
        ({"pass": "sideways"}, "pass is none of"),
        ({"kv_heads": 3}, "kv_heads does not divide heads"),
        ({"seq": 1024}, "of the same call as another"),
    ],
)
def test_a_rule_that_is_none(tmp_path, fields, says):
    with pytest.raises(PolicyError, match=says):
        read_policy(changed(tmp_path, **fields))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "no policy of nsysprof"),
        (b'{"rules": []}', "no policy of nsysprof"),
        (b'{"format_version": 99, "rules": []}', "newer nsysprof"),
        (b'{"format_version": 1, "rules": 7}', "rule 0"),
        (b'{"format_version": 1, "rules": [], "gpu_name": 7}', "what it was tuned on"),
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
