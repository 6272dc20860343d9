// SPDX-License-Identifier: Apache-2.0
// The seal of manifest.json, apart so that fuzzing and tests can seal hostile text too.
#pragma once
#include <string>

#include "base/json.h"

namespace klab::bundle {

/// Text of manifest.json for a non-empty object without "seal".
std::string seal_json(const Json& unsealed);

}  // namespace klab::bundle
