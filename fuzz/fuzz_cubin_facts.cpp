// SPDX-License-Identifier: Apache-2.0
// Cubins from a stranger's program.
#include "compile/cubin/cubin.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace klab::compile;
  const auto bytes = std::as_bytes(std::span(data, size));
  (void)embedded_ptx(bytes);
  auto facts = read_cubin(bytes);
  if (!facts) return 0;
  // Nothing is larger than the file allows.
  FUZZ_CHECK(facts->kernels.size() + facts->variables.size() <= size / 24 + 1);
  std::size_t parameters = 0;
  for (const KernelFacts& k : facts->kernels) parameters = std::max(parameters, k.parameters ? k.parameters->size() : 0);
  FUZZ_CHECK(parameters <= size / 16 + 1);
  read_spills(klab::fuzz::text_of(data, size), *facts);
  const klab::Json json = *facts;
  FUZZ_CHECK(!json.dump(-1, ' ', false, klab::Json::error_handler_t::replace).empty());
  return 0;
}
