// SPDX-License-Identifier: Apache-2.0
#include "serve/gate.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/ids.h"

namespace klab::serve {

bool is_loopback(std::string_view host) {
  std::string_view name = host;
  if (name.starts_with('[')) {
    const auto end = name.find(']');
    if (end == std::string_view::npos) return false;
    const std::string_view port = name.substr(end + 1);
    if (!port.empty() && port[0] != ':') return false;
    name = name.substr(0, end + 1);
  } else {
    name = name.substr(0, name.find(':'));
  }
  const std::string_view port = host.substr(name.size());
  if (!port.empty() && !std::all_of(port.begin() + 1, port.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return false;
  return name == "127.0.0.1" || name == "localhost" || name == "[::1]";
}

std::optional<Refusal> refusal(const Asked& asked, std::string_view token) {
  if (!is_loopback(asked.host))
    return Refusal{403, "Host is not this machine", "open the address that klab serve printed"};
  if (!asked.origin.empty() && asked.origin != fmt::format("http://{}", asked.host))
    return Refusal{403, "the request comes from another page", "open the address that klab serve printed"};
  if (asked.content_length && *asked.content_length > kMostBody)
    return Refusal{413, fmt::format("{} bytes are too many", *asked.content_length),
                   fmt::format("at most {} MiB", kMostBody >> 20)};
  if (!asked.target.starts_with("/api/")) {
    if (asked.method != "GET" && asked.method != "HEAD") return Refusal{405, "only GET is answered here", ""};
    return std::nullopt;
  }
  if (!asked.fetch_site.empty() && asked.fetch_site != "same-origin" && asked.fetch_site != "none")
    return Refusal{403, "the request comes from another page", "open the address that klab serve printed"};
  constexpr std::string_view kBearer = "Bearer ";
  if (!asked.authorization.starts_with(kBearer) ||
      !same_token(asked.authorization.substr(kBearer.size()), token))
    return Refusal{401, "no token, or a wrong one", "open the address that klab serve printed: it has the token"};
  if (asked.method == "POST") {
    if (asked.content_type.substr(0, asked.content_type.find(';')) != "application/json")
      return Refusal{415, "a call is application/json", ""};
  } else if (asked.method != "GET") {
    return Refusal{405, "GET or POST", ""};
  }
  return std::nullopt;
}

std::string error_body(std::string_view code, std::string_view what, std::string_view hint) {
  return Json{{"error", {{"code", code}, {"what", what}, {"hint", hint}}}}.dump(-1, ' ', false,
                                                                                Json::error_handler_t::replace);
}

}  // namespace klab::serve
