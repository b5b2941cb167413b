"""Render the latency before, during and after a recording as lines of text."""

from __future__ import annotations

from nsysprof.results.programs.latency_windows import LatencyWindow, LatencyWindows, Ratio


def render_latency_windows(latency: LatencyWindows) -> list[str]:
    """Return a line for each window, and one that says why the change is unknown where it is."""
    lines = []
    if latency.told_by:
        lines.append(f"latency, from {latency.told_by}:")
        windows = (
            ("before", latency.before, None),
            ("during", latency.during, latency.during_ratio),
            ("after", latency.after, latency.after_ratio),
        )
        lines += [
            f"  {name}: {_window(window)}{_ratio(ratio)}" for name, window, ratio in windows if window is not None
        ]
    if latency.unknown:
        lines.append(f"whether the latency changed is unknown: {latency.unknown}")
    return lines


def _window(window: LatencyWindow) -> str:
    if window.median_ns is None or window.p90_ns is None:
        return f"{window.steps} steps in {window.wall_ns / 1e9:.1f} s, durations unknown"
    return (
        f"median {window.median_ns / 1e6:.3f} ms, 90 % within {window.p90_ns / 1e6:.3f} ms "
        f"({window.steps} steps in {window.wall_ns / 1e9:.1f} s)"
    )


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    value, low, high = ratio
    interval = "" if low is None or high is None else f" ({low:.3f} to {high:.3f})"
    return f", x{value:.3f}{interval}"
