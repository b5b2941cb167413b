"""A damaged file of operators is refused by its name, and costs no crash."""

import pytest

from nsysprof.app.trace_analysis.assemble import read_operators
from nsysprof.errors import TraceError


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


def test_no_folder_has_no_operators(tmp_path):
    assert read_operators(tmp_path / "trace.sqlite") == {}
