"""Made-up measurements with the noise of real ones: processes that differ, samples that follow each other, drift."""

import numpy as np

from nsysprof.results.comparison import Measured


def autocorrelated(rng, count, deviation, rho):
    """AR(1) with this standard deviation."""
    noise = rng.normal(0, deviation * np.sqrt(1 - rho**2), count)
    noise[0] = rng.normal(0, deviation)
    for index in range(1, count):
        noise[index] += rho * noise[index - 1]
    return noise


def measured(
    rng,
    level=100_000.0,
    *,
    processes=3,
    blocks=5,
    samples=10,
    between=0.005,
    block=0.006,
    within=0.01,
    rho=0.5,
    drift=0.0,
    slow=0.0,
):
    """Return a bench's case.

    between, block, within: relative deviation of processes, blocks and samples; rho: how much of a sample's the next
    one keeps; drift: relative change over a process; slow: share of processes that are 6 % slower.
    """
    found = []
    for _ in range(processes):
        own = np.log(level) + rng.normal(0, between) + (np.log(1.06) if rng.random() < slow else 0.0)
        made = []
        for index in range(blocks):
            base = own + rng.normal(0, block) + drift * index / max(1, blocks - 1)
            made.append(tuple(int(ns) for ns in np.exp(base + autocorrelated(rng, samples, within, rho))))
        found.append(tuple(made))
    return Measured("ok", processes=tuple(found))


def captured(rng, level=100_000.0, *, samples=50, between=0.005, within=0.01, rho=0.8, drift=0.01):
    """Return a capture's case: one process, samples one after the other."""
    base = np.log(level) + rng.normal(0, between) + np.linspace(0, drift * rng.normal(), samples)
    values = tuple(int(ns) for ns in np.exp(base + autocorrelated(rng, samples, within, rho)))
    return Measured("ok", processes=((values,),), in_order=True)
