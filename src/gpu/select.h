// SPDX-License-Identifier: Apache-2.0
// Picks a device of a list by what a user types. Not here: making the list (each API's folder).
#pragma once
#include <string_view>
#include <vector>

#include "base/error.h"
#include "bundle/manifest.h"

namespace klab::gpu {

/// `selector`: empty (the first real GPU, else the first device), an index, a uuid, or part of a name.
/// `title`: the API's name for a person. `devices` is not empty. Errors: no_device, naming those that are
/// there.
Result<std::size_t> choose_device(std::string_view title, const std::vector<bundle::DeviceIdentity>& devices,
                                  std::string_view selector);

}  // namespace klab::gpu
