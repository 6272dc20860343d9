// SPDX-License-Identifier: Apache-2.0
// What two copies of one module were measured to differ by, kept for a week: by device, driver, duration class and cache
// state. Not here: measuring it (worker/server_compare.cpp).
#pragma once
#include "replay/protocol.h"

namespace klab::ops {

/// Those that are not too old, by the name that a worker gives them. A file that cannot be read is none.
std::map<std::string, replay::Comparing::Floor> known_floors();
/// Keeps the floor that `comparison` (replay::Answer) measured, if it did.
Status keep_floor(const Json& comparison);

}  // namespace klab::ops
