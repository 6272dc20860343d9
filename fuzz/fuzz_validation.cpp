// SPDX-License-Identifier: Apache-2.0
// What people and files say about values: float64 references, types, tolerances, layouts of a request.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/json.h"
#include "validate/reference_file.h"
#include "validate/values.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace klab::validate;
  const ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  if (const auto values = parse_reference(bytes, "f", 1 << 16); values && values->size() * 8 > size) std::abort();
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto t = parse_type(text); t && t->shape.size() > 8) std::abort();
  if (const auto t = parse_tolerance(text); t && !(t->absolute >= 0 && t->relative >= 0)) std::abort();
  const auto json = klab::parse_json(text, "f", 1 << 16);
  if (!json) return 0;
  auto ranges = klab::decode_json<std::vector<TypedRange>>(*json, "f");
  if (!ranges) return 0;
  const std::uint64_t sizes[] = {100, 4096, 0};
  const Layout layout(std::move(*ranges), sizes);
  ByteBuffer expected(4096), actual(4096);
  for (std::size_t i = 0; i < actual.size(); ++i) actual[i] = static_cast<std::byte>(i * 7);
  for (std::uint32_t region = 0; region < 3; ++region) {
    for (const Lane& lane : layout.floats(region))
      for (std::uint64_t i = 0; i < lane.count && i < 64; ++i)
        if (lane.at(i) + size_of(lane.type) > sizes[region] || lane.first_from(lane.at(i)) != i) std::abort();
    const Comparator c(Level::numeric, layout);
    const ByteView e = ByteView(expected).first(sizes[region]), a = ByteView(actual).first(sizes[region]);
    RegionReport report;
    c.report(region, sizes[region], 0, e, a, {}, report);
    if (c.accepts(region, 0, e, a, {}) != (report.wrong == 0)) std::abort();
    for (std::uint64_t at = 0; at < sizes[region]; at += 13) (void)place_of(layout, region, at);
  }
  return 0;
}
