// SPDX-License-Identifier: Apache-2.0
// Runs steps in one stream, with events around timed launches, and waits with a limit.
//
// The device could overtake the host between an event and its launch, and a time would then hold the host's.
// So a batch with timed launches is queued behind a gate: a kernel that waits until the host has queued what
// follows. Gates end by themselves after a while: a launch that makes the driver wait for the device cannot
// block for ever.
#include <algorithm>
#include <atomic>

#include <fmt/format.h>

#include "gpu/cuda/device.h"
#include "gpu/steps.h"
#include "kernels/kernels.h"

namespace klab::gpu::cuda {
namespace {

// A stream holds about a thousand launches and events, and queueing more would block without a limit: two
// segments of this many steps are under way at most.
constexpr std::size_t kSegment = 96;
constexpr std::uint64_t kGateLimitNs = 20'000'000;  // 20 ms

}  // namespace

Status CudaDevice::open_gate() {
  if (gate_ == nullptr) {
    KLAB_TRY(const CodeId id, load_builtin("gate"));
    KLAB_TRY(gate_, function(codes_.at(id), "klab_gate"));
    if (driver_.FuncLoad != nullptr) (void)driver_.FuncLoad(gate_);
    void* flag = nullptr;
    KLAB_CU_TRY(driver_.MemHostAlloc(&flag, 4096, CU_MEMHOSTALLOC_DEVICEMAP), "cuMemHostAlloc of a flag");
    gate_flag_ = static_cast<std::uint32_t*>(flag);
    *gate_flag_ = 0;
    KLAB_CU_TRY(driver_.MemHostGetDevicePointer(&gate_address_, flag, 0),
                "cuMemHostGetDevicePointer of a flag");
  }
  ++gate_value_;
  Pass pass;
  pass.function = gate_;
  struct {
    CUdeviceptr flag;
    std::uint32_t value, padding;
    std::uint64_t limit_ns;
  } const arguments{gate_address_, gate_value_, 0, kGateLimitNs};
  const auto* bytes = reinterpret_cast<const std::byte*>(&arguments);
  pass.arguments.assign(bytes, bytes + sizeof arguments);
  return submit(pass);
}

void CudaDevice::release_gates(std::uint32_t value) {
  if (gate_flag_ != nullptr) std::atomic_ref(*gate_flag_).store(value, std::memory_order_release);
}

Status CudaDevice::submit_step(const Step& s, std::size_t& timed) {
  switch (s.kind) {
    case Step::Kind::copy:
      return s.size == 0 ? Status{}
                         : copy(memories_.at(s.to).address + s.to_offset,
                                memories_.at(s.from).address + s.from_offset, s.size);
    case Step::Kind::fill:
      if (s.size == 0) return {};
      if ((memories_.at(s.to).address + s.to_offset) % 4 != 0)
        return fail(ErrorCode::internal, "a fill at an address that is no multiple of 4");
      KLAB_CU_TRY(
          driver_.MemsetD32Async(memories_.at(s.to).address + s.to_offset, s.value, s.size / 4, stream_),
          fmt::format("cuMemsetD32Async of {} bytes", s.size), ErrorCode::launch_failed);
      return {};
    case Step::Kind::images_in:
    case Step::Kind::images_out:
      for (const auto& image : launches_.at(s.launch).images)
        KLAB_TRY_VOID(copy_image(*image, s.kind == Step::Kind::images_in));
      return {};
    case Step::Kind::launch:
      break;
  }
  const Launch& launch = launches_.at(s.launch);
  if (s.timed)
    KLAB_CU_TRY(driver_.EventRecord(events_[2 * timed], stream_), "cuEventRecord", ErrorCode::launch_failed);
  for (const Pass& p : launch.passes) KLAB_TRY_VOID(submit(p));
  if (s.timed)
    KLAB_CU_TRY(driver_.EventRecord(events_[2 * timed + 1], stream_), "cuEventRecord",
                ErrorCode::launch_failed);
  timed += s.timed;
  return {};
}

Result<BatchResult> CudaDevice::run(std::span<const Step> steps, std::uint64_t timeout_ns) {
  KLAB_TRY_VOID(check_alive());
  KLAB_TRY(const std::size_t timed, check_steps(steps, memories_, launches_));
  const bool warm = std::all_of(steps.begin(), steps.end(), [&](const Step& s) {
    return s.kind != Step::Kind::launch || launches_.at(s.launch).ran;
  });
  while (events_.size() < 2 * timed) {
    KLAB_TRY(const CUevent event, make_event(CU_EVENT_DEFAULT));
    events_.push_back(event);
  }
  const bool gated = timed != 0 && warm && !kernels::cuda_fatbin().empty();
  const auto start = Clock::now();
  std::size_t sent = 0;
  Status submitted;
  for (std::size_t i = 0; i < steps.size() && submitted; ++i) {
    if (i % kSegment == 0) {
      const std::uint32_t before = gate_value_;
      if (gated) submitted = open_gate();
      release_gates(before);  // what is before this gate is queued whole
      const std::size_t segment = i / kSegment;
      if (segment >= 2 && submitted) {
        const auto spent = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
        const auto left = static_cast<std::int64_t>(timeout_ns) - spent;
        submitted = wait(marks_[segment % 2], left > 0 ? static_cast<std::uint64_t>(left) : 0, "running");
        if (lost_) {
          release_gates(gate_value_);
          return fail(std::move(submitted.error()));
        }
      }
      if (!submitted) break;
    }
    submitted = submit_step(steps[i], sent);
    if (i % kSegment == kSegment - 1 && submitted)
      if (const CUresult r = driver_.EventRecord(marks_[i / kSegment % 2], stream_); r != CUDA_SUCCESS)
        submitted = cu_fail(r, "cuEventRecord between steps", ErrorCode::device_fault);
  }
  release_gates(gate_value_);
  const double submit_ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  // Also after a failure: what was queued before it must have ended before anything is touched.
  if (const CUresult r = driver_.EventRecord(done_, stream_); r != CUDA_SUCCESS && submitted)
    submitted = cu_fail(r, "cuEventRecord at the end of a batch", ErrorCode::device_fault);
  if (!submitted && submitted.error().code == ErrorCode::device_fault)
    return lose(fail(std::move(submitted.error())));
  KLAB_TRY_VOID(wait(done_, timeout_ns, "running"));
  if (!submitted) return fail(std::move(submitted.error()));

  BatchResult result;
  result.submit_ns = submit_ns;
  result.wall_ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  in_flight_[0] = in_flight_[1] = false;  // uploads are in the same stream
  used_ = 0;
  for (const Step& s : steps)
    if (s.kind == Step::Kind::launch) launches_.at(s.launch).ran = true;
  result.launch_ns.reserve(timed);
  for (std::size_t i = 0; i < timed; ++i) {
    float ms = 0;
    if (const CUresult r = driver_.EventElapsedTime(&ms, events_[2 * i], events_[2 * i + 1]);
        r != CUDA_SUCCESS)
      return lose(cu_fail(r, "cuEventElapsedTime", ErrorCode::launch_failed));
    result.launch_ns.push_back(static_cast<double>(ms) * 1e6);
  }
  return result;
}

}  // namespace klab::gpu::cuda
