// SPDX-License-Identifier: Apache-2.0
// PTX to a cubin: ptxas as a child (10 ms), else nvJitLink in this process. Neither: the PTX as it is, which
// the driver compiles when it loads it.
#pragma once
#include <string>

#include "compile/cuda/outcome.h"

namespace klab::compile {

/// `outcome.code` is a cubin; or the PTX itself, and `unsuitable` then says why.
CudaOutcome assemble_ptx(const std::string& text, const std::string& name, const Options& options);

}  // namespace klab::compile
