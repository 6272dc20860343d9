// SPDX-License-Identifier: Apache-2.0
#include "worker/device_check.h"

#include <algorithm>

namespace klab::worker {
namespace {
constexpr std::uint64_t kWindow =
    64ull << 20;                       // well inside the smallest storage-buffer range that Vulkan promises
constexpr std::uint64_t kAlign = 256;  // of a bound range's start, for any device
}  // namespace

Result<DeviceCheck> DeviceCheck::create(Loaded& loaded, const ChunkList& chunks, const Image& expected) {
  DeviceCheck check;
  check.chunks_ = chunks;
  KLAB_TRY(check.copy_, Restorer::create(loaded, chunks, {&expected}));
  struct Window {
    gpu::MemoryId a = 0, b = 0;
    std::uint64_t a_offset = 0, b_offset = 0, size = 0;
  };
  std::vector<Window> windows;
  for (const gpu::Step& s : check.copy_.copies(0))
    for (std::uint64_t at = 0; at < s.size; at += kWindow)
      windows.push_back({s.to, s.from, s.to_offset + at, s.from_offset + at, std::min(kWindow, s.size - at)});
  if (windows.empty()) return check;
  const std::vector<kernels::CompareResult> start(windows.size());
  check.result_bytes_ = start.size() * sizeof start[0];
  KLAB_TRY(check.start_, loaded.gpu().allocate(check.result_bytes_));
  KLAB_TRY_VOID(loaded.gpu()->upload(check.start_.id(), 0, std::as_bytes(std::span(start))));
  KLAB_TRY(check.results_, loaded.gpu().allocate(check.result_bytes_));
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const Window& w = windows[i];
    const auto bind = [&](gpu::MemoryId memory, std::uint64_t offset) {
      const std::uint64_t from = offset / kAlign * kAlign;
      return BuiltinBinding{memory, from, (offset - from + w.size + 3) / 4 * 4};
    };
    const BuiltinBinding bindings[] = {
        bind(w.a, w.a_offset), bind(w.b, w.b_offset), {check.results_.id(), 0, check.result_bytes_}};
    const kernels::ComparePush push{static_cast<std::uint32_t>(w.a_offset % kAlign),
                                    static_cast<std::uint32_t>(w.b_offset % kAlign),
                                    static_cast<std::uint32_t>(w.size), static_cast<std::uint32_t>(i)};
    KLAB_TRY(auto launch, loaded.gpu().builtin("compare", bindings, std::as_bytes(std::span(&push, 1)),
                                               {kernels::striding_grid(w.size), 1, 1}));
    check.launches_.push_back(std::move(launch));
  }
  return check;
}

void DeviceCheck::append(std::vector<gpu::Step>& steps) const {
  if (launches_.empty()) return;
  steps.push_back(gpu::Step::copy_of(results_.id(), 0, start_.id(), 0, result_bytes_));
  for (const Launch& l : launches_) steps.push_back(gpu::Step::launch_of(l.id(), false));
}

Result<std::uint64_t> DeviceCheck::differing(Loaded& loaded) const {
  std::uint64_t sum = 0;
  if (launches_.empty()) return sum;
  std::vector<kernels::CompareResult> results(launches_.size());
  KLAB_TRY_VOID(loaded.gpu()->download(results_.id(), 0, std::as_writable_bytes(std::span(results))));
  for (const auto& r : results) sum += r.differing_bytes;
  return sum;
}

}  // namespace klab::worker
