// SPDX-License-Identifier: Apache-2.0
// Which hardware counters are read by default, and figures that follow from them by a stated formula.
// Not here: reading them (gpu/).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "gpu/backend.h"

namespace klab::worker {

/// `asked` with "default" replaced by the chosen set of `api`; no name twice.
std::vector<std::string> counter_names(std::string_view api, const std::vector<std::string>& asked);

/// VariantAnswer::counters. A derived figure is left out when a counter that it needs is missing.
Json counters_json(std::string_view api, const gpu::Counters& counters);

}  // namespace klab::worker
