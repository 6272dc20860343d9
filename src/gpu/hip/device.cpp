// SPDX-License-Identifier: Apache-2.0
// Opening a device and waiting for it.
#include "gpu/hip/device.h"

#include <sys/prctl.h>

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "base/units.h"
#include "kernels/kernels.h"

namespace klab::gpu::hip {
namespace {

constexpr auto kSpin = std::chrono::microseconds(100);
constexpr std::uint32_t kQueuePackets = 4096;
// After a fault the runtime may know of it before the queue stops.
constexpr auto kFaultSettles = std::chrono::milliseconds(20);

void on_queue_error(hsa_status_t status, hsa_queue_t*, void*) {
  fault().status = status;
  fault().happened = true;
}

}  // namespace

Result<std::unique_ptr<HipDevice>> HipDevice::open(const Runtime& runtime, Facts facts) {
  std::unique_ptr<HipDevice> d(new HipDevice(runtime, std::move(facts)));
  const Facts& f = d->facts_;
  if (f.device_pool.handle == 0 || f.host_pool.handle == 0)
    return fail(ErrorCode::no_device, fmt::format("{} has no memory that can be allocated", d->identity().name));
  if (kernels::hip_code(f.arch, false).empty())
    return fail(ErrorCode::unsupported,
                fmt::format("this Klab was built without its own kernels for {} ({}): it cannot restore or check memory there",
                            f.arch, d->identity().name),
                fmt::format("build Klab with a hipcc or clang that knows {}", f.arch.substr(0, f.arch.find(':'))));
  KLAB_TRY_VOID(d->make_queue(d->queue_, HSA_QUEUE_TYPE_SINGLE));
  KLAB_TRY(d->done_, d->make_signal(0));
  d->fixed_ = std::make_unique<FixedAddresses>(runtime, FixedAddresses::Where{.agent = f.agent,
                                                                              .cpu = f.cpu,
                                                                              .node = f.node,
                                                                              .cpu_node = f.cpu_node,
                                                                              .device = f.device_pool,
                                                                              .host = f.host_pool});
  // Short sleeps while waiting: the default slack of 50 us is as long as many kernels.
  ::prctl(PR_SET_TIMERSLACK, 1000);
  return d;
}

HipDevice::~HipDevice() {
  if (lost_) {
    // A kernel may still run, and each call could block: the process ends instead. Owners must not call either.
    auto forget = [](const std::shared_ptr<Module>& m) {
      if (m) m->device = nullptr;
    };
    for (auto& [id, m] : memories_)
      if (m.backing) m.backing->device = nullptr;
    for (auto& [id, c] : codes_) forget(c.module);
    for (auto& [id, l] : launches_) {
      forget(l.module);
      for (auto& p : l.passes)
        if (p.arguments) p.arguments->device = nullptr;
    }
    forget(builtins_);
    forget(calibration_);
    for (auto& block : move_arguments_) block->device = nullptr;
    return;
  }
  (void)settle();
  launches_.clear();
  memories_.clear();
  codes_.clear();
  builtins_.reset();
  calibration_.reset();
  move_arguments_.clear();
  for (const hsa_signal_t s : batch_signals_) (void)runtime_.hsa_signal_destroy(s);
  for (void* page : argument_pages_) (void)runtime_.hsa_amd_memory_pool_free(page);
  if (hash_scratch_ != 0) (void)runtime_.hsa_amd_memory_pool_free(reinterpret_cast<void*>(hash_scratch_));
  if (staging_ != nullptr) (void)runtime_.hsa_amd_memory_pool_free(staging_);
  if (hostcall_) {
    const hsa_signal_t doorbell = hostcall_->doorbell();
    (void)runtime_.hsa_amd_memory_pool_free(reinterpret_cast<void*>(hostcall_->address()));
    (void)runtime_.hsa_signal_destroy(doorbell);
  }
  for (const hsa_signal_t s : timed_signals_) (void)runtime_.hsa_signal_destroy(s);
  for (const hsa_signal_t s : {done_, staged_[0], staged_[1]})
    if (s.handle != 0) (void)runtime_.hsa_signal_destroy(s);
  for (hsa_queue_t* q : {cooperative_queue_, queue_})
    if (q != nullptr) (void)runtime_.hsa_queue_destroy(q);
}

Status HipDevice::make_queue(hsa_queue_t*& queue, hsa_queue_type32_t type) {
  std::uint32_t most = 0;
  (void)runtime_.hsa_agent_get_info(facts_.agent, HSA_AGENT_INFO_QUEUE_MAX_SIZE, &most);
  const std::uint32_t size = most == 0 ? kQueuePackets : std::min(most, kQueuePackets);
  KLAB_HSA_TRY(runtime_.hsa_queue_create(facts_.agent, size, type, on_queue_error, nullptr, UINT32_MAX, UINT32_MAX, &queue),
               fmt::format("hsa_queue_create on {}", identity().name),
               type == HSA_QUEUE_TYPE_COOPERATIVE ? ErrorCode::launch_failed : ErrorCode::no_device);
  KLAB_HSA_TRY(runtime_.hsa_amd_profiling_set_profiler_enabled(queue, 1), "hsa_amd_profiling_set_profiler_enabled",
               ErrorCode::no_device);
  return {};
}

Status HipDevice::check_alive() const {
  if (lost_ || fault().happened) return fail(ErrorCode::device_fault, "the device was lost by an earlier fault or timeout");
  return {};
}

tl::unexpected<Error> HipDevice::lost(Error error) {
  if (error.code == ErrorCode::device_fault) lost_ = true;
  return fail(std::move(error));
}

tl::unexpected<Error> HipDevice::faulted(const char* doing) {
  lost_ = true;
  std::this_thread::sleep_for(kFaultSettles);
  const Fault& f = fault();
  return fail(ErrorCode::device_fault, fmt::format("{}: {}", doing, describe_fault()),
              f.address != 0 || f.reasons != 0
                  ? "the kernel touched memory that is not there: build it with -fsanitize=address to have the line, and "
                    "--scope all captures more"
                  : "",
              f.status);
}

Result<hsa_signal_t> HipDevice::make_signal(std::int64_t value) {
  hsa_signal_t signal{};
  KLAB_HSA_TRY(runtime_.hsa_signal_create(value, 0, nullptr, &signal), "hsa_signal_create");
  return signal;
}

Status HipDevice::wait(hsa_signal_t signal, std::uint64_t timeout_ns, const char* doing) {
  const auto start = Clock::now();
  for (;;) {
    if (hostcall_) hostcall_->serve();
    const hsa_signal_value_t value = runtime_.hsa_signal_load_scacquire(signal);
    if (fault().happened || value < 0) return faulted(doing);
    if (value == 0) return {};
    const auto waited = Clock::now() - start;
    if (waited >= std::chrono::nanoseconds(timeout_ns)) {
      lost_ = true;
      return fail(ErrorCode::timeout,
                  fmt::format("{}: the device did not finish within {}", doing,
                              format_ns(static_cast<double>(timeout_ns))),
                  "the kernel may not end; if it is only slow, allow it more time");
    }
    if (waited > kSpin)
      std::this_thread::sleep_for(std::clamp<Clock::duration>(waited / 16, std::chrono::microseconds(5),
                                                              std::chrono::microseconds(500)));
  }
}

}  // namespace klab::gpu::hip
