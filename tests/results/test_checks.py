from nsysprof.results.checks import COMPARABLE_FIELDS, GateFinding, Outcome, comparable_hash, said_once


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


def test_what_several_findings_lack_is_said_once():
    texts = (
        "wall 1 ms to 2 ms; too few traces",
        "wall 1 ms to 3 ms; 3 times as long",
        "wall 4 ms to 5 ms; too few traces",
    )
    findings = [
        GateFinding(f"range {number}", Outcome.INCONCLUSIVE, text, "Give more." if "few" in text else "")
        for number, text in enumerate(texts)
    ]
    told = said_once(findings)
    assert [(finding.where, finding.text, finding.next_step) for finding in told] == [
        ("range 0", "wall 1 ms to 2 ms", ""),
        ("range 2", "wall 4 ms to 5 ms; both: too few traces", "Give more."),
        ("range 1", "wall 1 ms to 3 ms; 3 times as long", ""),
    ]
