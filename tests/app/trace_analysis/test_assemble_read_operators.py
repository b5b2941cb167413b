"""A damaged file of operators is refused by its name, and costs no crash."""

import pytest

from nsysprof.app.trace_analysis.assemble import assemble, read_operators
from nsysprof.errors import TraceError
from tests.analysis.programs import train


def test_operators_are_read_by_process_and_number(tmp_path):
    (tmp_path / "nsys.operators-12.json").write_text(
        '{"format_version": 1, "operators": [{"op_id": 5, "name": "aten::mm"}, {"op_id": 0, "name": "thread"}]}'
    )
    operators = read_operators(tmp_path)
    assert list(operators) == [12] and operators[12][5].name == "aten::mm" and list(operators[12]) == [5]


@pytest.mark.parametrize("text", ["", "[]", '{"format_version": 1}', '{"format_version": 9, "operators": []}',
                                  '{"format_version": 1, "operators": [{"op_id": -1, "name": "x"}]}'])  # fmt: skip
def test_a_damaged_file_is_named(tmp_path, text):
    (tmp_path / "nsys.operators-1.json").write_text(text)
    with pytest.raises(TraceError, match=r"nsys\.operators-1\.json"):
        read_operators(tmp_path)


@pytest.mark.parametrize("name", ["nsys.operators-4.json", "unrecorded.json", "nsys.attention-4.json"])
def test_a_cut_file_costs_its_own_part_alone(tmp_path, name):
    """A cut file of operators ended the whole analysis."""
    trace = train()[0].write(tmp_path / "nsys.sqlite")
    whole = assemble(tmp_path, trace).analysis
    (tmp_path / name).write_text('{"format_version": 1, "operat')
    analysis = assemble(tmp_path, trace).analysis
    (note,) = [note for note in analysis.notes if note.code == "unread-beside"]
    assert note.text.startswith(f"{name} is not a file of")
    assert str(tmp_path) not in note.text
    assert analysis.findings == whole.findings


def test_no_folder_has_no_operators(tmp_path):
    assert read_operators(tmp_path / "trace.sqlite") == {}
