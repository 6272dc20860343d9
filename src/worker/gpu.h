// SPDX-License-Identifier: Apache-2.0
// The open device with owning handles, and Klab's own kernels ready to launch on it.
// Not here: vendor APIs (gpu/).
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu/backend.h"

namespace klab::worker {

class Gpu;

/// Owns one of the device's objects. After the device is lost nothing is given back: the process ends
/// instead.
template <class Id, void (gpu::Device::*give_back)(Id)>
class Handle {
 public:
  Handle() = default;
  Handle(Gpu* gpu, Id id) : gpu_(gpu), id_(id) {}
  Handle(Handle&& other) noexcept : gpu_(std::exchange(other.gpu_, nullptr)), id_(other.id_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(id_, other.id_);
    return *this;
  }
  inline ~Handle();
  Id id() const { return id_; }
  explicit operator bool() const { return gpu_ != nullptr; }

 private:
  Gpu* gpu_ = nullptr;
  Id id_ = 0;
};
using Memory = Handle<gpu::MemoryId, &gpu::Device::release>;
using Code = Handle<gpu::CodeId, &gpu::Device::unload>;
using Launch = Handle<gpu::LaunchId, &gpu::Device::discard>;

struct BuiltinBinding {
  gpu::MemoryId memory = 0;
  std::uint64_t offset = 0, range = 0;
};

class Gpu {
 public:
  explicit Gpu(std::unique_ptr<gpu::Device> device) : device_(std::move(device)) {}
  gpu::Device* operator->() { return device_.get(); }
  const gpu::Abilities& abilities() const { return device_->abilities(); }
  /// True after device_fault or timeout: the device may not be used again.
  bool lost() const { return lost_; }
  /// Wall time of all batches so far: what has warmed the device up.
  double busy_ns() const { return busy_ns_; }

  Result<gpu::BatchResult> run(std::span<const gpu::Step> steps, std::uint64_t timeout_ns);
  Result<gpu::Counters> count(gpu::LaunchId launch, std::span<const gpu::Step> before,
                              std::span<const std::string> names, std::uint64_t timeout_ns);
  /// A buffer of ours. Contents are undefined.
  Result<Memory> allocate(std::uint64_t size);
  Result<Launch> prepare(const gpu::LaunchSpec& spec);
  Result<Code> load(std::span<const std::byte> code);
  /// Klab's kernel `name` over `bindings` (set 0, binding 0..n-1). `block`, `shared_bytes` (dynamic): CUDA, HIP, for
  /// kernels that let the launch choose. Errors: unsupported when the API has no such kernel.
  Result<Launch> builtin(std::string_view name, std::span<const BuiltinBinding> bindings,
                         std::span<const std::byte> push, bundle::Dim3 grid, bundle::Dim3 block = {0, 0, 0},
                         std::uint32_t shared_bytes = 0);

 private:
  std::unique_ptr<gpu::Device> device_;
  bool lost_ = false;
  double busy_ns_ = 0;
  std::map<std::string, gpu::CodeId, std::less<>> builtins_;
};

template <class Id, void (gpu::Device::*give_back)(Id)>
Handle<Id, give_back>::~Handle() {
  if (gpu_ != nullptr && !gpu_->lost()) (gpu_->operator->()->*give_back)(id_);
}

}  // namespace klab::worker
