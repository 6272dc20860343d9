// SPDX-License-Identifier: Apache-2.0
// CUDA C++ device code through NVRTC, loaded with dlopen. It can crash on some inputs: klab-compile and tests
// only.
#pragma once
#include <string>

#include "compile/cuda/outcome.h"

namespace klab::compile {

/// Lets NVRTC keep precompiled headers below `folder` from now on. They are of use to this process only, and
/// each is found again under the same `headers_key` only. Empty: no more.
void keep_precompiled_headers(const fs::path& folder);

/// Compiles `text`, which the user calls `name`, for options.arch. `expression` names a template
/// instantiation (empty: none). `headers_key` stands for the content of every header that the text may
/// include; empty: it is not known, and nothing is precompiled. Errors in `code`: environment (no usable
/// NVRTC, or it does not know the architecture), compile_failed. Thread: one at a time.
CudaOutcome compile_nvrtc(const std::string& text, const std::string& name, const Options& options,
                          const std::string& expression, const std::string& headers_key = {});

/// NVRTC as verb "tools" shows it. Loads it.
Tool nvrtc_tool();

}  // namespace klab::compile
