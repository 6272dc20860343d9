// SPDX-License-Identifier: Apache-2.0
// The expected outcome kept on the device and compared there, bit by bit: no byte of a right result goes to
// the host. Not here: what differs where (judge_variant.h does that on the host).
#pragma once
#include "worker/restore.h"

namespace klab::worker {

class DeviceCheck {
 public:
  /// Over `chunks`, which should hold `expected`. Errors: out_of_memory, unsupported (no compare kernel).
  static Result<DeviceCheck> create(Loaded& loaded, const ChunkList& chunks, const Image& expected);

  /// Steps that compare what the chunks hold.
  void append(std::vector<gpu::Step>& steps) const;
  /// Differing bytes that the last comparing found.
  Result<std::uint64_t> differing(Loaded& loaded) const;
  const ChunkList& chunks() const { return chunks_; }

 private:
  ChunkList chunks_;
  Restorer copy_;
  Memory start_, results_;
  std::uint64_t result_bytes_ = 0;
  std::vector<Launch> launches_;
};

}  // namespace klab::worker
