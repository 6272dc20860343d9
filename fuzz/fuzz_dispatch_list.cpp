// SPDX-License-Identifier: Apache-2.0
// A dispatch list: what is accepted reads back the same after writing.
#include "fuzz.h"
#include "import/dispatch_list.h"

using namespace klab;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fs::path file = fuzz::scratch() / "list.jsonl", copy = fuzz::scratch() / "copy.jsonl";
  fuzz::write_plain(file, fuzz::text_of(data, size));
  const auto list = import::read_list(file);
  if (!list) {
    FUZZ_CHECK(!list.error().what.empty());
    return 0;
  }
  std::uint64_t calls = 0;
  std::vector<std::string> names;
  for (const auto& s : import::summarise(*list)) calls += s.calls;
  for (const auto& k : list->kernels) names.push_back(k.name);
  FUZZ_CHECK(calls == list->rows.size());
  (void)import::nearest_names(names, list->source);
  if (!names.empty())
    (void)import::nearest_names(names, std::string_view(names[0]).substr(names[0].size() / 2));
  FUZZ_CHECK(import::write_list(copy, *list));
  const auto again = import::read_list(copy);
  FUZZ_CHECK(again);
  FUZZ_CHECK(again->rows.size() == list->rows.size() && again->kernels.size() == list->kernels.size());
  return 0;
}
