// SPDX-License-Identifier: Apache-2.0
// A cubin as the CUDA shim reads it inside the program.
#include <cstdint>
#include <cstdlib>

#include "shim/cuda/cubin.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const klab::shim::Cubin cubin({reinterpret_cast<const std::byte*>(data), size});
  for (const auto& v : cubin.variables())
    if (v.name.empty() || v.size == 0) std::abort();
  const auto names = cubin.kernels();
  for (std::size_t i = 0; i < names.size() && i < 64; ++i) {
    if (!names[i].empty() && !cubin.has_kernel(names[i])) std::abort();
    std::uint32_t end = 0;
    if (const auto layout = cubin.parameters(names[i]))
      for (const auto& p : *layout) {
        if (p.offset < end) std::abort();
        end = p.offset + p.size;
      }
  }
  return 0;
}
