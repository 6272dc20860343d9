// SPDX-License-Identifier: Apache-2.0
// A CUDA code object as the worker reads it before the driver does.
#include <cstdint>
#include <cstdlib>

#include "gpu/cuda/code_object.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace klab::gpu::cuda;
  const std::span<const std::byte> code(reinterpret_cast<const std::byte*>(data), size);
  (void)code_kind(code);
  (void)text_bytes(code, "kernel");
  if (const auto variables = cubin_variables(code))
    for (const auto& v : *variables)
      if (v.size == 0 || v.name.size() > size) std::abort();
  return 0;
}
