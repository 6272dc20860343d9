// SPDX-License-Identifier: Apache-2.0
// Connections to the page: loopback and a private Unix socket, with limits that hold whoever connects.
#pragma once
#include <functional>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "serve/api.h"

namespace klab::serve {

struct ServeOptions {
  int port = 0;       // of 127.0.0.1; 0: a free one
  fs::path socket;    // a Unix socket besides (0600); empty: none
  std::string token;  // what `Authorization: Bearer` must say
  fs::path page;      // files from there in place of the built-in ones: for who works on the page
};

/// Most connections at a time. At the limit the oldest one that has not shown the token gives way.
inline constexpr std::size_t kMostConnections = 256;

/// Serves until `stop` is true (polled). `ready` hears the port once it is listened on.
/// Errors: io_failed, usage (the socket's path), unsupported (this build has no page).
Status serve(const Api& api, const Call& call, const ServeOptions& options,
             const std::function<void(int port)>& ready, const std::function<bool()>& stop);

}  // namespace klab::serve
