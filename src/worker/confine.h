// SPDX-License-Identifier: Apache-2.0
// Running a user's checker: no network, no new privileges, bounded memory, nothing open but what it is given.
// Not here: what it is asked (custom_checker.h).
#pragma once
#include <string>
#include <vector>

#include "base/error.h"

namespace klab::worker {

/// argv that runs `command` confined: this program again, as `--confine COUNT COMMAND...`. The command keeps
/// descriptors 0 to 2 and the `descriptors` that follow them (3, 4, ...).
std::vector<std::string> confined(const std::vector<std::string>& command, int descriptors);

/// The other side: confines this process and becomes the command. Returns only when it cannot; says why on stderr.
int run_confined(int argc, char** argv);

/// Whether this build can confine at all. Errors: environment.
Status can_confine();

}  // namespace klab::worker
