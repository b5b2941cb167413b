#!/usr/bin/env python3
"""Train a small network with JAX, without a range of its own: XLA annotates what it compiles and runs.

scripts/programs/jax_mlp.py --steps 20
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp


def loss(weights: list[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    for weight in weights[:-1]:
        x = jax.nn.gelu(x @ weight)
    return jnp.mean((x @ weights[-1] - y) ** 2)


@jax.jit
def step(weights: list[jax.Array], x: jax.Array, y: jax.Array) -> tuple[list[jax.Array], jax.Array]:
    value, gradients = jax.value_and_grad(loss)(weights, x, y)
    return [w - 1e-3 * g for w, g in zip(weights, gradients, strict=True)], value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    keys = jax.random.split(jax.random.PRNGKey(0), 6)
    weights = [jax.random.normal(key, (1024, 1024)) * 0.03 for key in keys[:4]]
    x, y = jax.random.normal(keys[4], (2048, 1024)), jax.random.normal(keys[5], (2048, 1024))
    for _ in range(options.steps):
        weights, value = step(weights, x, y)
    print(float(value))


if __name__ == "__main__":
    main()
