// SPDX-License-Identifier: Apache-2.0
// The rules for a file of the user's that may be rewritten: what kind it is, its line endings.
#pragma once
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files.h"

namespace klab::variant {

/// Errors: unsupported (not a regular file, read-only, several hard links), each with its reason.
Status check_writable(const fs::path& resolved);

/// `text` with the line endings and byte order mark of `before`.
std::string in_style_of(std::string_view before, std::string_view text);

}  // namespace klab::variant
