// SPDX-License-Identifier: Apache-2.0
// The page of a report: one file that asks for nothing, with charts made here. Any JSON may be given; all of
// its text is escaped.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"

namespace klab::ops {

/// `data_file`: the name of the report's JSON, as the page is to call it.
std::string report_html(const Json& report, std::string_view data_file);

/// For element content and quoted attributes; what XML does not have becomes U+FFFD.
std::string escape_html(std::string_view text);

}  // namespace klab::ops
