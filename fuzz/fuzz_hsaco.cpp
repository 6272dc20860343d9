// SPDX-License-Identifier: Apache-2.0
// AMD GPU code objects and clang offload bundles from a stranger's program.
#include "bundle/hsaco.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace klab::bundle;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto entries = read_offload_bundle(bytes))
    for (const OffloadEntry& e : *entries) FUZZ_CHECK(e.bytes.size() <= size && e.id.size() <= size);
  if (const auto fits = hsaco_for(bytes, "gfx1030")) FUZZ_CHECK(fits->size() <= size);
  const auto code = read_hsaco(bytes);
  if (!code) return 0;
  FUZZ_CHECK(code->variables.size() + code->undefined.size() <= size / 24 + 1);
  FUZZ_CHECK(code->kernels.size() <= size);
  for (const HsacoKernel& k : code->kernels) {
    FUZZ_CHECK(k.explicit_bytes() <= k.kernarg_bytes);
    FUZZ_CHECK(k.code.size() <= size);
    std::uint32_t before = 0;
    for (const HsacoArgument& a : k.arguments) {
      FUZZ_CHECK(a.offset >= before);
      before = a.offset;
    }
  }
  return 0;
}
