// SPDX-License-Identifier: Apache-2.0
// One dispatch of a bundle in device memory: placed, uploaded, its chunks numbered, hashed and put back.
// Not here: launching the kernel (variant.h), images to restore from (restore.h).
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bundle/reader.h"
#include "kernels/kernels.h"
#include "replay/protocol.h"
#include "worker/deadline.h"
#include "worker/gpu.h"
#include "worker/relocate.h"

namespace klab::worker {

/// Number of a chunk among all chunks of all regions, in region order.
using ChunkId = std::uint32_t;
using ChunkList = std::vector<ChunkId>;  // sorted, each once

ChunkList merge(const ChunkList& a, const ChunkList& b);
bool contains(const ChunkList& list, ChunkId chunk);

/// What a hash of many chunks needs on the device; launched as part of a batch.
class HashSet {
 public:
  void append(std::vector<gpu::Step>& steps) const;
  const ChunkList& chunks() const { return chunks_; }
  gpu::MemoryId results() const { return results_.id(); }
  std::uint64_t result_bytes() const { return chunks_.size() * sizeof(kernels::Hash); }

 private:
  friend class Loaded;
  ChunkList chunks_;
  Memory list_, results_;
  std::vector<Launch> launches_;
};

struct PlaceOptions {
  std::string pool;       // MemoryRequest::pool
  bool relocate = false;  // do not even try exact addresses
};

class Loaded {
 public:
  /// Takes the reader; places and uploads everything. Errors: address_collision (try in a new process, or
  /// relocate), out_of_memory, unsupported (pool), bundle_corrupt, timeout.
  static Result<std::unique_ptr<Loaded>> create(bundle::Reader reader, std::uint32_t dispatch, Gpu& gpu,
                                                const PlaceOptions& options, const Deadline& deadline);
  ~Loaded();
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  /// Gives all memory back and places it again. Handles to old memories are void. `padding`: bytes allocated
  /// first, so that a driver's allocator does not hand out the same place. `order`: of the allocations, where addresses are
  /// not kept; 0: as captured.
  Status place_again(std::uint64_t padding, const Deadline& deadline, std::uint32_t order = 0);

  /// Gives all memory back for a while; only place_again() may follow.
  void give_back();

  Gpu& gpu() { return gpu_; }
  const bundle::Reader& bundle() const { return reader_; }
  const bundle::Dispatch& dispatch() const { return reader_.manifest().dispatches[dispatch_]; }
  replay::AddressMode address_mode() const { return mode_; }
  std::uint64_t rewritten_words() const { return rewritten_words_; }
  std::uint64_t captured_bytes() const { return captured_bytes_; }
  const Relocator& relocator() const { return relocator_; }
  const std::vector<std::string>& notes() const { return notes_; }
  const gpu::Placed& placed(std::uint32_t region) const { return placed_[region]; }
  /// A module variable or constant: what lies here is its state between launches, and each variant has its
  /// own copy (variant.h).
  static bool is_symbol(const bundle::Region& region) {
    return region.kind == bundle::MemoryKind::module_variable || region.kind == bundle::MemoryKind::constant;
  }
  /// A captured word that points into a module variable, by its captured value.
  struct SymbolWord {
    std::uint32_t region = 0;
    std::uint64_t offset = 0, value = 0;
  };
  const std::vector<SymbolWord>& symbol_words() const { return symbol_words_; }
  /// Name for a person: "region 2 (out)", "the redzone after region 2 (out)".
  std::string region_name(std::uint32_t region) const;
  /// A place in a region or redzone for a person, with its address where it has one.
  std::string place_name(std::uint32_t region, std::uint64_t offset) const;
  /// Redzones and unused page ends follow the regions: they have chunks too, and their pre-state is a canary.
  bool is_guard(ChunkId id) const { return chunks_[id].region >= dispatch().regions.size(); }
  /// Fills all redzones. The canary must be put back before anything asks what changed.
  Status fill_guards(std::uint32_t pattern, const Deadline& deadline);
  static constexpr std::uint32_t kCanary = 0xc5a96b1du;  // each byte another one, and no float that a kernel would leave
  std::uint64_t guarded_bytes() const { return guarded_bytes_; }
  std::uint64_t region_size(std::uint32_t region) const;
  /// As the region has it; empty for a redzone.
  std::string region_label(std::uint32_t region) const;

  ChunkId chunk_count() const { return static_cast<ChunkId>(chunks_.size()); }
  struct Chunk {
    std::uint32_t region = 0;  // from the number of regions on: a redzone
    std::uint64_t offset = 0;  // in the region
    std::uint32_t size = 0;
  };
  const Chunk& chunk(ChunkId id) const { return chunks_[id]; }
  ChunkList chunks_of(std::uint32_t region) const;
  ChunkId chunk_at(std::uint32_t region, std::uint64_t offset) const {
    return first_chunk_[region] + static_cast<ChunkId>(offset / bundle::kChunkSize);
  }
  std::uint64_t bytes_of(const ChunkList& list) const;

  /// Captured bytes with pointers rewritten. Errors: bundle_corrupt.
  Result<validate::ByteBuffer> pre(ChunkId id) const;
  /// As pre(); empty when the region has no post-state.
  Result<validate::ByteBuffer> post(ChunkId id) const;
  /// Chunks that the captured execution changed.
  const ChunkList& captured_changes() const { return captured_changes_; }

  Result<validate::ByteBuffer> download(ChunkId id);
  Status upload(ChunkId id, std::span<const std::byte> bytes);
  /// Uploads the pre-state of these chunks.
  Status reload(const ChunkList& list);

  Result<HashSet> prepare_hashes(const ChunkList& list);
  Result<std::vector<kernels::Hash>> read_hashes(const HashSet& set);
  /// Hash of every chunk as it is now.
  Result<std::vector<kernels::Hash>> hash_all(const Deadline& deadline);
  /// Hash of every chunk of the pre-state, as uploaded.
  const std::vector<kernels::Hash>& pre_hashes() const { return pre_hashes_; }
  /// Chunks that are not in their pre-state now, by hash.
  Result<ChunkList> changed(const Deadline& deadline);
  /// Reloads whatever is not in its pre-state; returns what that was.
  Result<ChunkList> make_pristine(const Deadline& deadline);

 private:
  Loaded(bundle::Reader reader, std::uint32_t dispatch, Gpu& gpu, PlaceOptions options);
  Status place_and_upload(const Deadline& deadline);
  Status place();
  Status place_guards(const Deadline& deadline);
  void note_memory_kinds();
  void find_symbol_words(ChunkId id, std::span<const std::byte> raw);

  bundle::Reader reader_;
  std::uint32_t dispatch_;
  Gpu& gpu_;
  PlaceOptions options_;
  std::uint32_t order_ = 0;
  replay::AddressMode mode_ = replay::AddressMode::none;
  std::uint64_t rewritten_words_ = 0, captured_bytes_ = 0;
  Relocator relocator_;
  std::vector<SymbolWord> symbol_words_;
  std::vector<std::string> notes_;
  std::vector<gpu::Placed> placed_;
  std::vector<Memory> memories_;  // of regions, then of guards
  struct Redzone {
    std::uint32_t region = 0;  // its neighbour
    bool before = false;
    std::uint64_t size = 0;
  };
  std::vector<Redzone> guards_;
  ChunkId first_guard_ = 0;
  std::uint64_t guarded_bytes_ = 0;
  Memory padding_;
  std::vector<Chunk> chunks_;
  std::vector<ChunkId> first_chunk_;
  ChunkList captured_changes_;
  std::vector<kernels::Hash> pre_hashes_;
  std::optional<HashSet> all_;
};

}  // namespace klab::worker
