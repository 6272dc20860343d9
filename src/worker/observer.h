// SPDX-License-Identifier: Apache-2.0
// Watches the device while a comparison runs, and says of each block whether it counts, without a look at its times.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "gpu/telemetry.h"

namespace klab::worker {

class Observer {
 public:
  explicit Observer(const bundle::DeviceIdentity& device);
  /// A block begins.
  void begin();
  /// It has ended: why it does not count ("thermal slowdown"), or empty. Keeps a sample, `at_s` since the comparison began.
  std::string end(double at_s);
  /// Clock of the processors at the last sample; empty where nothing observes it.
  std::optional<double> clock_mhz() const { return last_.core_mhz; }
  bool observes_clocks() const { return telemetry_ != nullptr; }
  /// {"source", "why", "limits", "samples"}; docs/report.md.
  Json json() const;

 private:
  std::string why_;  // before telemetry_, whose opening fills it in
  std::unique_ptr<gpu::Telemetry> telemetry_;
  bool cpu_ = false;
  double waited_ns_ = 0;  // of this process's threads, when the block began
  std::chrono::steady_clock::time_point began_;
  gpu::TelemetrySample first_, last_;
  Json samples_ = Json::array();
};

/// Nanoseconds that this process's threads were ready to run but had no processor (/proc/self/task/*/schedstat).
double run_queue_wait_ns();

}  // namespace klab::worker
