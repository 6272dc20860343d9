# SPDX-License-Identifier: Apache-2.0
"""A kernel that Numba compiles from Python."""
import common

numpy, numba = common.need("numpy", "numba")
cuda = common.need("numba.cuda")
if not cuda.is_available():
    common.skip("numba sees no CUDA device")


@cuda.jit
def numba_mix(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * 3 + i


n = 1 << 20
host = numpy.random.default_rng(4).integers(0, 2**20, n, dtype=numpy.int32)
x, y = cuda.to_device(host), cuda.to_device(numpy.zeros(n, dtype=numpy.int32))
try:
    numba_mix.compile((numba.int32[:], numba.int32[:]))
except AttributeError as error:  # a Numba that does not know this NumPy
    common.skip(f"numba cannot compile: {error}")
for _ in range(common.CALLS):
    numba_mix[(n + 255) // 256, 256](x, y)
cuda.synchronize()
got = y.copy_to_host()
expected = (host.astype(numpy.int64) * 3 + numpy.arange(n)).astype(numpy.int32)
if not (got == expected).all():
    common.fail(f"{int((got != expected).sum())} values differ")
common.finish(common.hash_of(got))
