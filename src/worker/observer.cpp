// SPDX-License-Identifier: Apache-2.0
#include "worker/observer.h"

#include <unistd.h>

#include <ctime>
#include <fstream>
#include <thread>

#include "base/files.h"

namespace klab::worker {
namespace {

constexpr std::size_t kMostSamples = 4096;
// On a CPU driver the kernel's threads are ours. A block does not count when others had more than this share of the processors.
constexpr double kMostTaken = 0.05;

double process_cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e9 * static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec);
}

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

std::optional<ProcessorTimes> processor_times() {
  // proc(5): user nice system idle iowait irq softirq steal, in ticks of USER_HZ, then a line for each processor.
  std::ifstream in("/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  if (!(in >> name >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal)) return std::nullopt;
  const double tick = 1e9 / static_cast<double>(sysconf(_SC_CLK_TCK));
  return ProcessorTimes{.idle_ns = (idle + iowait) * tick, .stolen_ns = steal * tick, .tick_ns = tick};
}

double taken_ns(const ProcessorUse& from, const ProcessorUse& to) {
  const double wall = to.at_ns - from.at_ns;
  const double waited = std::max(0.0, to.waited_ns - from.waited_ns);
  if (!from.all || !to.all) return waited;  // what waited may have waited for threads of ours
  const double stolen = to.all->stolen_ns - from.all->stolen_ns;
  const double others = wall * to.processors - (to.all->idle_ns - from.all->idle_ns) - (to.own_ns - from.own_ns);
  // A single tick of a theft may have begun long before.
  return std::clamp(others, 0.0, waited) + std::max(0.0, stolen - to.all->tick_ns);
}

ProcessorUse processor_use() {
  return {.at_ns = static_cast<double>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1)),
          .processors = static_cast<double>(std::max(1l, sysconf(_SC_NPROCESSORS_ONLN))),
          .own_ns = process_cpu_ns(),
          .waited_ns = run_queue_wait_ns(),
          .all = processor_times()};
}

Observer::Observer(const bundle::DeviceIdentity& device)
    : telemetry_(gpu::open_telemetry(device, why_)), cpu_(device.type == "cpu" && device.api != "fake") {}

void Observer::begin() {
  if (cpu_) use_ = processor_use();
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
    const ProcessorUse now = processor_use();
    const double ours = std::max(1u, std::thread::hardware_concurrency());  // those that this process may use
    const double share = taken_ns(use_, now) / (std::max(1.0, now.at_ns - use_.at_ns) * ours);
    sample["taken_share"] = share;
    if (share > kMostTaken) why = "other programs had the processors";
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
