// SPDX-License-Identifier: Apache-2.0
#include "worker/outcome_check.h"

#include <algorithm>
#include <cstring>
#include <random>

#include <fmt/format.h>

namespace klab::worker {
namespace {

// Well inside the smallest storage-buffer range that Vulkan promises.
constexpr std::uint64_t kWindow = 64ull << 20;
constexpr std::uint64_t kAlign = 256;  // of a bound range's start, for any device
constexpr unsigned char kBlank = 0;
constexpr double kLenient = 1.00001;

BuiltinBinding bind(gpu::MemoryId memory, std::uint64_t offset, std::uint64_t size) {
  const std::uint64_t from = offset / kAlign * kAlign;
  return {memory, from, (offset - from + size + 3) / 4 * 4};
}

std::optional<kernels::ValueType> value_type(validate::ElementType type) {
  using validate::ElementType;
  switch (type) {
    case ElementType::f16:
      return kernels::ValueType::f16;
    case ElementType::bf16:
      return kernels::ValueType::bf16;
    case ElementType::f32:
      return kernels::ValueType::f32;
    case ElementType::f64:
      return kernels::ValueType::f64;
    default:
      return std::nullopt;
  }
}

}  // namespace

void Blanker::blank(std::span<std::byte> bytes, const validate::Mask& mask) {
  for (const auto& run : validate::runs(mask))
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(run.offset), run.size, std::byte{kBlank});
}

Result<Blanker> Blanker::create(Loaded& loaded, const ChunkList& chunks, const std::vector<validate::Mask>& masks) {
  KLAB_CHECK(masks.size() == chunks.size());
  Blanker b;
  for (std::size_t k = 0; k < chunks.size(); ++k) {
    if (!masks[k].any()) continue;
    const auto& c = loaded.chunk(chunks[k]);
    const auto words = masks[k].words();
    KLAB_TRY(auto memory, loaded.gpu().allocate(words.size_bytes()));
    KLAB_TRY_VOID(loaded.gpu()->upload(memory.id(), 0, std::as_bytes(words)));
    const auto data = bind(loaded.placed(c.region).id, c.offset, c.size);
    const kernels::PoisonPush push{static_cast<std::uint32_t>(c.offset - data.offset), c.size, {kBlank, kBlank}};
    const BuiltinBinding bindings[] = {data, {memory.id(), 0, words.size_bytes()}};
    KLAB_TRY(auto launch, loaded.gpu().builtin("poison", bindings, std::as_bytes(std::span(&push, 1)),
                                               {kernels::striding_grid(c.size), 1, 1}));
    b.masks_.push_back(std::move(memory));
    b.launches_.push_back(std::move(launch));
  }
  return b;
}

void Blanker::append(std::vector<gpu::Step>& steps) const {
  for (const Launch& l : launches_) steps.push_back(gpu::Step::launch_of(l.id(), false));
}

Result<OutcomeCheck> OutcomeCheck::by_hash(Loaded& loaded, const ChunkList& chunks, std::vector<kernels::Hash> wanted,
                                           const std::vector<validate::Mask>& ignore) {
  OutcomeCheck check;
  check.chunks_ = chunks;
  KLAB_CHECK(wanted.size() == chunks.size());
  KLAB_TRY(check.blanker_, Blanker::create(loaded, chunks, ignore));
  KLAB_TRY(check.hashes_, loaded.prepare_hashes(chunks));
  check.wanted_ = std::move(wanted);
  return check;
}

Result<OutcomeCheck> OutcomeCheck::by_value(Loaded& loaded, const ChunkList& chunks, const Image& expected,
                                            const std::vector<validate::Mask>& ignore,
                                            const validate::Comparator& comparator) {
  OutcomeCheck check;
  check.chunks_ = chunks;
  // What is not floating-point is checked by hash, where there is any of it.
  ChunkList exact;
  std::vector<validate::Mask> masks;
  Image rest;
  for (std::size_t k = 0; k < chunks.size(); ++k) {
    const auto& c = loaded.chunk(chunks[k]);
    validate::Mask mask = comparator.float_bytes(c.region, c.offset, c.size);
    mask.merge(ignore[k]);
    if (mask.count() == c.size) continue;
    exact.push_back(chunks[k]);
    rest.push_back(expected[k]);
    Blanker::blank(rest.back(), mask);
    masks.push_back(std::move(mask));
  }
  KLAB_TRY(check.blanker_, Blanker::create(loaded, exact, masks));
  KLAB_TRY(check.hashes_, loaded.prepare_hashes(exact));
  for (const auto& bytes : rest) check.wanted_.push_back(kernels::hash_on_host(bytes));

  const std::uint32_t key = std::random_device{}();
  const Restorer::Change veil = [key](std::span<std::byte> words, std::uint64_t at) {
    for (std::size_t i = 0; i < words.size(); i += 4) {
      std::uint32_t w = 0;
      std::memcpy(&w, words.data() + i, 4);
      w ^= kernels::veil(static_cast<std::uint32_t>((at + i) % kWindow / 4), key);  // its number in its window
      std::memcpy(words.data() + i, &w, 4);
    }
  };
  KLAB_TRY(check.copy_, Restorer::create(loaded, chunks, {&expected}, veil));
  struct Pending {
    kernels::ValuesPush push;
    BuiltinBinding actual, wanted;
    std::uint64_t bytes = 0;
  };
  std::vector<Pending> pending;
  for (const gpu::Step& s : check.copy_.copies(0)) {
    // A window of Klab's copy, so that a word's number in it is known when it is veiled.
    for (std::uint64_t done = 0; done < s.size;) {
      const std::uint64_t from = s.from_offset + done, window = from / kWindow * kWindow;
      const std::uint64_t size = std::min(s.size - done, window + kWindow - from);
      const std::uint64_t to = s.to_offset + done;
      std::uint32_t region = 0;
      while (loaded.placed(region).id != s.to) ++region;
      for (const validate::Lane& lane : comparator.layout().floats(region)) {
        const std::uint64_t first = lane.first_from(to), last = lane.first_from(to + size);
        if (first >= last) continue;
        const auto type = value_type(lane.type);
        KLAB_CHECK(type.has_value());
        if (*type == kernels::ValueType::f64 && !loaded.gpu().abilities().double_values)
          return fail(ErrorCode::unsupported, "f64 elements are not compared on the device by this API");
        if (last > UINT32_MAX || lane.stride > UINT32_MAX)
          return fail(ErrorCode::unsupported, "a region of more than 2^32 elements is not compared on the device");
        const auto tolerance = comparator.tolerance(lane);
        const auto actual = bind(s.to, to, size);
        Pending p;
        p.actual = actual;
        p.wanted = {s.from, window, (from - window + size + 3) / 4 * 4};
        p.bytes = (last - first) * size_of(lane.type);
        // Positions are relative to the bound windows; what is negative wraps around, as the kernel's sums do.
        p.push = {.actual_start = static_cast<std::uint32_t>(lane.offset - actual.offset),
                  .expected_start = static_cast<std::uint32_t>(lane.offset - to + from - window),
                  .first = static_cast<std::uint32_t>(first),
                  .count = static_cast<std::uint32_t>(last - first),
                  .stride = static_cast<std::uint32_t>(lane.stride),
                  .per = lane.stride == size_of(lane.type) * std::uint64_t{lane.per} ? 1u : lane.per,
                  .type = *type,
                  .result = static_cast<std::uint32_t>(pending.size()),
                  .absolute = static_cast<float>(tolerance.absolute * kLenient),
                  .relative = static_cast<float>(tolerance.relative * kLenient),
                  .key = key};
        if (p.push.per == 1) p.push.stride = size_of(lane.type);
        pending.push_back(p);
        const ChunkId id = loaded.chunk_at(region, to);
        check.value_chunks_.push_back(static_cast<std::size_t>(
            std::lower_bound(chunks.begin(), chunks.end(), id) - chunks.begin()));
      }
      done += size;
    }
  }
  if (pending.empty()) return check;
  check.values_bytes_ = pending.size() * sizeof(kernels::ValuesResult);
  const std::vector<kernels::ValuesResult> start(pending.size());
  KLAB_TRY(check.start_, loaded.gpu().allocate(check.values_bytes_));
  KLAB_TRY_VOID(loaded.gpu()->upload(check.start_.id(), 0, std::as_bytes(std::span(start))));
  KLAB_TRY(check.results_, loaded.gpu().allocate(check.values_bytes_));
  for (const Pending& p : pending) {
    const BuiltinBinding bindings[] = {p.actual, p.wanted, {check.results_.id(), 0, check.values_bytes_}};
    KLAB_TRY(auto launch, loaded.gpu().builtin("compare_values", bindings, std::as_bytes(std::span(&p.push, 1)),
                                               {kernels::striding_grid(p.bytes), 1, 1}));
    check.values_.push_back(std::move(launch));
  }
  return check;
}

void OutcomeCheck::append(std::vector<gpu::Step>& steps, gpu::MemoryId log, std::uint64_t at) const {
  if (!values_.empty()) {
    steps.push_back(gpu::Step::copy_of(results_.id(), 0, start_.id(), 0, values_bytes_));
    for (const Launch& l : values_) steps.push_back(gpu::Step::launch_of(l.id(), false));
    steps.push_back(gpu::Step::copy_of(log, at + hashes_.result_bytes(), results_.id(), 0, values_bytes_));
  }
  if (hashes_.chunks().empty()) return;
  blanker_.append(steps);
  hashes_.append(steps);
  steps.push_back(gpu::Step::copy_of(log, at, hashes_.results(), 0, hashes_.result_bytes()));
}

std::optional<std::size_t> OutcomeCheck::wrong(std::span<const std::byte> entry) const {
  for (std::size_t k = 0; k < wanted_.size(); ++k) {
    kernels::Hash h;
    std::memcpy(&h, entry.data() + k * sizeof h, sizeof h);
    if (h != wanted_[k])
      return static_cast<std::size_t>(std::lower_bound(chunks_.begin(), chunks_.end(), hashes_.chunks()[k]) -
                                      chunks_.begin());
  }
  for (std::size_t i = 0; i < values_.size(); ++i) {
    kernels::ValuesResult r;
    std::memcpy(&r, entry.data() + hashes_.result_bytes() + i * sizeof r, sizeof r);
    if (r.beyond != 0) return value_chunks_[i];
  }
  return std::nullopt;
}

}  // namespace klab::worker
