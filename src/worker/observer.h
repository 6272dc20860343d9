// SPDX-License-Identifier: Apache-2.0
// Watches the device while a comparison runs, and says of each block whether it counts, without a look at its times.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "gpu/telemetry.h"

namespace klab::worker {

/// Of all processors together (/proc/stat), as coarse as its ticks (mostly 10 ms).
struct ProcessorTimes {
  double idle_ns = 0, stolen_ns = 0;  // stolen: by other guests of a virtual machine's host
  double tick_ns = 0;
};

/// How the processors were used until a moment; nanoseconds.
struct ProcessorUse {
  double at_ns = 0;
  double processors = 1;  // of the machine
  double own_ns = 0;      // processor time of this process
  double waited_ns = 0;   // run_queue_wait_ns()
  std::optional<ProcessorTimes> all;  // empty: not told here
};

/// Nanoseconds that this process's threads were ready to run but had no processor (/proc/self/task/*/schedstat).
double run_queue_wait_ns();
std::optional<ProcessorTimes> processor_times();
ProcessorUse processor_use();
/// Processor time that others had and this process wanted: its threads waited, and somebody else ran. Threads that wait for
/// each other (a driver has more of them than processors) take nothing. Where the others are not told, all that was waited.
double taken_ns(const ProcessorUse& from, const ProcessorUse& to);

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
  ProcessorUse use_;  // when the block began
  gpu::TelemetrySample first_, last_;
  Json samples_ = Json::array();
};

}  // namespace klab::worker
