// SPDX-License-Identifier: Apache-2.0
// Cache state `rotating`: launches take turns on the capture and on copies of it at other addresses, together larger than
// the caches, so that each finds its data as a program does that goes through many buffers: nothing is flushed.
// Not here: whose turn it is (timing.h).
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "worker/restore.h"
#include "worker/variant.h"

namespace klab::worker {

class Rotation {
 public:
  static constexpr std::size_t kMostCopies = 64;
  /// So many captures of `captured` bytes, the loaded one among them, have `wanted` bytes together; at least 2.
  /// Errors: mode_mismatch when that is more than kMostCopies.
  static Result<std::size_t> size_for(std::uint64_t captured, std::uint64_t wanted);

  /// Loads size - 1 copies. Errors: as Loaded::create.
  static Result<std::unique_ptr<Rotation>> create(const std::string& bundle, std::uint32_t dispatch, Gpu& gpu, PlaceOptions options,
                                                  std::size_t size, const Deadline& deadline);

  /// Makes `codes` ready on every copy and keeps what lies in `written` there, to be put back. Before any launch, and again after
  /// place_again. Errors: as make_variant and Restorer::create.
  Status prepare(std::span<const replay::VariantCode> codes, const ChunkList& written);
  Status place_again(std::uint32_t seed, const Deadline& deadline);

  std::size_t size() const { return copies_.size() + 1; }
  /// Place 0 is the loaded capture, which is not ours: `place` is from 1 to size() - 1.
  void restore(std::vector<gpu::Step>& steps, std::size_t place) const { copies_[place - 1].restorer.append(steps, 0); }
  const Variant& variant(std::size_t place, std::uint32_t which) const { return copies_[place - 1].variants[which]; }
  Loaded& loaded(std::size_t place) { return *copies_[place - 1].loaded; }

 private:
  struct Copy {
    std::unique_ptr<Loaded> loaded;
    Restorer restorer;
    std::vector<Variant> variants;
  };
  std::vector<Copy> copies_;
};

}  // namespace klab::worker
