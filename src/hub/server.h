// SPDX-License-Identifier: Apache-2.0
// The hub's process: a socket in front of a Core.
#pragma once
#include <functional>

#include "base/error.h"

namespace klab::hub {

struct ServeOptions {
  double idle_s = 600;  // with no connection and no work for so long it ends; KLAB_HUB_IDLE_S
};
/// Serves until it is idle, told to stop, or `stop` is true. Says when it listens by being connectable.
/// Errors: environment (no place for the socket), illegal_state (a hub serves this home already).
Status serve(const ServeOptions& options, const std::function<bool()>& stop);

}  // namespace klab::hub
