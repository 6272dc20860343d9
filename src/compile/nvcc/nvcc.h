// SPDX-License-Identifier: Apache-2.0
// CUDA C++ of any kind, whole programs too, through nvcc as a child process.
#pragma once
#include <string>

#include "compile/cuda/outcome.h"

namespace klab::compile {

/// As compile_nvrtc. `instantiate` is a declaration that is appended behind the source: "template __global__
/// void k<1>(int)". When `name` still holds exactly `text` it is compiled where it is, else a copy is, under
/// the user's name.
CudaOutcome compile_nvcc(const std::string& text, const std::string& name, const Options& options,
                         const std::string& instantiate);

/// "13.0.88" of nvcc, ptxas, ... by its --version; empty when it does not say.
std::string tool_version(const fs::path& program);

}  // namespace klab::compile
