# SPDX-License-Identifier: Apache-2.0
"""A function that JAX compiles through XLA, called five times."""
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else it takes most of the device's memory
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true")

import common

numpy, jax = common.need("numpy", "jax")
try:
    device = jax.devices("gpu")[0]
except RuntimeError as error:
    common.skip(f"jax: {' '.join(str(error).split())[:200]}")
import jax.numpy as jnp


@jax.jit
def mix(x, y):
    return jnp.tanh(x) * y - jnp.max(y, axis=1, keepdims=True)


host = numpy.random.default_rng(6).standard_normal((512, 1024), dtype=numpy.float32)
x, y = jax.device_put(host, device), jax.device_put(host[::-1].copy(), device)
for _ in range(common.CALLS):
    z = mix(x, y)
got = numpy.asarray(jax.block_until_ready(z))
there = host[::-1]
expected = numpy.tanh(host.astype(numpy.float64)) * there - there.max(axis=1, keepdims=True)
worst = numpy.abs(got - expected).max()
if not worst <= 1e-4:
    common.fail(f"off by {worst}")
common.finish(common.hash_of(got))
