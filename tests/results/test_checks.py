from nsysprof.results.checks import COMPARABLE_FIELDS, comparable_hash


def test_the_hash_changes_with_what_must_match_and_with_nothing_else():
    base = dict.fromkeys(COMPARABLE_FIELDS, "x")
    assert comparable_hash(base) == comparable_hash({**base, "clocks": 1, "git_commit": "y"})
    for field in COMPARABLE_FIELDS:
        assert comparable_hash(base) != comparable_hash({**base, field: "y"})


def test_facts_that_older_measurements_lack_leave_their_hash_as_it_was():
    old = {"gpu_name": "H200", "driver_version": "580"}
    assert (
        comparable_hash(old) == comparable_hash({**old, "power_limit_w": None, "clocks_locked": None}) == "fdf2f2f541ef"
    )
    assert comparable_hash(old) != comparable_hash({**old, "power_limit_w": 700})
