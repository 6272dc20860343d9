// SPDX-License-Identifier: Apache-2.0
// What a manifest must satisfy before anyone relies on its numbers.
#include <algorithm>

#include <fmt/format.h>

#include "base/hash.h"
#include "bundle/manifest.h"

namespace klab::bundle {
namespace {

constexpr std::uint64_t kMaxTotal = 1ull << 48;  // bytes of all regions
constexpr std::uint64_t kMaxAddress = 1ull << 63;
constexpr std::uint64_t kMaxCodeSize = 1ull << 32;
constexpr std::uint64_t kMaxDescriptors = 1ull
                                          << 24;  // of one dispatch's layout; a worker allocates that many
constexpr std::uint32_t kMaxSets = 1024;
constexpr std::uint64_t kMaxPushBytes = 1u << 16;
constexpr std::size_t kMaxVarying = 1000;
constexpr std::uint64_t kMaxArguments = 1u << 16;
constexpr std::size_t kMaxAttributes = 256, kMaxTextures = 4096;
constexpr std::uint64_t kMaxExtent = 1u << 20;  // texels in one direction, and layers

// "code/" and one plain name: no separator, no leading dot, nothing a shell or terminal would act on.
bool plain_code_file(const std::string& file) {
  if (file.compare(0, 5, "code/") != 0 || file.size() < 6 || file.size() > 200 || file[5] == '.')
    return false;
  return std::all_of(file.begin() + 5, file.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

bool inside(std::uint64_t offset, std::uint64_t size, std::uint64_t whole) {
  return offset <= whole && size <= whole - offset;
}

// Adds up a sum that must stay at or below `limit` (itself far below 2^64).
bool add_within(std::uint64_t& sum, std::uint64_t value, std::uint64_t limit) {
  if (value > limit || sum > limit - value) return false;
  sum += value;
  return true;
}

struct Checker {
  const Manifest& m;
  std::string_view source;

  template <class... Args>
  tl::unexpected<Error> bad(fmt::format_string<Args...> text, Args&&... args) const {
    return fail(ErrorCode::invalid_data,
                fmt::format("{}: {}", source, fmt::format(text, std::forward<Args>(args)...)),
                "the bundle was written wrongly or tampered with; capture again");
  }

  Status code() const {
    for (std::size_t i = 0; i < m.code.size(); ++i) {
      const CodeObject& c = m.code[i];
      if (!plain_code_file(c.file))
        return bad("code object {} is in {}, which is not a plain name in code/", i,
                   Json(c.file.substr(0, 200)).dump(-1, ' ', true, Json::error_handler_t::replace));
      if (c.size > kMaxCodeSize)
        return bad("code object {} claims {} bytes, at most {} can be", i, c.size, kMaxCodeSize);
      if (!hash_from(c.hash)) return bad("code object {} has no valid hash", i);
    }
    return {};
  }

  Status regions(const Dispatch& d, std::size_t at, std::uint64_t& total) const {
    for (std::size_t i = 0; i < d.regions.size(); ++i) {
      const Region& r = d.regions[i];
      if (r.id != i) return bad("dispatch {}: region {} has id {}", at, i, r.id);
      if (!add_within(total, r.size, kMaxTotal))
        return bad("dispatch {}: region {} claims {} bytes; all regions together stay below {}", at, i,
                   r.size, kMaxTotal);
      if (r.address >= kMaxAddress || r.address + r.size > kMaxAddress)
        return bad("dispatch {}: region {} ends beyond 2^63", at, i);
      if (r.allocation_offset >= kMaxAddress) return bad("dispatch {}: region {} starts beyond 2^63", at, i);
    }
    return {};
  }

  Status layout(const Dispatch& d, std::size_t at) const {
    std::uint64_t descriptors = 0;
    for (const LayoutSlot& s : d.layout) {
      if (s.set >= kMaxSets)
        return bad("dispatch {}: descriptor set {}; at most {} are read", at, s.set, kMaxSets);
      if (!add_within(descriptors, s.count, kMaxDescriptors))
        return bad("dispatch {}: its layout has more than {} descriptors", at, kMaxDescriptors);
    }
    for (std::size_t i = 0; i < d.bindings.size(); ++i) {
      const Binding& b = d.bindings[i];
      if (b.set >= kMaxSets)
        return bad("dispatch {}: descriptor set {}; at most {} are read", at, b.set, kMaxSets);
      if (b.region >= d.regions.size())
        return bad("dispatch {}: binding {} names region {} of {}", at, i, b.region, d.regions.size());
      if (!inside(b.offset, b.range, d.regions[b.region].size))
        return bad("dispatch {}: binding {} reaches beyond region {}", at, i, b.region);
    }
    return {};
  }

  Status constants(const Dispatch& d, std::size_t at) const {
    if (d.push_constants.size() > kMaxPushBytes)
      return bad("dispatch {}: {} bytes of push constants", at, d.push_constants.size());
    for (const PushRange& p : d.push_ranges)
      if (!inside(p.offset, p.size, kMaxPushBytes))
        return bad("dispatch {}: a push constant range of {} bytes at {}", at, p.size, p.offset);
    for (const SpecConstant& s : d.spec_constants)
      if (const auto n = s.value.size(); n != 1 && n != 2 && n != 4 && n != 8)
        return bad("dispatch {}: specialization constant {} has {} bytes", at, s.id, n);
    return {};
  }

  Status arguments(const Dispatch& d, std::size_t at) const {
    if (d.arguments.size() > kMaxArguments)
      return bad("dispatch {}: {} bytes of arguments", at, d.arguments.size());
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < d.argument_layout.size(); ++i) {
      const Argument& a = d.argument_layout[i];
      if (a.offset < end || !inside(a.offset, a.size, d.arguments.size()))
        return bad("dispatch {}: argument {} of {} bytes at {} overlaps another or lies outside", at, i, a.size,
                   a.offset);
      end = std::uint64_t{a.offset} + a.size;
    }
    if (d.attributes.size() > kMaxAttributes || d.textures.size() > kMaxTextures)
      return bad("dispatch {}: {} attributes and {} textures", at, d.attributes.size(), d.textures.size());
    for (std::size_t i = 0; i < d.textures.size(); ++i) {
      const TextureObject& t = d.textures[i];
      if (t.region >= d.regions.size() || t.offset > d.regions[t.region].size)
        return bad("dispatch {}: texture {} lies outside region {}", at, i, t.region);
      if (t.width > kMaxExtent * 1024 || t.height > kMaxExtent || t.depth > kMaxExtent || t.channels < 1 ||
          t.channels > 4 || t.linear_bytes > d.regions[t.region].size - t.offset ||
          (t.height > 1 && t.pitch > d.regions[t.region].size) || t.sampling.size() > 4096)
        return bad("dispatch {}: texture {} has a size that cannot be", at, i);
    }
    return {};
  }

  // A grid in work-items fills all blocks but the last of a direction.
  Status threads(const Dispatch& d, std::size_t at) const {
    if (d.threads == Dim3{0, 0, 0}) return {};
    for (std::size_t i = 0; i < 3; ++i)
      if (d.block[i] == 0 || d.threads[i] == 0 || (d.threads[i] - 1) / d.block[i] + 1 != d.grid[i])
        return bad("dispatch {}: {} threads in blocks of {} are not a grid of {}", at, d.threads[i], d.block[i],
                   d.grid[i]);
    return {};
  }

  Status proof(const Dispatch& d, std::size_t at) const {
    if (d.proof.varying.size() > kMaxVarying)
      return bad("dispatch {}: {} varying ranges, at most {}", at, d.proof.varying.size(), kMaxVarying);
    for (const ByteRange& r : d.proof.varying)
      if (r.region >= d.regions.size() || !inside(r.offset, r.size, d.regions[r.region].size))
        return bad("dispatch {}: a varying range lies outside region {}", at, r.region);
    return {};
  }

  Status all() const {
    if (m.format < 1) return bad("format {}", m.format);
    if (m.dispatches.empty()) return bad("it holds no dispatch");
    if (!hash_from(m.index_hash)) return bad("index_hash is not a hash");
    KLAB_TRY_VOID(code());
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < m.dispatches.size(); ++i) {
      const Dispatch& d = m.dispatches[i];
      if (d.code >= m.code.size())
        return bad("dispatch {} names code object {} of {}", i, d.code, m.code.size());
      KLAB_TRY_VOID(regions(d, i, total));
      KLAB_TRY_VOID(layout(d, i));
      KLAB_TRY_VOID(constants(d, i));
      KLAB_TRY_VOID(threads(d, i));
      KLAB_TRY_VOID(arguments(d, i));
      KLAB_TRY_VOID(proof(d, i));
    }
    return {};
  }
};

}  // namespace

Status check_manifest(const Manifest& manifest, std::string_view source) {
  return Checker{manifest, source}.all();
}

}  // namespace klab::bundle
