// SPDX-License-Identifier: Apache-2.0
// What each CUDA compiler gives back.
#pragma once
#include <string>
#include <vector>

#include "compile/protocol.h"

namespace klab::compile {

struct CudaOutcome {
  Result<std::string> code = fail(ErrorCode::internal, "not compiled");  // compile_failed, environment, usage
  std::vector<Message> messages;
  std::string log;
  std::string compiler;      // "NVRTC 13.0.88"
  std::string lowered_name;  // of the asked expression, when the compiler says it
  std::vector<Dependency> dependencies;
  /// Why another compiler might take this source: a header or a name that only host compilation has. Empty:
  /// it would not.
  std::string unsuitable;
  std::vector<std::string> notes;  // options that were left out, for the log
};

}  // namespace klab::compile
