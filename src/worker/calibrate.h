// SPDX-License-Identifier: Apache-2.0
// Verb "calibrate": what rates this device attains, measured with Klab's own kernels (kernels/calibration.h).
// Not here: keeping the answer and what it means for a kernel (calibrate/).
#pragma once
#include <functional>
#include <string>

#include "worker/deadline.h"
#include "worker/gpu.h"

namespace klab::worker {

using OnStep = std::function<void(const std::string& what, std::uint64_t done, std::uint64_t total)>;

/// {"figures": [...], "missing": [{"name", "why"}], "notes": [...]}; calibrate/calibration.h reads it. A figure that
/// this device cannot have is missing, with the reason. Takes some seconds and several arrays of device memory.
/// Errors: device_fault, timeout (also when the budget is spent), out_of_memory.
Result<Json> calibrate(Gpu& gpu, const Deadline& deadline, const OnStep& on_step);

}  // namespace klab::worker
