// SPDX-License-Identifier: Apache-2.0
// Device copies of what launches write, to put back before each of them without the host.
// Not here: which chunks those are (reference.h), anything that is not written (Loaded::make_pristine).
#pragma once
#include <functional>
#include <vector>

#include "worker/loaded.h"

namespace klab::worker {

/// Bytes of each chunk of a list, in its order.
using Image = std::vector<validate::ByteBuffer>;

class Restorer {
 public:
  /// `images`: one or more starting states, each over `chunks`. Chunks that are equal in two images share a
  /// copy.
  /// `change`: what is kept is this of a chunk (padded with zeros to whole words), whose copy starts at `offset` of its
  /// memory. Errors: out_of_memory.
  using Change = std::function<void(std::span<std::byte> bytes, std::uint64_t offset)>;
  static Result<Restorer> create(Loaded& loaded, const ChunkList& chunks,
                                 const std::vector<const Image*>& images, const Change& change = {});

  /// Steps that put image `which` back.
  void append(std::vector<gpu::Step>& steps, std::size_t which) const;
  /// The copies of image `which`: from Klab's copy to the regions.
  const std::vector<gpu::Step>& copies(std::size_t which) const { return copies_[which]; }
  std::size_t images() const { return copies_.size(); }
  /// Bytes that one restoring copies.
  std::uint64_t bytes() const { return bytes_; }
  std::size_t steps() const { return copies_.empty() ? 0 : copies_[0].size(); }

 private:
  std::vector<Memory> segments_;
  std::vector<std::vector<gpu::Step>> copies_;  // of each image
  std::uint64_t bytes_ = 0;
};

}  // namespace klab::worker
