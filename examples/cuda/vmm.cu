// SPDX-License-Identifier: Apache-2.0
// Virtual memory management: one reserved range, two physical blocks mapped side by side with a hole after
// them, an array across the seam; then the second block is replaced by a third and the kernel runs again.
#include <cuda.h>

#include "common.h"

using namespace example;

__global__ void across_the_seam(unsigned* x, unsigned n, unsigned seed) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * 9 + i + seed;
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1, 1);
  device();
  const auto granularity =
      driver_function<decltype(&cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity");
  const auto reserve = driver_function<decltype(&cuMemAddressReserve)>("cuMemAddressReserve");
  const auto create = driver_function<decltype(&cuMemCreate)>("cuMemCreate");
  const auto map = driver_function<decltype(&cuMemMap)>("cuMemMap");
  const auto unmap = driver_function<decltype(&cuMemUnmap)>("cuMemUnmap");
  const auto release = driver_function<decltype(&cuMemRelease)>("cuMemRelease");
  const auto access = driver_function<decltype(&cuMemSetAccess)>("cuMemSetAccess");
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc both{};
  both.location = properties.location;
  both.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  std::size_t unit = 0;
  DRIVER(granularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  unit *= o.size;
  CUdeviceptr base = 0;
  DRIVER(reserve(&base, 4 * unit, 0, 0, 0));
  CUmemGenericAllocationHandle blocks_of[3];
  for (auto& handle : blocks_of) DRIVER(create(&handle, unit, &properties, 0));
  auto place = [&](int block, std::size_t at) {
    DRIVER(map(base + at, unit, 0, blocks_of[block], 0));
    DRIVER(access(base + at, unit, &both, 1));
  };
  place(0, 0);
  place(1, unit);

  // The middle half: a quarter unit before the seam and the rest after it.
  const std::size_t before = unit / 4 / 4, count = before + unit / 2 / 4;
  auto* x = reinterpret_cast<unsigned*>(base + unit - before * 4);
  std::vector<std::uint32_t> expected(count);
  for (std::size_t i = 0; i < count; ++i) expected[i] = hash_word(static_cast<std::uint32_t>(i), 17);
  CUDA(cudaMemcpy(x, expected.data(), count * 4, cudaMemcpyHostToDevice));
  auto launch = [&](unsigned seed) {
    across_the_seam<<<blocks(count, 256), 256>>>(x, static_cast<unsigned>(count), seed);
    LAUNCHED();
    CUDA(cudaDeviceSynchronize());
    for (std::size_t i = 0; i < count; ++i)
      expected[i] = expected[i] * 9 + static_cast<std::uint32_t>(i) + seed;
  };
  launch(1);

  DRIVER(unmap(base + unit, unit));
  DRIVER(release(blocks_of[1]));
  place(2, unit);
  CUDA(cudaMemset(x + before, 0x11, (count - before) * 4));
  for (std::size_t i = before; i < count; ++i) expected[i] = 0x11111111u;
  launch(2);

  Verdict v;
  v.compare("x", to_host(x, count), expected);
  return v.finish();
}
