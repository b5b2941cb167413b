import io

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from nsysprof.report.figures.drawing import CATEGORY_COLORS, INK, RANGE, dark_colors, darken, png_bytes


def test_greys_change_places_and_colours_stay():
    white, black, orange = dark_colors(np.array([[1.0, 1, 1, 1], [0, 0, 0, 1], [0.9, 0.6, 0, 0.5]]))
    assert white[:3].max() < 0.15 and black[:3].min() > 0.85
    assert orange == pytest.approx([0.9, 0.6, 0, 0.5])
    assert dark_colors(np.zeros((0, 4))).shape == (0, 4)


def test_a_figure_becomes_dark_with_texts_that_can_be_read():
    figure = Figure(figsize=(3, 2), layout="constrained", facecolor="white")
    axes = figure.subplots()
    axes.barh([0], [1], color=CATEGORY_COLORS["copy"])
    axes.barh([1], [1], color=RANGE)
    axes.plot([0, 1], [0, 1], color=INK, marker="o", markerfacecolor="white")
    axes.set_title("title", color=INK)
    light = imread(io.BytesIO(png_bytes(figure)))
    darken(figure)
    dark = imread(io.BytesIO(png_bytes(figure)))
    assert light.shape == dark.shape, "the layout stays"
    assert np.median(light[..., :3]) > 0.8
    assert np.median(dark[..., :3]) < 0.3
    line = axes.lines[0]
    assert min(line.get_color()[:3]) > 0.75 and min(line.get_markeredgecolor()[:3]) > 0.75
    assert max(line.get_markerfacecolor()[:3]) < 0.15
    assert min(axes.title.get_color()[:3]) > 0.75
    assert min(axes.xaxis.get_ticklabels()[0].get_color()[:3]) > 0.75


def test_values_on_a_picture_keep_their_colour():
    figure = Figure()
    axes = figure.subplots()
    axes.imshow(np.ones((2, 2)), cmap="PuOr")
    text = axes.text(0, 0, "+3", color="black")
    pixels = Figure().subplots()
    darken(figure)
    assert text.get_color() == "black"
    image = pixels.imshow(np.ones((2, 2, 3)))
    darken(image.get_figure())
    assert np.asarray(image.get_array()).max() < 0.2
