// SPDX-License-Identifier: Apache-2.0
// JSON as the store keeps what can be long: compressed.
// Not here: which columns are kept so (store.cpp, sessions.cpp).
#pragma once
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace klab::session {

/// zstd of the compact text. Text that is not UTF-8 has its bad bytes replaced: an answer is stored whatever
/// a driver said in it.
std::string pack_json(const Json& value);
/// Null for no bytes. Errors: store_failed (damaged, or over 256 MiB), naming `what`.
Result<Json> unpack_json(std::string_view packed, std::string_view what);

/// As pack_json without compression: what every JSON column is written with.
std::string json_text(const Json& value);

}  // namespace klab::session
