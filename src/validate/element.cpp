// SPDX-License-Identifier: Apache-2.0
#include "validate/element.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace klab::validate {
namespace {

template <class T>
T load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

float half_to_float(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const std::uint32_t exponent = h >> 10 & 0x1fu, mantissa = h & 0x3ffu;
  if (exponent == 0) return (sign != 0 ? -1.0f : 1.0f) * std::ldexp(static_cast<float>(mantissa), -24);
  const std::uint32_t bits =
      exponent == 31 ? sign | 0x7f800000u | mantissa << 13 : sign | (exponent + 112) << 23 | mantissa << 13;
  return load<float>(reinterpret_cast<const std::byte*>(&bits));
}

bool plain(const TypedRange& r) {
  return r.fields.size() == 1 && r.fields[0].offset == 0 && r.fields[0].count == 1 &&
         r.stride == size_of(r.fields[0].type);
}

}  // namespace

void to_json(Json& j, const Field& v) {
  j = {{"offset", v.offset}, {"type", v.type}, {"count", v.count}};
  if (!v.name.empty()) j["name"] = v.name;
}
void from_json(const Json& j, Field& v) {
  read_required(j, "offset", v.offset);
  read_required(j, "type", v.type);
  read_required(j, "count", v.count);
  read_optional(j, "name", v.name);
}
void to_json(Json& j, const TypedRange& v) {
  j = {{"region", v.region}, {"offset", v.offset}, {"size", v.size},
       {"stride", v.stride}, {"fields", v.fields}, {"from", v.from}};
  if (!v.shape.empty()) j["shape"] = v.shape;
}
void from_json(const Json& j, TypedRange& v) {
  read_required(j, "region", v.region);
  read_required(j, "offset", v.offset);
  read_required(j, "size", v.size);
  read_required(j, "stride", v.stride);
  read_required(j, "fields", v.fields);
  read_optional(j, "from", v.from);
  read_optional(j, "shape", v.shape);
}

std::string describe(const TypedRange& v) {
  auto of = [](const Field& f) {
    return f.count == 1 ? std::string(to_string(f.type)) : fmt::format("{}x{}", to_string(f.type), f.count);
  };
  if (plain(v))
    return v.shape.empty() ? of(v.fields[0]) : fmt::format("{} {}", of(v.fields[0]), fmt::join(v.shape, "x"));
  std::vector<std::string> parts;
  for (const Field& f : v.fields) parts.push_back(f.name.empty() ? of(f) : of(f) + " " + f.name);
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

std::uint64_t Lane::first_from(std::uint64_t from) const {
  if (from <= offset) return 0;
  const std::uint64_t record = (from - offset) / stride, into = (from - offset) % stride;
  const std::uint64_t size = size_of(type);
  const std::uint64_t part = std::min<std::uint64_t>((into + size - 1) / size, per);
  return std::min(count, record * per + part);
}

Layout::Layout(std::vector<TypedRange> ranges, std::span<const std::uint64_t> sizes) {
  floats_.resize(sizes.size());
  for (TypedRange& r : ranges) {
    auto refuse = [&](std::string_view why) {
      notes_.push_back(fmt::format("region {}: its type {} is not used: {}", r.region, describe(r), why));
    };
    if (r.region >= sizes.size()) {
      notes_.push_back(fmt::format("there is no region {}: its type is not used", r.region));
      continue;
    }
    if (r.offset >= sizes[r.region] || r.stride == 0 || r.fields.empty()) {
      refuse("it lies outside the region");
      continue;
    }
    r.size = std::min(r.size, sizes[r.region] - r.offset);
    const bool odd = std::any_of(r.fields.begin(), r.fields.end(), [&](const Field& f) {
      const std::uint64_t size = size_of(f.type);
      return f.count == 0 || f.offset + size * f.count > r.stride || (r.offset + f.offset) % size != 0 ||
             r.stride % size != 0;
    });
    if (odd) {
      refuse("elements do not lie at multiples of their size");
      continue;
    }
    const bool overlaps = std::any_of(ranges_.begin(), ranges_.end(), [&](const TypedRange& o) {
      return o.region == r.region && o.offset < r.offset + r.size && r.offset < o.offset + o.size;
    });
    if (overlaps) continue;  // the first one said holds: what a person gave comes first
    const auto index = static_cast<std::uint32_t>(ranges_.size());
    for (const Field& f : r.fields) {
      if (!is_float(f.type)) continue;
      const std::uint64_t records = r.size / r.stride, rest = r.size % r.stride, size = size_of(f.type);
      Lane lane{f.type, r.offset + f.offset, r.stride, f.count, records * f.count, index};
      if (rest > f.offset) lane.count += std::min<std::uint64_t>(f.count, (rest - f.offset) / size);
      if (lane.count != 0) floats_[r.region].push_back(lane);
    }
    ranges_.push_back(std::move(r));
  }
}

const std::vector<Lane>& Layout::floats(std::uint32_t region) const {
  static const std::vector<Lane> kNone;
  return region < floats_.size() ? floats_[region] : kNone;
}

const TypedRange* Layout::range_at(std::uint32_t region, std::uint64_t offset) const {
  for (const TypedRange& r : ranges_)
    if (r.region == region && offset >= r.offset && offset - r.offset < r.size) return &r;
  return nullptr;
}

bool Layout::any_floats() const {
  return std::any_of(floats_.begin(), floats_.end(), [](const auto& l) { return !l.empty(); });
}

ElementPlace place_of(const Layout& layout, std::uint32_t region, std::uint64_t offset) {
  const TypedRange* r = layout.range_at(region, offset);
  if (r == nullptr) return {ElementType::u32, offset / 4 * 4, offset / 4, fmt::format("offset {}", offset)};
  const std::uint64_t record = (offset - r->offset) / r->stride, into = (offset - r->offset) % r->stride;
  for (const Field& f : r->fields) {
    const std::uint64_t size = size_of(f.type);
    if (into < f.offset || into >= f.offset + size * f.count) continue;
    const std::uint64_t part = (into - f.offset) / size;
    ElementPlace p{f.type, r->offset + record * r->stride + f.offset + part * size, record, ""};
    if (!r->shape.empty()) {
      std::vector<std::uint64_t> index(r->shape.size());
      std::uint64_t rest = record;
      for (std::size_t d = index.size(); d-- > 0; rest /= std::max<std::uint64_t>(1, r->shape[d]))
        index[d] = d == 0 ? rest : rest % std::max<std::uint64_t>(1, r->shape[d]);
      p.text = fmt::format("[{}]", fmt::join(index, ","));
    } else {
      p.text = fmt::format("[{}]", record);
    }
    if (!plain(*r)) {
      if (!f.name.empty()) p.text += "." + f.name;
      if (f.count != 1 || f.name.empty()) p.text += fmt::format("[{}]", part);
    }
    return p;
  }
  return {ElementType::u8, offset, record, fmt::format("offset {} (between the fields of [{}])", offset, record)};
}

double value_of(ElementType type, const std::byte* p) {
  switch (type) {
    case ElementType::u8:
      return load<std::uint8_t>(p);
    case ElementType::i8:
      return load<std::int8_t>(p);
    case ElementType::u16:
      return load<std::uint16_t>(p);
    case ElementType::i16:
      return load<std::int16_t>(p);
    case ElementType::u32:
      return load<std::uint32_t>(p);
    case ElementType::i32:
      return load<std::int32_t>(p);
    case ElementType::u64:
      return static_cast<double>(load<std::uint64_t>(p));
    case ElementType::i64:
      return static_cast<double>(load<std::int64_t>(p));
    case ElementType::f16:
      return half_to_float(load<std::uint16_t>(p));
    case ElementType::bf16: {
      const std::uint32_t bits = static_cast<std::uint32_t>(load<std::uint16_t>(p)) << 16;
      return load<float>(reinterpret_cast<const std::byte*>(&bits));
    }
    case ElementType::f32:
      return load<float>(p);
    case ElementType::f64:
      return load<double>(p);
  }
  return 0;
}

std::string value_text(ElementType type, const std::byte* p) {
  switch (type) {
    case ElementType::u64:
      return fmt::format("{}", load<std::uint64_t>(p));
    case ElementType::i64:
      return fmt::format("{}", load<std::int64_t>(p));
    case ElementType::f64:
      return fmt::format("{}", load<double>(p));
    default:
      break;
  }
  const double v = value_of(type, p);
  return is_float(type) ? fmt::format("{}", static_cast<float>(v)) : fmt::format("{}", static_cast<std::int64_t>(v));
}

Result<TypeText> parse_type(std::string_view text) {
  const std::string what(text);
  auto bad = [&](std::string_view why) {
    return fail(ErrorCode::usage, fmt::format("type {}: {}", what, why),
                "one of u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64, with a shape if you like: f16:4096x4096");
  };
  TypeText out;
  const std::size_t colon = text.find(':');
  if (!from_string(text.substr(0, colon), out.type)) return bad("no such element type");
  if (colon == std::string_view::npos) return out;
  std::string_view rest = text.substr(colon + 1);
  while (true) {
    std::uint64_t n = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), n);
    if (error != std::errc{} || n == 0 || n > 1ull << 48 || out.shape.size() == 8) return bad("its shape is not numbers joined by x");
    out.shape.push_back(n);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (rest.empty()) return out;
    if (rest[0] != 'x') return bad("its shape is not numbers joined by x");
    rest.remove_prefix(1);
  }
}

}  // namespace klab::validate
