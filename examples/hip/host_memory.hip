// SPDX-License-Identifier: Apache-2.0
// A kernel that reads page-locked host memory (allocated so, and registered afterwards) and writes some of
// it.
#include <sys/mman.h>

#include "common.h"

using namespace example;

__global__ void from_host_memory(const unsigned* pinned, const unsigned* registered, unsigned* device_out,
                                 unsigned* pinned_out, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  device_out[i] = pinned[i] + registered[i];
  pinned_out[i] = pinned_out[i] * 2 + registered[n - 1 - i];
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 13, 2);
  if (device().canMapHostMemory == 0) skip("the device cannot map host memory");
  const std::size_t n = o.size, bytes = n * 4;
  unsigned *pinned = nullptr, *pinned_out = nullptr, *registered_device = nullptr;
  HIP(hipHostMalloc(&pinned, bytes, hipHostMallocMapped | hipHostMallocPortable));
  HIP(hipHostMalloc(&pinned_out, bytes, hipHostMallocMapped));
  void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) die("mmap");
  auto* registered = static_cast<unsigned*>(pages);
  HIP(hipHostRegister(registered, bytes, hipHostRegisterMapped));
  HIP(hipHostGetDevicePointer(reinterpret_cast<void**>(&registered_device), registered, 0));
  unsigned* dout = to_device(std::vector<std::uint32_t>(n));
  std::vector<std::uint32_t> expected(n), expected_out(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    pinned[i] = hash_word(i, 18);
    registered[i] = hash_word(i, 19);
    pinned_out[i] = expected_out[i] = hash_word(i, 20);
  }
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    from_host_memory<<<blocks(n, 256), 256>>>(pinned, registered_device, dout, pinned_out, o.size);
    LAUNCHED();
    HIP(hipDeviceSynchronize());
    for (std::size_t i = 0; i < n; ++i) {
      expected[i] = pinned[i] + registered[i];
      expected_out[i] = expected_out[i] * 2 + registered[n - 1 - i];
    }
  }
  Verdict v;
  v.compare("device_out", to_host(dout, n), expected);
  v.compare("pinned_out", std::vector<std::uint32_t>(pinned_out, pinned_out + n), expected_out);
  HIP(hipHostUnregister(registered));
  return v.finish();
}
