// SPDX-License-Identifier: Apache-2.0
#include "serve/assets.h"

#include <algorithm>
#include <utility>

namespace klab::serve {

const Asset* find_asset(std::string_view name) {
  const auto all = assets();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Asset& a) { return a.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::string_view type_of(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {".html", "text/html; charset=utf-8"}, {".js", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},   {".svg", "image/svg+xml"},
      {".json", "application/json"},         {".woff2", "font/woff2"},
  };
  for (const auto& [end, type] : kTypes)
    if (name.ends_with(end)) return type;
  return "text/plain; charset=utf-8";
}

}  // namespace klab::serve
