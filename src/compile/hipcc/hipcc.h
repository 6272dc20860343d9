// SPDX-License-Identifier: Apache-2.0
// HIP C++ of any kind, whole programs too, through hipcc as a child process.
#pragma once
#include <string>

#include "compile/cuda/outcome.h"

namespace klab::compile {

/// "5.2.21153-0"; empty when it does not say.
std::string hipcc_version(const fs::path& hipcc);
/// As compile_nvcc: `outcome.code` is an HSACO for options.arch ("gfx90a:xnack-"). When `name` still holds exactly `text`
/// it is compiled where it is, else a copy is, under the user's name.
CudaOutcome compile_hipcc(const std::string& text, const std::string& name, const Options& options,
                          const std::string& instantiate);

}  // namespace klab::compile
