// SPDX-License-Identifier: Apache-2.0
// A report's JSON, as anyone may send it: checked, and made a page of.
#include <cstdint>

#include "fuzz.h"
#include "ops/report.h"
#include "ops/report_html.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace klab;
  const auto report = parse_json(fuzz::text_of(data, size), "f", 1 << 20);
  if (!report) return 0;
  const auto checks = ops::verify_report(*report);
  FUZZ_CHECK(!checks.empty());
  // What was checked is what stands there: sealing it again changes nothing but the seal.
  const auto again = parse_json(ops::seal_report(*report), "f", 4 << 20);
  if (report->is_object() && again) {
    for (const auto& c : ops::verify_report(*again))
      FUZZ_CHECK(c.name != "seal" || c.result == ops::Agreement::ok);
  }
  const std::string html = ops::report_html(*report, "f.json");
  FUZZ_CHECK(html.ends_with("</html>\n"));
  FUZZ_CHECK(html.find("<script") == std::string::npos);
  return 0;
}
