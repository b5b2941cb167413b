"""Compute the derivatives of ln Γ, which are needed to fit the prior of variances."""

from __future__ import annotations

from math import log

# From this argument on, the asymptotic series has 15 digits.
_LARGE = 12.0


def digamma(x: float) -> float:
    """Return the first derivative of ln Γ at `x` > 0."""
    below = 0.0
    while x < _LARGE:
        below -= 1 / x
        x += 1
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * 691 / 32760)))))
    return below + log(x) - 1 / (2 * x) - series


def trigamma(x: float) -> float:
    """Return the second derivative of ln Γ at `x` > 0."""
    below = 0.0
    while x < _LARGE:
        below += 1 / (x * x)
        x += 1
    y = 1 / (x * x)
    series = y * (1 / 6 - y * (1 / 30 - y * (1 / 42 - y * (1 / 30 - y * (5 / 66 - y * 691 / 2730)))))
    return below + 1 / x + y / 2 + series / x


def inverse_trigamma(value: float) -> float:
    """Return the x > 0 at which trigamma is `value` > 0, by bisection of its logarithm."""
    low, high = 1e-13, 1e13
    for _ in range(200):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if trigamma(middle) > value else (low, middle)
        if high <= low * (1 + 1e-15):
            break
    return float((low * high) ** 0.5)
