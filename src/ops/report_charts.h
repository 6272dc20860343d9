// SPDX-License-Identifier: Apache-2.0
// The charts of a report. Each is drawn for a width, in CSS pixels, so that its text can be read on a small
// screen too. Not here: the page around them (report_html.cpp).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "measure/comparison.h"

namespace klab::ops {

/// Of a report, what charts show; read once.
struct ReportView {
  explicit ReportView(const Json& report);
  const Json& report;
  std::string a, b;                               // labels
  std::optional<measure::Comparison> comparison;  // empty: not there, or not one that can be drawn
  std::vector<double> samples_a, samples_b;
  double step_ns = 0;                    // of the timer
  std::vector<const Json*> environment;  // samples of this comparison in order of time

  std::string who(bool is_b) const { return is_b ? "B " + b : "A " + a; }
};

/// Each is empty when there is nothing to draw.
std::string interval_chart(const ReportView& view, double width);
std::string distribution_chart(const ReportView& view, double width);
std::string ratio_chart(const ReportView& view, double width);
std::string letter_chart(const ReportView& view, double width);
std::string clock_charts(const ReportView& view, double width);

/// "3.21 %" of a share.
std::string percent_text(double share);

}  // namespace klab::ops
