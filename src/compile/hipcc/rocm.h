// SPDX-License-Identifier: Apache-2.0
// Where hipcc and its headers are on this machine. Looks at files only. Not here: using them (hipcc.h).
#pragma once
#include <string>
#include <vector>

#include "compile/cuda/toolkit.h"

namespace klab::compile {

/// $KLAB_HIPCC names one and ends the search; then $ROCM_PATH, $HIP_PATH, PATH, /opt/rocm.
FoundFile find_hipcc();
/// Path, size and time of hipcc and of the compiler that it calls: changes when they do.
std::string hipcc_identity();
/// Folders whose headers hipcc's version stands for.
std::vector<std::string> hip_system_folders();

}  // namespace klab::compile
