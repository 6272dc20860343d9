// SPDX-License-Identifier: Apache-2.0
// Runs steps as AQL packets of one queue, each after the one before (barrier bit), and waits with a limit. The doorbell
// rings when the packets are written, so that no time holds the host's. Times are those of the packet processor, which
// it writes into a packet's completion signal.
#include <algorithm>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "gpu/hip/device.h"
#include "gpu/steps.h"

namespace klab::gpu::hip {
namespace {

constexpr std::uint64_t kPacketBytes = 64;
constexpr std::uint64_t kRingAfter = 512;  // packets that may be written before the device hears of them
constexpr std::uint32_t kMoveThreads = 256, kMostMoveBlocks = 4096;
constexpr std::uint64_t kSystem = HSA_FENCE_SCOPE_SYSTEM;

constexpr std::uint16_t header_of(hsa_packet_type_t type, std::uint64_t acquire, std::uint64_t release) {
  return static_cast<std::uint16_t>(type << HSA_PACKET_HEADER_TYPE | 1 << HSA_PACKET_HEADER_BARRIER |
                                    acquire << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                                    release << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE);
}

}  // namespace

Result<void*> HipDevice::next_slot(hsa_queue_t* queue) {
  const std::uint64_t index = runtime_.hsa_queue_load_write_index_relaxed(queue);
  if (unrung_ >= kRingAfter || (unrung_ != 0 && unrung_queue_ != queue)) ring();
  while (index - runtime_.hsa_queue_load_read_index_scacquire(queue) >= queue->size) {
    ring();
    if (hostcall_) hostcall_->serve();
    if (fault().happened) return faulted("running");
    if (Clock::now() >= deadline_) {
      lost_ = true;
      return fail(ErrorCode::timeout, "running: the device did not take the batch's packets in time",
                  "the kernel may not end; if it is only slow, allow it more time");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  void* const slot = static_cast<std::byte*>(queue->base_address) + index % queue->size * kPacketBytes;
  // All but the header's word: the packet stays invalid until publish().
  std::memset(static_cast<std::byte*>(slot) + 4, 0, kPacketBytes - 4);
  return slot;
}

void HipDevice::publish(hsa_queue_t* queue, void* slot, std::uint16_t header, std::uint16_t setup) {
  __atomic_store_n(static_cast<std::uint32_t*>(slot), header | std::uint32_t{setup} << 16, __ATOMIC_RELEASE);
  const std::uint64_t index = runtime_.hsa_queue_load_write_index_relaxed(queue);
  runtime_.hsa_queue_store_write_index_screlease(queue, index + 1);
  unrung_queue_ = queue;
  ++unrung_;
}

void HipDevice::ring() {
  if (unrung_ == 0) return;
  const std::uint64_t last = runtime_.hsa_queue_load_write_index_relaxed(unrung_queue_) - 1;
  runtime_.hsa_signal_store_screlease(unrung_queue_->doorbell_signal, static_cast<hsa_signal_value_t>(last));
  unrung_ = 0;
}

Status HipDevice::submit(hsa_queue_t* queue, const Pass& pass, hsa_signal_t signal) {
  KLAB_TRY(void* const slot, next_slot(queue));
  auto& p = *static_cast<hsa_kernel_dispatch_packet_t*>(slot);
  p.workgroup_size_x = static_cast<std::uint16_t>(pass.block[0]);
  p.workgroup_size_y = static_cast<std::uint16_t>(pass.block[1]);
  p.workgroup_size_z = static_cast<std::uint16_t>(pass.block[2]);
  p.grid_size_x = pass.threads[0];
  p.grid_size_y = pass.threads[1];
  p.grid_size_z = pass.threads[2];
  p.private_segment_size = pass.scratch_bytes;
  p.group_segment_size = pass.shared_bytes;
  p.kernel_object = pass.kernel.object;
  p.kernarg_address = pass.arguments->bytes;
  p.completion_signal = signal;
  publish(queue, slot, header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, pass.acquire, pass.release),
          3 << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS);
  return {};
}

Status HipDevice::submit_barrier(hsa_queue_t* queue, hsa_signal_t after, hsa_signal_t signal) {
  KLAB_TRY(void* const slot, next_slot(queue));
  auto& p = *static_cast<hsa_barrier_and_packet_t*>(slot);
  p.dep_signal[0] = after;
  p.completion_signal = signal;
  publish(queue, slot, header_of(HSA_PACKET_TYPE_BARRIER_AND, kSystem, kSystem), 0);
  return {};
}

/// Such a launch has a queue of its own; the batch's waits for it.
Status HipDevice::submit_cooperative(const Pass& pass, hsa_signal_t signal) {
  if (cooperative_queue_ == nullptr) KLAB_TRY_VOID(make_queue(cooperative_queue_, HSA_QUEUE_TYPE_COOPERATIVE));
  for (int i = 0; i < 2; ++i) {
    KLAB_TRY(const hsa_signal_t s, make_signal(1));
    batch_signals_.push_back(s);
  }
  const hsa_signal_t begins = batch_signals_[batch_signals_.size() - 2], ends = batch_signals_.back();
  KLAB_TRY_VOID(submit_barrier(queue_, {}, begins));
  KLAB_TRY_VOID(submit_barrier(cooperative_queue_, begins, {}));
  KLAB_TRY(const auto own, builtin_module(false));
  if (own->facts.kernel("klab_gws_init") != nullptr) {
    // Kernels before gfx90a and gfx11 meet in a hardware barrier that must know how many blocks there are.
    std::uint32_t others = 1;
    for (std::size_t i = 0; i < 3; ++i) others *= (pass.threads[i] + pass.block[i] - 1) / pass.block[i];
    --others;
    KLAB_TRY(Pass init, builtin_pass(*own, "klab_gws_init", std::as_bytes(std::span(&others, 1))));
    KLAB_TRY_VOID(submit(cooperative_queue_, init, {}));
    move_arguments_.push_back(init.arguments);
  }
  KLAB_TRY_VOID(submit(cooperative_queue_, pass, signal));
  KLAB_TRY_VOID(submit_barrier(cooperative_queue_, {}, ends));
  return submit_barrier(queue_, ends, {});
}

/// klab_copy and klab_fill: (to, from or value, bytes).
Status HipDevice::submit_move(const char* name, std::uint64_t to, std::uint64_t from_or_value, std::uint64_t size) {
  KLAB_TRY(const auto own, builtin_module(false));
  const std::uint64_t arguments[] = {to, from_or_value, size};
  auto found = moves_.find(name);
  if (found == moves_.end()) {
    KLAB_TRY(const Kernel k, kernel(*own, name));
    found = moves_.emplace(name, k).first;
  }
  Pass pass;
  pass.kernel = found->second;
  KLAB_TRY(pass.arguments, argument_block(std::max<std::uint64_t>(sizeof arguments, pass.kernel.facts->kernarg_bytes)));
  std::memset(pass.arguments->bytes, 0, pass.arguments->size);
  std::memcpy(pass.arguments->bytes, arguments, sizeof arguments);
  const std::uint64_t blocks = std::clamp<std::uint64_t>(size / 16 / kMoveThreads + 1, 1, kMostMoveBlocks);
  pass.threads = {static_cast<std::uint32_t>(blocks * kMoveThreads), 1, 1};
  pass.block = {kMoveThreads, 1, 1};
  KLAB_TRY_VOID(submit(queue_, pass, {}));
  move_arguments_.push_back(std::move(pass.arguments));
  return {};
}

Status HipDevice::submit_step(const Step& s, std::size_t& timed) {
  switch (s.kind) {
    case Step::Kind::copy:
      return s.size == 0 ? Status{}
                         : submit_move("klab_copy", memories_.at(s.to).address + s.to_offset,
                                       memories_.at(s.from).address + s.from_offset, s.size);
    case Step::Kind::fill:
      return s.size == 0 ? Status{}
                         : submit_move("klab_fill", memories_.at(s.to).address + s.to_offset, s.value, s.size);
    case Step::Kind::images_in:
    case Step::Kind::images_out:
      return {};  // prepare() refuses textures
    case Step::Kind::launch:
      break;
  }
  const Launch& launch = launches_.at(s.launch);
  for (std::size_t i = 0; i < launch.passes.size(); ++i) {
    const Pass& p = launch.passes[i];
    hsa_signal_t signal{};
    if (s.timed && (i == 0 || i + 1 == launch.passes.size()))
      signal = timed_signals_[2 * timed + (i == 0 ? 0 : 1)];
    KLAB_TRY_VOID(p.cooperative ? submit_cooperative(p, signal) : submit(queue_, p, signal));
  }
  timed += s.timed;
  return {};
}

Result<double> HipDevice::dispatch_ns(std::size_t timed, bool two) {
  hsa_amd_profiling_dispatch_time_t first{}, last{};
  KLAB_HSA_TRY(runtime_.hsa_amd_profiling_get_dispatch_time(facts_.agent, timed_signals_[2 * timed], &first),
               "hsa_amd_profiling_get_dispatch_time", ErrorCode::launch_failed);
  last = first;
  if (two)
    KLAB_HSA_TRY(runtime_.hsa_amd_profiling_get_dispatch_time(facts_.agent, timed_signals_[2 * timed + 1], &last),
                 "hsa_amd_profiling_get_dispatch_time", ErrorCode::launch_failed);
  return last.end >= first.start ? static_cast<double>(last.end - first.start) * runtime_.tick_ns : 0.0;
}

Result<BatchResult> HipDevice::run(std::span<const Step> steps, std::uint64_t timeout_ns) {
  KLAB_TRY_VOID(check_alive());
  KLAB_TRY(const std::size_t timed, check_steps(steps, memories_, launches_));
  KLAB_TRY_VOID(settle());
  while (timed_signals_.size() < 2 * timed) {
    KLAB_TRY(const hsa_signal_t signal, make_signal(0));
    timed_signals_.push_back(signal);
  }
  for (std::size_t i = 0; i < 2 * timed; ++i) runtime_.hsa_signal_store_relaxed(timed_signals_[i], 1);
  for (const Step& s : steps)
    if (s.kind == Step::Kind::launch)
      for (const Pass& p : launches_.at(s.launch).passes)
        if (p.scratch_at) std::memcpy(p.arguments->bytes + *p.scratch_at, &hash_scratch_, 8);
  const auto start = Clock::now();
  deadline_ = start + std::chrono::nanoseconds(timeout_ns);
  runtime_.hsa_signal_store_screlease(done_, 1);
  std::size_t sent = 0;
  Status submitted;
  for (std::size_t i = 0; i < steps.size() && submitted; ++i) submitted = submit_step(steps[i], sent);
  if (lost_) return fail(std::move(submitted.error()));
  // Also after a failure: what was queued before it must have ended before anything is touched.
  if (auto s = submit_barrier(queue_, {}, done_); !s) return fail(std::move(s.error()));
  ring();
  const double submit_ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  KLAB_TRY_VOID(wait(done_, timeout_ns, "running"));
  const double wall_ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  move_arguments_.clear();
  for (const hsa_signal_t s : batch_signals_) (void)runtime_.hsa_signal_destroy(s);
  batch_signals_.clear();
  if (!submitted) return lost(std::move(submitted.error()));

  BatchResult result;
  result.submit_ns = submit_ns;
  result.wall_ns = wall_ns;
  std::size_t at = 0;
  for (const Step& s : steps) {
    if (s.kind != Step::Kind::launch || !s.timed) continue;
    auto ns = dispatch_ns(at++, launches_.at(s.launch).passes.size() > 1);
    if (!ns) return lost(std::move(ns.error()));
    result.launch_ns.push_back(*ns);
  }
  return result;
}

}  // namespace klab::gpu::hip
