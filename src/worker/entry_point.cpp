// SPDX-License-Identifier: Apache-2.0
#include "worker/entry_point.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>

namespace klab::worker {

std::string base_name(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
  std::string name = status == 0 && text ? text.get() : mangled;
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  for (auto at = name.find(kAnonymous); at != std::string::npos; at = name.find(kAnonymous))
    name.replace(at, kAnonymous.size(), "anonymous");
  // Outside of <>: up to the arguments, after the return type and the scopes.
  std::string flat;
  int depth = 0;
  for (const char c : name) {
    if (c == '<') ++depth;
    if (depth == 0 && c == '(') break;
    if (depth == 0) flat += c;
    if (c == '>') --depth;
  }
  while (!flat.empty() && flat.back() == ' ') flat.pop_back();
  return flat.substr(flat.find_last_of(" :") + 1);
}

Result<EntryPoint> choose_entry_point(const std::string& wanted, const std::vector<std::string>& there) {
  if (std::find(there.begin(), there.end(), wanted) != there.end()) return EntryPoint{wanted, {}};
  const std::string base = base_name(wanted);
  std::vector<std::string> same;
  std::string names;
  for (const std::string& name : there) {
    if (base_name(name) == base) same.push_back(name);
    if (names.size() < 2000) names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  if (same.size() == 1)
    return EntryPoint{same[0],
                      fmt::format("its kernel is {}, the captured one was {}: the same base name, another "
                                  "signature or linkage",
                                  same[0], wanted)};
  return fail(
      ErrorCode::missing_symbol,
      fmt::format("the code object has no kernel {}; it has {}", wanted, names.empty() ? "none" : names),
      same.size() > 1 ? "several have its base name: give the entry point"
                      : "keep the captured kernel's name and parameters");
}

}  // namespace klab::worker
