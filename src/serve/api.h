// SPDX-License-Identifier: Apache-2.0
// What the page may ask for: verbs of ops/ and of the hub by name, with arguments that stay within what the person
// allowed. Not here: sockets (server.h).
#pragma once
#include <functional>
#include <string>

#include "hub/client.h"
#include "ops/granted.h"

namespace klab::serve {

/// As hub::Client::call; a stub in tests.
using Call = std::function<Result<Json>(const std::string& verb, const Json& arguments,
                                        const std::function<bool()>& cancelled)>;

/// Thread: any.
class Api {
 public:
  Api(ops::Granted granted, Call call, std::string version)
      : granted_(std::move(granted)), call_(std::move(call)), version_(std::move(version)) {}

  /// {version, home, host, allowed: {roots, programs, save_roots, read_only}}.
  Json about() const;
  /// One verb. Errors: usage (unknown, or not for a page), not_allowed (read-only, a path elsewhere), the verb's own.
  Result<Json> call(const std::string& verb, const Json& arguments, const std::function<bool()>& cancelled) const;
  /// The body of POST /api/call: {"verb", "arguments"}, answered as {"result"} or {"error"}.
  std::string answer(const std::string& body, const std::function<bool()>& cancelled) const;

 private:
  Result<Json> checked(const std::string& verb, Json arguments) const;
  const ops::Granted granted_;
  const Call call_;
  const std::string version_;
};

}  // namespace klab::serve
