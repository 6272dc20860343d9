// SPDX-License-Identifier: Apache-2.0
#include "worker/observer.h"

#include <fstream>
#include <thread>

#include "base/files.h"

namespace klab::worker {
namespace {

constexpr std::size_t kMostSamples = 4096;
// On a CPU driver the kernel's threads are ours. When they wait for a processor longer than this share of the block,
// others had it.
constexpr double kMostWaiting = 0.05;

}  // namespace

double run_queue_wait_ns() {
  double sum = 0;
  std::error_code ec;
  for (const auto& task : fs::directory_iterator("/proc/self/task", ec)) {
    std::ifstream in(task.path() / "schedstat");
    double ran = 0, waited = 0;
    if (in >> ran >> waited) sum += waited;
  }
  return sum;
}

Observer::Observer(const bundle::DeviceIdentity& device)
    : telemetry_(gpu::open_telemetry(device, why_)), cpu_(device.type == "cpu" && device.api != "fake") {}

void Observer::begin() {
  began_ = std::chrono::steady_clock::now();
  if (cpu_) waited_ns_ = run_queue_wait_ns();
  if (telemetry_) first_ = telemetry_->sample();
}

std::string Observer::end(double at_s) {
  std::string why;
  Json sample;
  if (telemetry_) {
    last_ = telemetry_->sample();
    sample = last_;
    for (const gpu::TelemetrySample* s : {&first_, &last_}) {
      if (why.empty()) why = s->slowdown;
    }
    if (why.empty()) why = last_.foreign;
  } else if (cpu_) {
    const double wall = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - began_).count();
    const double threads = std::max(1u, std::thread::hardware_concurrency());
    const double share = (run_queue_wait_ns() - waited_ns_) / (wall * threads);
    sample["waiting_share"] = share;
    if (share > kMostWaiting) why = "other programs had the processors";
  }
  if (!sample.is_null() && samples_.size() < kMostSamples) {
    sample["at_s"] = at_s;
    samples_.push_back(std::move(sample));
  }
  return why;
}

Json Observer::json() const {
  Json j{{"source", telemetry_ ? std::string(telemetry_->source()) : "none"}, {"samples", samples_}};
  if (telemetry_)
    j["limits"] = telemetry_->facts();
  else
    j["why"] = why_;
  return j;
}

}  // namespace klab::worker
