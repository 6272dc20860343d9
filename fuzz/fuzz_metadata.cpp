// SPDX-License-Identifier: Apache-2.0
// An AMD code object as the HIP shim reads it inside of the program.
#include <cstdint>
#include <cstdlib>

#include "shim/hsa/metadata.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace klab::shim;
  const AmdgpuCode code({reinterpret_cast<const std::byte*>(data), size});
  code.each_kernel({}, [](AmdgpuKernel&& k) {
    std::uint64_t end = 0;
    for (const AmdgpuArgument& a : k.arguments) {
      if (a.offset < end) std::abort();
      end = std::uint64_t{a.offset} + a.size;
    }
  });
  (void)code.kernel("step");
  for (const AmdgpuVariable& v : code.variables())
    if (v.name.empty() || v.name.size() > size) std::abort();
  return 0;
}
