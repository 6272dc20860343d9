// SPDX-License-Identifier: Apache-2.0
// Hardware counters of one launch, through CUPTI's range profiler (a range for each kernel, user replay).
// Not here: which counters a person wants by default, and figures derived from them (worker/counters.*).
#pragma once
#include <cuda.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "gpu/backend.h"

namespace klab::gpu::cuda {

/// Collects `names` around `launch`, which must run the kernel and wait for it, once for each pass that they
/// need; before each pass `restore` puts its inputs back. Names that this GPU does not have come back in
/// `missing`. `context` must be current. CUPTI stays loaded in the process; the profiler itself is taken down
/// again. Errors: environment (no libcupti; counters not permitted: says how to permit them), unsupported,
/// failed. Source: cupti_range_profiler.h and cupti_profiler_host.h of CUDA 13.0.
Result<Counters> collect_counters(CUcontext context, CUdevice device, std::span<const std::string> names,
                                  const std::function<Status()>& restore,
                                  const std::function<Status()>& launch);

}  // namespace klab::gpu::cuda
