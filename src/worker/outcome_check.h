// SPDX-License-Identifier: Apache-2.0
// Checking what a launch left without moving it to the host: by hash, or by value within a tolerance. Steps of a batch;
// results go into a log that is read after it. The expected values are veiled in device memory, and in a check by
// hash not there at all: a kernel under test cannot copy the answer.
// Not here: what differs where (judge_variant.h does that on the host).
#pragma once
#include <optional>
#include <vector>

#include "validate/values.h"
#include "worker/restore.h"

namespace klab::worker {

/// Overwrites bytes that a comparison leaves out, so that what is left can be hashed.
class Blanker {
 public:
  /// `masks`: one for each chunk; empty masks cost nothing.
  static Result<Blanker> create(Loaded& loaded, const ChunkList& chunks, const std::vector<validate::Mask>& masks);
  void append(std::vector<gpu::Step>& steps) const;
  bool empty() const { return launches_.empty(); }
  /// The same on the host.
  static void blank(std::span<std::byte> bytes, const validate::Mask& mask);

 private:
  std::vector<Memory> masks_;
  std::vector<Launch> launches_;
};

class OutcomeCheck {
 public:
  /// Every chunk has its hash, with the bytes that `ignore` sets blanked.
  static Result<OutcomeCheck> by_hash(Loaded& loaded, const ChunkList& chunks, std::vector<kernels::Hash> wanted,
                                      const std::vector<validate::Mask>& ignore);
  /// Floating-point elements are within their tolerances, everything else equal. Errors: unsupported (a type that
  /// Klab's kernels do not compare on this API), out_of_memory.
  static Result<OutcomeCheck> by_value(Loaded& loaded, const ChunkList& chunks, const Image& expected,
                                       const std::vector<validate::Mask>& ignore,
                                       const validate::Comparator& comparator);

  /// The check's steps, after which its result (entry_bytes()) is copied to byte `at` of `log`. Bytes that are left
  /// out are overwritten. By value the device is a hair more lenient than the tolerance, which it has in 32 bits.
  void append(std::vector<gpu::Step>& steps, gpu::MemoryId log, std::uint64_t at) const;
  std::uint64_t entry_bytes() const { return hashes_.result_bytes() + values_bytes_; }
  /// Position in chunks() of the first chunk that an entry says is wrong; empty: all are right.
  std::optional<std::size_t> wrong(std::span<const std::byte> entry) const;
  const ChunkList& chunks() const { return chunks_; }
  std::size_t steps() const { return values_.size() + 4; }

 private:
  ChunkList chunks_;
  Blanker blanker_;
  HashSet hashes_;
  std::vector<kernels::Hash> wanted_;  // of hashes_.chunks()
  Restorer copy_;                      // veiled
  Memory start_, results_;
  std::uint64_t values_bytes_ = 0;
  std::vector<Launch> values_;
  std::vector<std::size_t> value_chunks_;  // position in chunks_ of the first chunk that each compares
};

}  // namespace klab::worker
