import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from nsysprof.report.figures.roofline import place_labels


def boxes(points, labels):
    figure = Figure(figsize=(4, 3))
    axes = figure.add_subplot()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    place_labels(axes, points, labels, fontsize=8)
    return {text.get_text(): text.get_window_extent() for text in axes.texts}, axes.get_window_extent()


def test_labels_meet_neither_each_other_nor_the_frame():
    near = [(0.5, 0.5), (0.51, 0.5), (0.5, 0.52), (0.99, 0.99), (0.01, 0.01)]
    placed, frame = boxes(near, ["flash", "cudnn", "math", "efficient", "auto"])
    assert len(placed) == 5
    extents = list(placed.values())
    for number, box in enumerate(extents):
        assert frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
        assert not any(box.overlaps(other) for other in extents[:number])


def test_a_label_that_finds_no_room_is_left_out():
    placed, _ = boxes([(0.5, 0.5)] * 40, ["a long label of one point"] * 40)
    placed_many, _ = boxes([(0.5, 0.5)], ["x" * 200])
    assert placed_many == {}
    assert placed


def test_the_same_points_give_the_same_places():
    points = [(0.2, 0.3), (0.21, 0.3), (0.2, 0.31)]
    first, second = (boxes(points, ["a", "b", "c"])[0] for _ in range(2))
    assert {name: box.bounds for name, box in first.items()} == {name: box.bounds for name, box in second.items()}
