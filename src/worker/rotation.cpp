// SPDX-License-Identifier: Apache-2.0
#include "worker/rotation.h"

#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "base/units.h"

namespace klab::worker {

Result<std::size_t> Rotation::size_for(std::uint64_t captured, std::uint64_t wanted) {
  if (captured == 0) return fail(ErrorCode::mode_mismatch, "the capture has no memory that could be rotated", "--cache cold or warm");
  const std::uint64_t size = std::max<std::uint64_t>(2, (wanted + captured - 1) / captured);
  if (size > kMostCopies)
    return fail(ErrorCode::mode_mismatch,
                fmt::format("{} copies of a capture of {} would be needed to be twice as large as the cache; {} are the most", size,
                            format_bytes(captured), kMostCopies),
                "--cache cold");
  return static_cast<std::size_t>(size);
}

Result<std::unique_ptr<Rotation>> Rotation::create(const std::string& bundle, std::uint32_t dispatch, Gpu& gpu, PlaceOptions options,
                                                   std::size_t size, const Deadline& deadline) {
  options.relocate = true;  // the captured addresses are taken
  auto rotation = std::make_unique<Rotation>();
  for (std::size_t i = 1; i < size; ++i) {
    KLAB_TRY(auto reader, bundle::Reader::open(bundle));
    Copy copy;
    KLAB_TRY(copy.loaded, Loaded::create(std::move(reader), dispatch, gpu, options, deadline));
    rotation->copies_.push_back(std::move(copy));
  }
  return rotation;
}

Status Rotation::prepare(std::span<const replay::VariantCode> codes, const ChunkList& written) {
  for (Copy& copy : copies_) {
    copy.variants.clear();
    for (const replay::VariantCode& code : codes) {
      KLAB_TRY(auto variant, make_variant(*copy.loaded, code));
      copy.variants.push_back(std::move(variant));
    }
    Image image;
    ChunkList chunks;
    for (const ChunkId id : written) {
      if (copy.loaded->is_guard(id)) continue;  // lies elsewhere in each copy
      KLAB_TRY(auto bytes, copy.loaded->pre(id));
      image.push_back(std::move(bytes));
      chunks.push_back(id);
    }
    KLAB_TRY(copy.restorer, Restorer::create(*copy.loaded, chunks, {&image}));
  }
  return {};
}

Status Rotation::place_again(std::uint32_t seed, const Deadline& deadline) {
  std::mt19937 random(seed);
  for (Copy& copy : copies_) {
    copy.variants.clear();
    copy.restorer = Restorer();
    KLAB_TRY_VOID(copy.loaded->place_again(0, deadline, random() | 1u));
  }
  return {};
}

}  // namespace klab::worker
