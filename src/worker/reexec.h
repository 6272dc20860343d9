// SPDX-License-Identifier: Apache-2.0
// Starting this process anew when its own mappings lie where captured memory must: another run, another
// layout.
#pragma once
#include <optional>

#include "base/json.h"

namespace klab::worker {

/// Replaces the process image, keeping the socket and handing over `pending`. Returns only when it was tried
/// kMostAttempts times for this message, or when it cannot be done: the number of tries.
int start_anew(char** argv, const Json& pending);
/// The message that a former image handed over, once.
std::optional<Json> take_pending();
/// Call when a message is answered: the next one has all its attempts again.
void forget_attempts();

inline constexpr int kMostAttempts = 8;

}  // namespace klab::worker
