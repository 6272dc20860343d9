// SPDX-License-Identifier: Apache-2.0
#include "base/environment.h"

#include <cstdlib>
#include <string_view>
#include <utility>

extern char** environ;

namespace klab {
namespace {
thread_local std::shared_ptr<const Variables> now;
}

ScopedEnvironment::ScopedEnvironment(std::shared_ptr<const Variables> variables)
    : before_(std::exchange(now, std::move(variables))) {}
ScopedEnvironment::~ScopedEnvironment() { now = std::move(before_); }

std::shared_ptr<const Variables> ScopedEnvironment::current() { return now; }

const char* environment_value(const char* name) {
  if (now == nullptr) return std::getenv(name);
  const auto it = now->find(name);
  return it != now->end() ? it->second.c_str() : nullptr;
}

Variables environment_variables() {
  if (now != nullptr) return *now;
  Variables all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos && equals > 0)
      all.emplace(std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)));
  }
  return all;
}

}  // namespace klab
