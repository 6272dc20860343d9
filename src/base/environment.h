// SPDX-License-Identifier: Apache-2.0
// Whose environment variables count. The hub works for callers in other shells: their PATH, their CUDA, their
// drivers' settings, and not its own.
#pragma once
#include <map>
#include <memory>
#include <string>

namespace klab {

using Variables = std::map<std::string, std::string>;

/// While it lives, environment_value() in this thread, and children that this thread starts, see `variables` in
/// place of the process's own. Null: the process's own. A thread that is started inside takes current() along.
class ScopedEnvironment {
 public:
  explicit ScopedEnvironment(std::shared_ptr<const Variables> variables);
  ~ScopedEnvironment();
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

  static std::shared_ptr<const Variables> current();

 private:
  std::shared_ptr<const Variables> before_;
};

/// As getenv; the pointer lives as long as the scope, or until the process's environment is changed.
const char* environment_value(const char* name);
/// All of it.
Variables environment_variables();

}  // namespace klab
