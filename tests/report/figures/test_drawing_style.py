from matplotlib.figure import Figure

from nsysprof.report.figures.drawing import byte_ticks, label_seconds


def test_times_have_the_prefix_that_fits():
    axes = Figure().subplots()
    label_seconds(axes.xaxis)
    axes.set_xlim(0, 500e-6)
    texts = [text.replace("\N{MICRO SIGN}", "u") for text in axes.xaxis.get_major_formatter().format_ticks([0, 2e-4])]
    assert texts == ["0 s", "200 us"]


def test_bytes_are_in_powers_of_1024():
    assert byte_ticks(1, 2**21) == ([1.0, 32.0, 2.0**10, 2.0**15, 2.0**20], ["1 B", "32 B", "1 KiB", "32 KiB", "1 MiB"])
