// SPDX-License-Identifier: Apache-2.0
// manifest.json, as it is and with a right seal put on it.
#include "bundle/manifest.h"
#include "bundle/seal.h"
#include "fuzz.h"

using namespace klab;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  (void)bundle::read_manifest(text, "fuzz");
  auto j = parse_json(text, "fuzz");
  if (!j || !j->is_object()) return 0;
  j->erase("seal");
  if (j->empty()) return 0;
  const auto manifest = bundle::read_manifest(bundle::seal_json(*j), "fuzz");
  if (!manifest) {
    FUZZ_CHECK(!manifest.error().what.empty());
    return 0;
  }
  // What is accepted can be written and reads back the same.
  const auto again = bundle::read_manifest(bundle::write_manifest(*manifest), "fuzz");
  FUZZ_CHECK(again);
  FUZZ_CHECK(Json(*again) == Json(*manifest));
  return 0;
}
