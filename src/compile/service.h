// SPDX-License-Identifier: Apache-2.0
// One request to one answer: what klab-compile does between its stdin and its stdout.
// Not here: the compilers (glsl/), modules (spirv/), starting the program (protocol.h).
#pragma once
#include "compile/protocol.h"

namespace klab::compile {

/// Never fails as such: what is wrong is in the answer.
Answer serve(const Request& request);

/// For a process that serves many requests: headers are precompiled below `folder`, which the caller removes.
void stay_warm(const fs::path& folder);

}  // namespace klab::compile
