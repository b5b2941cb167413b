import pytest

from nsysprof.analysis.findings.candidates import bus_rate
from tests.analysis.programs import MS, Program


@pytest.mark.parametrize(
    ("board", "measured"),
    [("Tesla T4", 11.7), ("Tesla V100-SXM2-16GB", 12.3), ("NVIDIA GeForce RTX 4060 Ti", 13.1),
     ("NVIDIA GeForce RTX 5070 Ti Laptop GPU", 24.7)],
)  # fmt: skip
def test_the_rate_is_what_public_traces_measured(board, measured):
    rate = bus_rate(board)
    assert rate.usual == pytest.approx(measured * 1e9, rel=0.1)
    assert rate.is_known


@pytest.mark.parametrize(
    ("board", "usual"),
    [("NVIDIA H200", 50e9), ("NVIDIA A100-SXM4-80GB", 24e9), ("NVIDIA GeForce GTX 1050 Ti", 12e9),
     ("Quadro RTX 6000", 12e9), ("NVIDIA RTX 6000 Ada Generation", 24e9), ("NVIDIA GeForce RTX 2060", 12e9),
     ("NVIDIA L40S", 24e9), ("NVIDIA GeForce RTX 5090", 50e9)],
)  # fmt: skip
def test_the_generation_is_the_boards(board, usual):
    assert bus_rate(board).usual == usual


def test_an_unknown_board_has_a_wide_interval():
    rate = bus_rate("GPU 0")
    assert not rate.is_known
    assert (rate.usual * rate.low, rate.usual * rate.high) == pytest.approx((9.6e9, 52.8e9))


def copies(board):
    program = Program()
    program.builder.gpu(0, board)
    for _ in range(8):
        begin = program.now
        program.copy(256 << 20, 90 * MS)
        program.launch(20 * MS)
        program.step(begin)
    return program.builder


def test_the_saving_on_an_old_board_is_what_its_bus_leaves(findings):
    """24 GB/s were promised on a T4, whose bus gives half of that."""
    (item,) = (each for each in findings(copies("Tesla T4")).items if each.code == "pageable-copy")
    least_left_ns = (256 << 20) / 13.2
    assert item.saving_high_ns < 110 * MS - least_left_ns + 1 * MS
    assert "about 12 GB/s" in item.text


def test_an_unknown_bus_is_said_to_be_unknown(findings):
    (item,) = (each for each in findings(copies("Board of next year")).items if each.code == "pageable-copy")
    assert "10 to 53 GB/s, by its bus" in item.text
