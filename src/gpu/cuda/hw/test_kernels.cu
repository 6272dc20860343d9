// SPDX-License-Identifier: Apache-2.0
// Kernels for the tests that need a GPU (hw_test.cpp).

extern "C" __global__ void axpy(float* y, const float* x, float a, unsigned n) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];
}

/// Runs for `ns` of the GPU's own clock.
extern "C" __global__ void spin(unsigned long long ns, unsigned long long* took) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - start < ns);
  *took = now - start;
}

extern "C" __global__ void nothing() {}

extern "C" __global__ void bad_write(unsigned* p) { *p = 1; }

extern "C" __global__ void endless(volatile unsigned* stop) {
  while (*stop == 0) {
  }
}

__device__ unsigned counter = 5;
__constant__ unsigned factor = 7;
extern "C" __global__ void use_variables(unsigned* out) {
  *out = counter * factor;
  counter += 1;
}

extern "C" __global__ void fill_shared(unsigned* out, unsigned words) {
  extern __shared__ unsigned shared[];
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) shared[i] = i;
  __syncthreads();
  if (threadIdx.x == 0) *out = shared[words - 1];
}

extern "C" __global__ void cluster_size(unsigned* out) {
#if __CUDA_ARCH__ >= 900
  unsigned x;
  asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(x));
  *out = x;
#else
  *out = 1;
#endif
}

extern "C" __global__ void fetch(cudaTextureObject_t texture, float* out, unsigned width, unsigned height) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) out[y * width + x] = 2 * tex2D<float>(texture, x + 0.5f, y + 0.5f);
}

extern "C" __global__ void store(cudaSurfaceObject_t surface, unsigned width, unsigned height) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) surf2Dwrite(static_cast<float>(x + 100 * y), surface, x * sizeof(float), y);
}
