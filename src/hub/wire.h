// SPDX-License-Identifier: Apache-2.0
// Where the hub is and what is said on its socket: frames of replay/protocol.h.
//   client: {"hello": {protocol, version, build}}                      hub: {"hub": {protocol, version,
//   build, pid}} client: {"verb", "arguments", "front_end", "environment"}          hub: {"progress": {...}}
//   any number of times,
//                                                                      then {"result"} or {"error"}; then the
//                                                                      next call
// A client that closes, or sends anything, during a call cancels it. Verb device.hold is answered when the
// devices are the caller's, and holds them until the connection closes.
#pragma once
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"

namespace klab::hub {

inline constexpr int kHubProtocol = 1;
inline constexpr std::size_t kMaxCall = 32u << 20;  // bytes of what a client may send at once

/// The socket of this user's hub for this $KLAB_HOME, in a folder that is only ours. Errors: environment.
Result<fs::path> socket_path();
/// {protocol, version, build}: who differs in any of them does not work together.
Json identity();

}  // namespace klab::hub
