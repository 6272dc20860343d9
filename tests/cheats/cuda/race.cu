// SPDX-License-Identifier: Apache-2.0
// tries: A race that is seen once in twenty launches
// program: saxpy
// kernel: saxpy
// check: --type arg2=f32 --type arg3=f32 => incorrect: 12345|launch [0-9]+ (of it )?gave
extern "C" __global__ void saxpy(unsigned n, float a, const float* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  if (i < n) y[i] = a * x[i] + y[i];
  if (i == 0 && (now >> 5) * 2654435761u % 4294967296ull < 4294967296ull / 20) y[12345] += 1.0f;
}
