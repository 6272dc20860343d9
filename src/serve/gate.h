// SPDX-License-Identifier: Apache-2.0
// Who is let in. Any page in the user's browser, and any user of the machine, can send requests to a port of
// loopback: a token that only the person has seen, and the names that the browser itself sends, keep them out.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace klab::serve {

inline constexpr std::uint64_t kMostBody = 16u << 20;

/// What is known of a request before its body is read.
struct Asked {
  std::string_view method, target, host, origin, fetch_site, authorization, content_type;
  std::optional<std::uint64_t> content_length;
};

struct Refusal {
  unsigned status = 400;
  std::string what, hint;
};

/// Nothing: it may go on. The page's own files need no token: they are the same for everybody, and hold nothing.
std::optional<Refusal> refusal(const Asked& asked, std::string_view token);

/// True when `host` is a name of this machine's loopback, with any port: a forwarded port has another number.
bool is_loopback(std::string_view host);

/// {"error": {"code", "what", "hint"}}.
std::string error_body(std::string_view code, std::string_view what, std::string_view hint);

}  // namespace klab::serve
