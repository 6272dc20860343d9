// SPDX-License-Identifier: Apache-2.0
// The page's files, as they were built into the program.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "base/files.h"

namespace klab::serve {

struct Asset {
  std::string_view name;             // "app.js", "index.html"
  std::string_view type;             // "text/javascript; charset=utf-8"
  std::string_view plain, packed;    // packed: gzip; empty when it does not pay
  std::string_view tag;              // of its content, for ETag
};

/// All of them; none when this build has no page.
std::span<const Asset> assets();
const Asset* find_asset(std::string_view name);

/// The type that a browser is told for a file of this name; text/plain for what we do not know.
std::string_view type_of(std::string_view name);

}  // namespace klab::serve
