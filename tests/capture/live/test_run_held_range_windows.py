import json

from nsysprof.capture.live.run_held import RANGE_TIMES, Moments, RangeSwitch

MOMENTS = Moments(asked_ns=100, began_ns=200, ended_ns=300, stopped_ns=400)


def test_ranges_count_on_the_side_on_which_they_lie_wholly(tmp_path):
    folder = tmp_path / RANGE_TIMES
    folder.mkdir()
    (folder / "9.jsonl").write_text("of an earlier recording")
    switch = RangeSwitch(tmp_path)
    with switch.on():
        assert [path.name for path in folder.iterdir()] == ["on"]
        lines = [
            ("step", begin, end) for begin, end in ((10, 50), (90, 110), (210, 290), (290, 310), (350, 390), (400, 500))
        ]
        (folder / "1.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
        (folder / "2.jsonl").write_text('["other", 220, 230]\n["cut", 22\n[1, 2, 3]\n["backwards", 260, 250]\n7\n')
    found = switch.read(MOMENTS)
    assert found.plain == {"step": [(10, 40), (400, 100)]}
    assert found.recorded == {"step": [(210, 80)], "other": [(220, 10)]}
    assert not (folder / "on").exists()


def test_a_program_that_cannot_note_its_ranges_has_none(tmp_path):
    switch = RangeSwitch(tmp_path)
    with switch.on():
        assert not list(tmp_path.iterdir())
    assert (switch.is_there, switch.read(MOMENTS).plain, switch.read(MOMENTS).recorded) == (False, {}, {})
