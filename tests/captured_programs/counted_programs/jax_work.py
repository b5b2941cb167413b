#!/usr/bin/env python3
"""Run a function that JAX compiles to one kernel a known number of times, and print how many.

The kernel is named after the fusion in JAX's own compiled program. Nothing else here runs a kernel: the input is made
and the result is read on the host, since an array operation outside the function would be compiled to a fusion too.
"""

from __future__ import annotations

import json
import re

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def nsysprof_step(values: jax.Array) -> jax.Array:
    return jnp.sin(values) * 2 + values


def main() -> None:
    values = jax.device_put(np.full(1 << 16, 0.5, dtype=np.float32))
    ready = nsysprof_step.lower(values).compile()
    found = re.search(r"ROOT %?([\w.-]*fusion[\w.-]*) =", ready.as_text())
    name = re.sub(r"[.-]", "_", found[1]) if found else "fusion"
    print("EXPECT " + json.dumps({f"^{name}$": 50}), flush=True)
    for _ in range(50):
        values = ready(values)
    print(float(np.asarray(values)[0]))


if __name__ == "__main__":
    main()
