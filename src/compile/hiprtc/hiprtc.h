// SPDX-License-Identifier: Apache-2.0
// HIP device code through hiprtc, opened at run time: in a third of hipcc's time, and where no hipcc is. comgr, which does
// its work, is opened by hiprtc itself.
#pragma once
#include <string>

#include "compile/cuda/outcome.h"

namespace klab::compile {

/// As compile_hipcc; `expression` ("scale<float, 4>") is instantiated too when not empty, and outcome.lowered_name is what
/// it is called in the code. A compiler that ends its process (ROCm 5.2 does for processors that it has no device library
/// for) ends klab-compile, which the caller is told as a crash.
CudaOutcome compile_hiprtc(const std::string& text, const std::string& name, const Options& options,
                           const std::string& instantiate, const std::string& expression);
Tool hiprtc_tool();
Tool comgr_tool();

}  // namespace klab::compile
