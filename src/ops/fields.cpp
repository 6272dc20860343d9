// SPDX-License-Identifier: Apache-2.0
#include "ops/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace klab::ops {

Status Fields::done() const {
  std::string wrong = error_;
  if (wrong.empty())
    for (const auto& [name, value] : arguments_.items())
      if (!known_.contains(name)) {
        wrong = fmt::format("there is no \"{}\"", name.substr(0, 80));
        break;
      }
  if (wrong.empty()) return {};
  return fail(ErrorCode::usage, fmt::format("{}: {}", verb_, wrong),
              fmt::format("its arguments: {}", known_.empty() ? "none" : fmt::format("{}", fmt::join(known_, ", "))));
}

}  // namespace klab::ops
