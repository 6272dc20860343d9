// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>

namespace klab {

/// `digits` random characters of 0-9a-z, from the system's generator. Not a secret.
std::string new_id(std::size_t digits = 10);

/// Now as "2026-01-31T12:00:00Z".
std::string utc_now();

}  // namespace klab
