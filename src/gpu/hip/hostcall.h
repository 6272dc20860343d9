// SPDX-License-Identifier: Apache-2.0
// Answers what kernels ask of the host (printf, malloc, assert) so that they go on: nothing is printed, and memory is
// refused. The buffer's layout is that of ROCm up to 6.
#pragma once
#include <atomic>
#include <cstdint>

#include "gpu/hip/runtime.h"

namespace klab::gpu::hip {

class Hostcall {
 public:
  /// Bytes of the buffer for a device that has up to `waves` waves at once.
  static std::uint64_t bytes(std::uint64_t waves);
  /// `memory`: bytes(waves) that host and device see, zeroed, aligned to a page; it must outlive this.
  Hostcall(void* memory, std::uint64_t waves, hsa_signal_t doorbell);

  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(buffer_); }
  hsa_signal_t doorbell() const { return {buffer_->doorbell}; }
  /// Answers all that was asked meanwhile. Thread: the one that waits for the device.
  void serve();
  /// Requests since the last call.
  std::uint64_t take_count();

 private:
  struct Header {
    std::uint64_t next, active;
    std::uint32_t service, control;
  };
  struct Payload {
    std::uint64_t slots[64][8];
  };
  struct Buffer {
    Header* headers;
    Payload* payloads;
    std::uint64_t doorbell, free_stack, ready_stack, index_mask;
    std::uint64_t printf[2];  // of OpenCL's printf: offset and size, which has no room for anything
  };
  static std::uint64_t packets(std::uint64_t waves);

  Buffer* buffer_;
  std::uint64_t served_ = 0;

 public:
  std::uint64_t printf_address() const { return reinterpret_cast<std::uint64_t>(&buffer_->printf); }
};

}  // namespace klab::gpu::hip
