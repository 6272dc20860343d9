// SPDX-License-Identifier: Apache-2.0
// The workgroup size of a SPIR-V entry point.
#pragma once
#include <span>
#include <string_view>

#include "bundle/manifest.h"

namespace klab::capture {

/// With `spec` in place of the constants' defaults. {0, 0, 0} when it cannot be known: the module does not
/// parse, has no such entry point, or computes its size. `code` is foreign.
bundle::Dim3 workgroup_size(std::span<const std::byte> code, std::string_view entry,
                            const std::vector<bundle::SpecConstant>& spec);

}  // namespace klab::capture
