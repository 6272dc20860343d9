// SPDX-License-Identifier: Apache-2.0
// A comparison as one object that can be handed on and checked elsewhere: docs/report.md.
// Not here: the page made of it (report_html.h), the arithmetic behind a verdict (measure/comparison.h).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ops/lab.h"

namespace klab::ops {

inline constexpr std::string_view kReportSchema = "klab.report/1";
inline constexpr std::size_t kMostReportBytes = 64u << 20;
inline constexpr std::size_t kMostReportBlocks = 100'000, kMostReportSamples = 20'000;

/// What a report is made of. What is not there is left out of it.
struct ReportParts {
  session::VerdictRow row;  // with its detail: replay::Answer as JSON, perhaps of an older version
  session::BundleRow bundle;
  std::optional<bundle::Dispatch> dispatch;  // empty: the bundle is gone
  std::optional<session::VariantRow> a, b;   // empty: the captured code
};
/// A pure function but for the time. Samples beyond kMostReportSamples are thinned evenly.
Json report_of(const ReportParts& parts);

struct ReportRequest {
  fs::path bundle;              // may be empty when `comparison` is given
  std::int64_t comparison = 0;  // its number; 0: the bundle's newest
};
/// Errors: not_found (no such comparison, none yet, or one of another bundle), those of open_bundle.
Result<Json> make_report(Lab& lab, const ReportRequest& request);

struct ReportFiles {
  fs::path html, data;    // empty: NAME-report.html and NAME-report.json beside each other
  fs::path folder;  // of those
  bool replace = false;
};
struct WrittenReport {
  Json report;
  fs::path html, data;
};
/// Makes the report and writes both files. Errors: usage when one is there already, those of make_report and
/// of writing.
Result<WrittenReport> write_report(Lab& lab, const ReportRequest& request, const ReportFiles& files);

/// Comparisons of a bundle, newest first: rows without detail, and the name of each variant. JSON array.
Result<Json> list_comparisons(Lab& lab, const fs::path& bundle);

/// The text of a report's file: `report` with the hash of its content. What is no object stays without.
std::string seal_report(Json report);
/// Foreign bytes: bounded in size and depth; only JSON so far. Errors: not_found, io_failed, cap_reached,
/// invalid_data.
Result<Json> read_report(const fs::path& file);

enum class Agreement { ok, failed, skipped };
KLAB_JSON_ENUM(Agreement, ok, failed, skipped)
struct ReportCheck {
  std::string name;
  Agreement result = Agreement::ok;
  std::string detail;  // what agrees, what differs, or why there was nothing to check
};
void to_json(Json& j, const ReportCheck& v);
/// Whether a report agrees with itself: what each check means is in docs/report.md. Any JSON may be given.
std::vector<ReportCheck> verify_report(const Json& report);
/// No check failed.
bool agrees(const std::vector<ReportCheck>& checks);

}  // namespace klab::ops
