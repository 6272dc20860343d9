// SPDX-License-Identifier: Apache-2.0
// The program's own calls that dispatch, as lists and bundles name them.
#pragma once
#include <cstdint>

#include "shim/abi/abi.h"

namespace klab::capture {

/// "vkCmdDispatch", "cuLaunchKernel"; "?" for a number that is not known.
inline const char* call_name(std::uint32_t call) {
  switch (call) {
    case KLAB_CALL_DISPATCH:
      return "vkCmdDispatch";
    case KLAB_CALL_DISPATCH_BASE:
      return "vkCmdDispatchBase";
    case KLAB_CALL_DISPATCH_BASE_KHR:
      return "vkCmdDispatchBaseKHR";
    case KLAB_CALL_DISPATCH_INDIRECT:
      return "vkCmdDispatchIndirect";
    case KLAB_CALL_CUDA_LAUNCH:
      return "cuLaunchKernel";
    case KLAB_CALL_CUDA_LAUNCH_EX:
      return "cuLaunchKernelEx";
    case KLAB_CALL_CUDA_LAUNCH_COOPERATIVE:
      return "cuLaunchCooperativeKernel";
    case KLAB_CALL_CUDA_GRAPH:
      return "cuGraphLaunch";
    case KLAB_CALL_HSA_DISPATCH:
      return "hsa_kernel_dispatch";
    default:
      return "?";
  }
}

}  // namespace klab::capture
