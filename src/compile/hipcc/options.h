// SPDX-License-Identifier: Apache-2.0
// What hipcc and hiprtc, both clang, are told alike.
#pragma once
#include <string>
#include <vector>

#include "compile/protocol.h"

namespace klab::compile {

/// Errors: usage, for what no compiler of HIP can do.
Status check_hip_options(const Options& options);
/// Standard, optimisation, defines, include folders (`own_folder` after the user's; empty: none), options of the project and
/// of the user. Not the architecture, which each takes in its own words.
void add_hip_options(const Options& options, const std::string& own_folder, std::vector<std::string>& argv);

}  // namespace klab::compile
