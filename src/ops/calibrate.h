// SPDX-License-Identifier: Apache-2.0
// Verb "calibrate": what a device attains, from the cache or measured.
#pragma once
#include "calibrate/cache.h"
#include "ops/lab.h"

namespace klab::ops {

struct CalibrateRequest {
  std::string api;     // "cuda", "vulkan"; empty: any
  std::string device;  // selector: index, uuid, part of a name; also "API:selector"; empty: the first real GPU
  bool force = false;  // measure although a valid one is kept
  double budget_s = 120;
};
/// Errors: no_device, environment, interrupted, device_fault, timeout.
Result<calibrate::Looked> calibrate_device(Lab& lab, const CalibrateRequest& request);

/// What is kept, and never measures or loads a driver: {"calibrations": [{..., "expired"}]}, newest first; `api` and
/// `device` (part of a name, or a uuid) filter.
Result<Json> show_calibrations(const std::string& api, const std::string& device);

/// A valid one of exactly this device and driver.
std::optional<calibrate::Calibration> kept_calibration(const bundle::DeviceIdentity& device);

}  // namespace klab::ops
