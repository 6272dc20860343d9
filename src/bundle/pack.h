// SPDX-License-Identifier: Apache-2.0
// One compressed file of a bundle, for sending (zstd over a simple member list), and back.
#pragma once
#include "base/error.h"
#include "base/files.h"

namespace klab::bundle {

/// Errors: those of Reader::verify (a corrupt bundle is not packed), usage when `file` exists, io_failed, disk_full.
Status pack(const fs::path& bundle, const fs::path& file);
/// Unpacks into a staging folder, verifies all hashes, renames to `bundle`. Foreign bytes: names, sizes and the
/// expanded total (`max_bytes`) are checked.
/// Errors: usage when `bundle` exists, invalid_data, bundle_corrupt, bundle_version, cap_reached, io_failed, disk_full.
Status unpack(const fs::path& file, const fs::path& bundle, std::uint64_t max_bytes = 1ull << 40);

}  // namespace klab::bundle
