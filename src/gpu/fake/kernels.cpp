// SPDX-License-Identifier: Apache-2.0
// The CPU kernels that program texts can name: small patterns of real ones, then Klab's own
// (kernels/kernels.h).
#include <algorithm>
#include <cstring>

#include "gpu/fake/program.h"
#include "kernels/cuda_arithmetic.h"
#include "kernels/kernels.h"

namespace klab::gpu::fake {
namespace {

std::size_t shorter(std::size_t a, std::size_t b) { return std::min(a, b); }

bool noop(const Call&) { return true; }

// y = a * x + y
bool saxpy(const Call& c) {
  const auto x = c.array<float>(0), y = c.array<float>(1);
  const float a = c.push<float>(0);
  for (std::size_t i = 0; i < shorter(x.size(), y.size()); ++i) y[i] = a * x[i] + y[i];
  return true;
}

// y = a * x, and versions of it that are wrong in one way each
bool scale_range(const Call& c, std::size_t from, std::size_t parts, std::uint32_t flip) {
  const auto x = c.array<float>(0), y = c.array<float>(1);
  const float a = c.push<float>(0);
  const std::size_t n = shorter(x.size(), y.size());
  for (std::size_t i = from; i < n / parts; ++i) {
    const float value = a * x[i];
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    bits ^= flip;
    std::memcpy(&y[i], &bits, 4);
  }
  return true;
}
bool scale(const Call& c) { return scale_range(c, 0, 1, 0); }
bool scale_half(const Call& c) { return scale_range(c, 0, 2, 0); }
bool scale_skip_first(const Call& c) { return scale_range(c, 1, 1, 0); }
bool scale_one_bit(const Call& c) { return scale_range(c, 0, 1, 1); }
// Right, and also writes one word of its input.
bool scale_stray(const Call& c) {
  scale(c);
  const auto x = c.array<float>(0);
  if (!x.empty()) x.back() += 1;
  return true;
}
// Right only where the output already held something else: trusts what an earlier launch left.
bool scale_lazy(const Call& c) {
  const auto y = c.array<float>(1);
  return (!y.empty() && y[0] == 0) ? scale(c) : true;
}

// b0[i] += 1, in place
bool inplace_add(const Call& c) {
  for (auto& v : c.array<std::uint32_t>(0)) ++v;
  return true;
}

bool copy(const Call& c) {
  const auto from = c.bytes(0), to = c.bytes(1);
  std::memmove(to.data(), from.data(), shorter(from.size(), to.size()));
  return true;
}

bool zeros(const Call& c) {
  const auto to = c.bytes(c.spec->bindings.empty() ? 0 : c.spec->bindings.back().binding);
  std::fill(to.begin(), to.end(), std::byte{0});
  return true;
}

// In place and idempotent: a second launch changes nothing.
bool clamp(const Call& c) {
  for (auto& v : c.array<float>(0)) v = v < 0.0f ? 0.0f : v > 1.0f ? 1.0f : v;
  return true;
}

// y[i] = x[i] only where y[i] is 0
bool conditional(const Call& c) {
  const auto x = c.array<std::uint32_t>(0), y = c.array<std::uint32_t>(1);
  for (std::size_t i = 0; i < shorter(x.size(), y.size()); ++i)
    if (y[i] == 0) y[i] = x[i];
  return true;
}

// As scale, but every 64th element has random low bits.
bool racy(const Call& c) {
  scale(c);
  const auto y = c.array<std::uint32_t>(1);
  std::uint64_t chance = c.chance;
  for (std::size_t i = 0; i < y.size(); i += 64) {
    chance = chance * 6364136223846793005u + 1442695040888963407u;
    y[i] = (y[i] & ~0xfu) | static_cast<std::uint32_t>(chance >> 60);
  }
  return true;
}

// y = a * x in its first two launches, by a count in its own variable; then it leaves y alone
bool remembers(const Call& c) {
  const auto seen = c.variable("seen");
  if (seen.size() != 4) return false;
  std::uint32_t n = 0;
  std::memcpy(&n, seen.data(), 4);
  if (n < 2 && !scale(c)) return false;
  ++n;
  std::memcpy(seen.data(), &n, 4);
  return true;
}

// out[i] = in[index[i]]; an index out of range is a memory fault
bool gather(const Call& c) {
  const auto in = c.array<std::uint32_t>(0), index = c.array<std::uint32_t>(1),
             out = c.array<std::uint32_t>(2);
  for (std::size_t i = 0; i < shorter(index.size(), out.size()); ++i) {
    if (index[i] >= in.size()) return false;
    out[i] = in[index[i]];
  }
  return true;
}

// b0 holds addresses; the u32 behind each grows by its number + 1
bool pointer_table(const Call& c) {
  const auto table = c.array<std::uint64_t>(0);
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto target = c.at(table[i], 4);
    if (target.empty()) return false;
    std::uint32_t value = 0;
    std::memcpy(&value, target.data(), 4);
    value += static_cast<std::uint32_t>(i) + 1;
    std::memcpy(target.data(), &value, 4);
  }
  return true;
}

// Writes, through the address in push constant 0, a linked pair: the address itself and a number.
bool write_pointer(const Call& c) {
  const auto address = c.push<std::uint64_t>(0);
  const auto target = c.at(address, 16);
  if (target.empty()) return false;
  std::memcpy(target.data(), &address, 8);
  const std::uint64_t number = 42;
  std::memcpy(target.data() + 8, &number, 8);
  return true;
}

// Arguments: u64 x, u64 y, u32 n, f32 a. y = a * x
bool args_scale(const Call& c) {
  const auto n = c.argument<std::uint32_t>(16);
  const auto a = c.argument<float>(20);
  const auto x = c.at(c.argument<std::uint64_t>(0), std::uint64_t{n} * 4),
             y = c.at(c.argument<std::uint64_t>(8), std::uint64_t{n} * 4);
  if (n != 0 && (x.empty() || y.empty())) return false;
  for (std::uint32_t i = 0; i < n; ++i) {
    float v = 0;
    std::memcpy(&v, x.data() + 4 * i, 4);
    v *= a;
    std::memcpy(y.data() + 4 * i, &v, 4);
  }
  return true;
}

// Arguments: u64 out, u64 pointer. Variables: "factor" (u32, constant), "counter" (u32, grows by one),
// "target" (u64: a pointer). out[0] = *pointer * factor, out[1] = *target.
bool variables(const Call& c) {
  const auto out = c.at(c.argument<std::uint64_t>(0), 8);
  const auto factor = c.variable("factor"), counter = c.variable("counter"), target = c.variable("target");
  if (out.empty() || factor.size() != 4) return false;
  const auto read = [](std::span<std::byte> b) {
    std::uint32_t v = 0;
    std::memcpy(&v, b.data(), 4);
    return v;
  };
  const auto from = c.at(c.argument<std::uint64_t>(8), 4);
  if (from.empty()) return false;
  const std::uint32_t first = read(from) * read(factor);
  std::memcpy(out.data(), &first, 4);
  if (target.size() == 8) {
    std::uint64_t address = 0;
    std::memcpy(&address, target.data(), 8);
    const auto there = c.at(address, 4);
    if (there.empty()) return false;
    std::memcpy(out.data() + 4, there.data(), 4);
  }
  if (counter.size() == 4) {
    const std::uint32_t next = read(counter) + 1;
    std::memcpy(counter.data(), &next, 4);
  }
  return true;
}

// Arguments: u64 out (12 words). What the launch is: block, cluster, dynamic shared bytes, number of
// attributes, the first one's value.
bool launch_facts(const Call& c) {
  const auto out = c.at(c.argument<std::uint64_t>(0), 48);
  if (out.empty()) return false;
  std::uint32_t facts[12] = {};
  for (int i = 0; i < 3; ++i) {
    facts[i] = c.spec->block[i];
    facts[3 + i] = c.spec->cluster[i];
  }
  facts[6] = c.spec->dynamic_shared_bytes;
  facts[7] = static_cast<std::uint32_t>(c.spec->attributes.size());
  if (!c.spec->attributes.empty()) facts[8] = static_cast<std::uint32_t>(c.spec->attributes[0].value);
  std::memcpy(out.data(), facts, sizeof facts);
  return true;
}

bool patch(const Call& c) {
  const auto push = c.push<kernels::PatchPush>(0);
  const auto words = c.array<kernels::PatchWord>(0);
  if (push.count > words.size()) return false;
  for (std::uint32_t i = 0; i < push.count; ++i) {
    const auto at = c.at(words[i].address, 8);
    if (at.empty()) return false;
    std::uint64_t word = 0;
    std::memcpy(&word, at.data(), 8);
    const std::uint64_t from = push.back != 0 ? words[i].to : words[i].from,
                        to = push.back != 0 ? words[i].from : words[i].to;
    if (word == from) std::memcpy(at.data(), &to, 8);
  }
  return true;
}

std::span<std::byte> window(std::span<std::byte> bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return {};
  return bytes.subspan(offset, size);
}

bool hash(const Call& c) {
  const auto push = c.push<kernels::HashPush>(0);
  const auto data = c.bytes(0);
  const auto chunks = c.array<kernels::HashChunk>(1);
  const auto out = c.array<kernels::Hash>(2);
  for (std::uint64_t i = push.first; i < std::uint64_t{push.first} + push.count; ++i) {
    if (i >= chunks.size() || i >= out.size()) return false;
    const auto w = window(data, chunks[i].offset, chunks[i].size);
    if (w.size() != chunks[i].size) return false;
    out[i] = kernels::hash_on_host(w);
  }
  return true;
}

bool hash_address(const Call& c) {
  const auto push = c.push<kernels::HashPush>(0);
  const auto chunks = c.array<kernels::HashAddressChunk>(0);
  const auto out = c.array<kernels::Hash>(1);
  for (std::uint64_t i = push.first; i < std::uint64_t{push.first} + push.count; ++i) {
    if (i >= chunks.size() || i >= out.size()) return false;
    const auto w = c.at(chunks[i].address, chunks[i].size);
    if (w.size() != chunks[i].size) return false;
    out[i] = kernels::hash_on_host(w);
  }
  return true;
}

bool compare(const Call& c) {
  const auto push = c.push<kernels::ComparePush>(0);
  const auto a = window(c.bytes(0), push.a_offset, push.size),
             b = window(c.bytes(1), push.b_offset, push.size);
  const auto results = c.array<kernels::CompareResult>(2);
  if (a.size() != push.size || b.size() != push.size || push.result >= results.size()) return false;
  auto& result = results[push.result];
  for (std::uint32_t i = 0; i < push.size; ++i) {
    if (a[i] == b[i]) continue;
    ++result.differing_bytes;
    result.first_offset = std::min(result.first_offset, i);
  }
  return true;
}

bool compare_values(const Call& c) {
  static_assert(sizeof(kernels::cuda::Values) == sizeof(kernels::ValuesPush));
  const auto push = c.push<kernels::cuda::Values>(0);
  const auto actual = c.bytes(0), expected = c.bytes(1);
  const auto results = c.array<kernels::ValuesResult>(2);
  if (push.result >= results.size() || push.per == 0) return false;
  const std::uint32_t size = push.type == 3 ? 8 : push.type == 2 ? 4 : 2;
  for (const std::uint64_t i : {std::uint64_t{push.first}, std::uint64_t{push.first} + push.count - 1}) {
    const auto at = static_cast<std::uint32_t>(i / push.per * push.stride + i % push.per * size);
    if (push.count == 0) break;
    if (std::uint64_t{push.actual_start + at} + size > actual.size() ||
        std::uint64_t{push.expected_start + at} + size > expected.size())
      return false;
  }
  auto& r = results[push.result];
  kernels::cuda::values_share(reinterpret_cast<const unsigned char*>(actual.data()),
                              reinterpret_cast<const unsigned char*>(expected.data()), push, 0, 1, r.beyond, r.first,
                              r.different);
  return true;
}

bool flush(const Call& c) {
  const auto push = c.push<kernels::FlushPush>(0);
  const auto data = c.array<std::uint32_t>(0);
  if (push.words > data.size()) return false;
  if (push.value == 0) return true;
  for (std::uint32_t i = 0; i < push.words; ++i) data[i] = data[i] * 0x9e3779b1u + push.value;
  return true;
}

bool poison(const Call& c) {
  const auto push = c.push<kernels::PoisonPush>(0);
  const auto data = window(c.bytes(0), push.offset, push.size);
  const auto mask = c.bytes(1);
  if (data.size() != push.size || mask.size() * 8 < push.size) return false;
  std::byte pattern[8];
  std::memcpy(pattern, push.pattern, 8);
  for (std::size_t i = 0; i < data.size(); ++i)
    if ((std::to_integer<unsigned>(mask[i / 8]) >> (i % 8) & 1) != 0) data[i] = pattern[i % 8];
  return true;
}

struct Named {
  std::string_view name;
  Kernel kernel;
};
constexpr Named kKernels[] = {
    {"noop", noop},
    {"saxpy", saxpy},
    {"scale", scale},
    {"scale_half", scale_half},
    {"scale_skip_first", scale_skip_first},
    {"scale_one_bit", scale_one_bit},
    {"scale_stray", scale_stray},
    {"scale_lazy", scale_lazy},
    {"inplace_add", inplace_add},
    {"copy", copy},
    {"zeros", zeros},
    {"clamp", clamp},
    {"conditional", conditional},
    {"racy", racy},
    {"remembers", remembers},
    {"gather", gather},
    {"pointer_table", pointer_table},
    {"write_pointer", write_pointer},
    {"hash", hash},
    {"hash_address", hash_address},
    {"compare", compare},
    {"compare_values", compare_values},
    {"flush", flush},
    {"poison", poison},
    {"patch", patch},
    {"args_scale", args_scale},
    {"variables", variables},
    {"launch_facts", launch_facts},
};

}  // namespace

Kernel find_kernel(std::string_view name) {
  for (const Named& k : kKernels)
    if (k.name == name) return k.kernel;
  return nullptr;
}

}  // namespace klab::gpu::fake
