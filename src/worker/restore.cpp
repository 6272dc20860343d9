// SPDX-License-Identifier: Apache-2.0
#include "worker/restore.h"

#include <algorithm>

namespace klab::worker {
namespace {
// Few allocations (drivers cap their number), none so large that a driver refuses it.
constexpr std::uint64_t kSegment = 256ull << 20;
}  // namespace

Result<Restorer> Restorer::create(Loaded& loaded, const ChunkList& chunks,
                                  const std::vector<const Image*>& images, const Change& change) {
  Restorer r;
  r.bytes_ = loaded.bytes_of(chunks);
  struct Source {
    std::size_t segment = 0;
    std::uint64_t offset = 0;
  };
  std::vector<std::vector<Source>> sources(images.size(), std::vector<Source>(chunks.size()));
  std::vector<std::uint64_t> sizes;  // of each segment
  struct Fill {
    Source to;
    const validate::ByteBuffer* bytes;
  };
  std::vector<Fill> fills;
  for (std::size_t i = 0; i < images.size(); ++i) {
    KLAB_CHECK(images[i]->size() == chunks.size());
    for (std::size_t k = 0; k < chunks.size(); ++k) {
      const auto& bytes = (*images[i])[k];
      std::size_t same = i;
      for (std::size_t earlier = 0; earlier < i && same == i; ++earlier)
        if ((*images[earlier])[k] == bytes) same = earlier;
      if (same != i) {
        sources[i][k] = sources[same][k];
        continue;
      }
      const std::uint64_t room = (bytes.size() + 15) / 16 * 16;
      if (sizes.empty() || sizes.back() + room > kSegment) sizes.push_back(0);
      sources[i][k] = {sizes.size() - 1, sizes.back()};
      fills.push_back({sources[i][k], &bytes});
      sizes.back() += room;
    }
  }
  for (const std::uint64_t size : sizes) {
    KLAB_TRY(auto memory, loaded.gpu().allocate(size));
    r.segments_.push_back(std::move(memory));
  }
  for (const Fill& f : fills) {
    const gpu::MemoryId to = r.segments_[f.to.segment].id();
    if (!change) {
      KLAB_TRY_VOID(loaded.gpu()->upload(to, f.to.offset, *f.bytes));
      continue;
    }
    validate::ByteBuffer bytes = *f.bytes;
    bytes.resize((bytes.size() + 3) / 4 * 4);
    change(bytes, f.to.offset);
    KLAB_TRY_VOID(loaded.gpu()->upload(to, f.to.offset, bytes));
  }
  r.copies_.resize(images.size());
  for (std::size_t i = 0; i < images.size(); ++i) {
    for (std::size_t k = 0; k < chunks.size(); ++k) {
      const auto& c = loaded.chunk(chunks[k]);
      const gpu::MemoryId to = loaded.placed(c.region).id, from = r.segments_[sources[i][k].segment].id();
      if (!r.copies_[i].empty()) {
        gpu::Step& last = r.copies_[i].back();
        if (last.to == to && last.from == from && last.to_offset + last.size == c.offset &&
            last.from_offset + last.size == sources[i][k].offset) {
          last.size += c.size;
          continue;
        }
      }
      r.copies_[i].push_back(gpu::Step::copy_of(to, c.offset, from, sources[i][k].offset, c.size));
    }
  }
  return r;
}

void Restorer::append(std::vector<gpu::Step>& steps, std::size_t which) const {
  const auto& copies = copies_[std::min(which, copies_.size() - 1)];
  steps.insert(steps.end(), copies.begin(), copies.end());
}

}  // namespace klab::worker
