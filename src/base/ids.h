// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace klab {

/// `digits` random characters of 0-9a-z, from the system's generator. Not a secret.
std::string new_id(std::size_t digits = 10);

/// Whether a token that came from outside is ours; takes as long wherever they differ. No token is never right.
bool same_token(std::string_view given, std::string_view right);

/// Now as "2026-01-31T12:00:00Z".
std::string utc_now();

}  // namespace klab
