// SPDX-License-Identifier: Apache-2.0
// Where hipcc and its headers are on this machine. Looks at files only. Not here: using them (hipcc.h).
#pragma once
#include <string>
#include <vector>

#include "compile/cuda/toolkit.h"

namespace klab::compile {

/// `own` (Options::hipcc), else $KLAB_HIPCC, names one and ends the search; then $ROCM_PATH, $HIP_PATH, PATH, /opt/rocm.
FoundFile find_hipcc(const std::string& own = {});
/// "amd_comgr", "hiprtc", "amdhip64": beside the environment's ROCm, the hipcc that is found, /opt/rocm, the system's
/// folders. Files only: what the loader alone knows is not found.
FoundFile find_rocm_library(const std::string& name);
/// $KLAB_HIPRTC names one and ends the search; then libhiprtc, else libamdhip64, which holds it before ROCm 5.5 and in Debian.
FoundFile find_hiprtc();
/// Path, size and time of hipcc, of the compiler that it calls, of hiprtc and comgr: changes when they do.
std::string hip_identity(const std::string& own_hipcc);
/// Folders whose headers hipcc's version stands for.
std::vector<std::string> hip_system_folders(const std::string& own_hipcc);
/// Those with hip/hip_runtime.h that no compiler looks into by itself.
std::vector<std::string> hip_include_folders();

}  // namespace klab::compile
