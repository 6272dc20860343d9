# SPDX-License-Identifier: Apache-2.0
"""A CuPy RawKernel, which CuPy compiles with NVRTC when it is first called."""
import common

numpy, cupy = common.need("numpy", "cupy")
try:
    cupy.cuda.runtime.getDeviceCount()
except Exception as error:
    common.skip(f"cupy: {error}")

cupy_mix = cupy.RawKernel(r"""
extern "C" __global__ void cupy_mix(const unsigned* x, unsigned* y, unsigned n, unsigned factor) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = (x[i] ^ (x[(i + 1) % n] >> 7)) * factor;
}
""", "cupy_mix")
n = 1 << 20
host = numpy.random.default_rng(2).integers(0, 2**32, n, dtype=numpy.uint32)
x, y = cupy.asarray(host), cupy.zeros(n, dtype=cupy.uint32)
for _ in range(common.CALLS):
    cupy_mix(((n + 255) // 256,), (256,), (x, y, numpy.uint32(n), numpy.uint32(2654435761)))
got = cupy.asnumpy(y)
expected = (host ^ (numpy.roll(host, -1) >> numpy.uint32(7))) * numpy.uint32(2654435761)
if not (got == expected).all():
    common.fail(f"{int((got != expected).sum())} values differ")
common.finish(common.hash_of(got))
