// SPDX-License-Identifier: Apache-2.0
// What this machine has and lacks, and the package that brings it.
#pragma once
#include "ops/lab.h"

namespace klab::ops {

enum class Health { ok, warning, missing };
KLAB_JSON_ENUM(Health, ok, warning, missing)

struct Check {
  std::string name;
  Health health = Health::ok;
  std::string found;  // what was seen
  std::string fix;    // one thing to do, when not ok
};
void to_json(Json& j, const Check& v);

/// Runs every check; starts a worker to see the devices, and klab-compile on a small shader.
std::vector<Check> examine(Lab& lab);

}  // namespace klab::ops
