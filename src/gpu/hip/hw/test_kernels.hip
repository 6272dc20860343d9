// SPDX-License-Identifier: Apache-2.0
// Kernels for the tests of the HIP backend.
#include <hip/hip_runtime.h>
// After the runtime's header, which it needs.
#include <hip/hip_cooperative_groups.h>

extern "C" __global__ void axpy(float* y, const float* x, float a, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void reduce(const int* in, int* out, unsigned n) {
  __shared__ int sums[256];
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  sums[threadIdx.x] = i < n ? in[i] : 0;
  __syncthreads();
  for (unsigned step = 128; step > 0; step >>= 1) {
    if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, sums[0]);
}

extern "C" __global__ void fill_shared(unsigned* out, unsigned words) {
  extern __shared__ unsigned shared[];
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) shared[i] = i;
  __syncthreads();
  if (threadIdx.x == 0) *out = shared[words - 1];
}

struct Row {
  float* values;
  unsigned count;
};
extern "C" __global__ void scale_rows(const Row* rows, unsigned count, float by) {
  const unsigned r = blockIdx.x;
  if (r >= count) return;
  for (unsigned i = threadIdx.x; i < rows[r].count; i += blockDim.x) rows[r].values[i] *= by;
}

extern "C" __device__ unsigned counter = 5;
extern "C" __constant__ unsigned factor = 7;
extern "C" __global__ void use_variables(unsigned* out) {
  if (threadIdx.x != 0) return;
  *out = counter * factor;
  counter = counter + 1;
}

/// What a thread sees of its launch, by one thread of each block; and how many threads there are.
extern "C" __global__ void geometry(unsigned* out, unsigned* threads) {
  atomicAdd(threads, 1u);
  if (threadIdx.x + threadIdx.y + threadIdx.z != 0) return;
  if (blockIdx.x + blockIdx.y + blockIdx.z != 0) return;
  const unsigned seen[] = {gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y, blockDim.z};
  for (int i = 0; i < 6; ++i) out[i] = seen[i];
}

/// The hidden arguments as they come, 7 words.
extern "C" __global__ void hidden(unsigned long long* out) {
  const auto* words = reinterpret_cast<const unsigned long long*>(__builtin_amdgcn_implicitarg_ptr());
  for (int i = 0; i < 7; ++i) out[i] = words[i];
}

extern "C" __global__ void scratch(unsigned* out, const unsigned* order) {
  unsigned local[64];
  for (unsigned i = 0; i < 64; ++i) local[i] = i * i + threadIdx.x;
  unsigned sum = 0;
  for (unsigned i = 0; i < 64; ++i) sum = sum * 3 + local[order[i] & 63u];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void prints(unsigned* out) {
  printf("thread %u of the test\n", static_cast<unsigned>(threadIdx.x));
  out[threadIdx.x] = threadIdx.x + 1;
}

/// Each block counts up, all meet, and each sees the count of all.
extern "C" __global__ void meet(unsigned* count, unsigned* seen) {
  if (threadIdx.x == 0) atomicAdd(count, 1u);
  cooperative_groups::this_grid().sync();
  if (threadIdx.x == 0) seen[blockIdx.x] = atomicAdd(count, 0u);
}

extern "C" __global__ void bad_write(unsigned* nowhere) { *nowhere = 1; }
extern "C" __global__ void endless(volatile unsigned* flag) {
  while (*flag == 0) {
  }
}

// Variants of axpy: right in another way, wrong, faulting, endless.
extern "C" __global__ void axpy_strided(float* y, const float* x, float a, unsigned n) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void axpy_wrong(float* y, const float* x, float a, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i];
}
extern "C" __global__ void axpy_nothing(float*, const float*, float, unsigned) {}
extern "C" __global__ void axpy_fault(float* y, const float*, float a, unsigned) { y[1ull << 40] = a; }
extern "C" __global__ void axpy_endless(float* y, const float*, float, unsigned) {
  volatile float* const v = y;
  while (v[0] != -1e30f) {
  }
}
