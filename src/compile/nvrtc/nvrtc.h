// SPDX-License-Identifier: Apache-2.0
// CUDA C++ device code through NVRTC, loaded with dlopen. It can crash on some inputs: klab-compile and tests only.
#pragma once
#include <string>

#include "compile/cuda/outcome.h"

namespace klab::compile {

/// Compiles `text`, which the user calls `name`, for options.arch. `expression` names a template instantiation (empty:
/// none). Errors in `code`: environment (no usable NVRTC, or it does not know the architecture), compile_failed.
/// Thread: one at a time.
CudaOutcome compile_nvrtc(const std::string& text, const std::string& name, const Options& options,
                          const std::string& expression);

/// NVRTC as verb "tools" shows it. Loads it.
Tool nvrtc_tool();

}  // namespace klab::compile
