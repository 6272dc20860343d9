// SPDX-License-Identifier: Apache-2.0
#include "ops/checks.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

namespace klab::ops {
namespace {

using validate::ElementType;
using validate::TypedRange;

std::string trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return std::string(text);
}

/// A place that has a name: a region, or what a binding shows of it.
struct Named {
  std::uint32_t region = 0;
  std::uint64_t offset = 0, size = 0;
};

struct Names {
  std::map<std::string, Named, std::less<>> all;
  std::string list() const {
    std::string text;
    for (const auto& [name, place] : all)
      if (text.size() < 400) text += (text.empty() ? "" : ", ") + name;
    return text;
  }
};

Names names_of(const bundle::Dispatch& d, const compile::Reflection* reflection) {
  Names names;
  for (const auto& r : d.regions) {
    names.all[std::to_string(r.id)] = {r.id, 0, r.size};
    if (!r.name.empty()) names.all.try_emplace(r.name, Named{r.id, 0, r.size});
  }
  for (const auto& b : d.bindings) {
    const Named place{b.region, b.offset, b.range};
    if (b.element == 0) names.all.try_emplace(fmt::format("{}.{}", b.set, b.binding), place);
    if (reflection == nullptr) continue;
    for (const auto& r : reflection->bindings)
      if (r.set == b.set && r.binding == b.binding && b.element == 0) {
        if (!r.name.empty()) names.all.try_emplace(r.name, place);
        // A block that holds one array is known by the array's name too.
        if (r.fields.empty() && r.element_fields.size() == 1 && !r.element_fields[0].name.empty())
          names.all.try_emplace(r.element_fields[0].name, place);
      }
  }
  for (std::size_t i = 0; i < d.argument_layout.size(); ++i) {
    const auto& a = d.argument_layout[i];
    std::uint64_t word = 0;
    if (a.size != 8 || a.offset + 8ull > d.arguments.size()) continue;
    std::memcpy(&word, d.arguments.data() + a.offset, 8);
    for (const auto& r : d.regions)
      if (r.address != 0 && word >= r.address && word - r.address < r.size) {
        const Named place{r.id, word - r.address, r.size - (word - r.address)};
        names.all.try_emplace(fmt::format("arg{}", i), place);
        if (!a.name.empty()) names.all.try_emplace(a.name, place);
      }
  }
  return names;
}

Result<Named> find(const Names& names, const std::string& name) {
  const auto it = names.all.find(name);
  if (it == names.all.end())
    return fail(ErrorCode::usage, fmt::format("the capture has no region {}", name), "it has: " + names.list());
  return it->second;
}

Result<TypedRange> typed(const Named& place, const std::string& text, std::string from) {
  KLAB_TRY(const auto type, validate::parse_type(text));
  const std::uint32_t size = size_of(type.type);
  std::uint64_t elements = 1;
  for (const std::uint64_t n : type.shape) {
    if (n != 0 && elements > (1ull << 56) / n) return fail(ErrorCode::usage, fmt::format("{}: its shape is too large", text));
    elements *= n;
  }
  if (!type.shape.empty() && elements > place.size / size)
    return fail(ErrorCode::usage, fmt::format("{}: {} elements do not fit in {} bytes", text, elements, place.size));
  return TypedRange{.region = place.region,
                    .offset = place.offset,
                    .size = type.shape.empty() ? place.size : elements * size,
                    .stride = size,
                    .fields = {{0, type.type, 1, ""}},
                    .shape = type.shape,
                    .from = std::move(from)};
}

std::vector<validate::Field> fields_of(const std::vector<compile::ReflectedField>& list) {
  std::vector<validate::Field> out;
  for (const auto& f : list) {
    validate::Field field{.offset = f.offset, .count = f.count, .name = f.name};
    if (!from_string(f.type, field.type)) return {};
    out.push_back(std::move(field));
  }
  // The name of a plain array is the buffer's, not the element's.
  if (out.size() == 1 && out[0].count == 1) out[0].name.clear();
  return out;
}

void infer_from_spirv(const bundle::Dispatch& d, const compile::Reflection& reflection, std::vector<TypedRange>& out) {
  for (const auto& b : d.bindings)
    for (const auto& r : reflection.bindings) {
      if (r.set != b.set || r.binding != b.binding) continue;
      const auto head = fields_of(r.fields), element = fields_of(r.element_fields);
      const std::uint64_t head_size = std::min<std::uint64_t>(r.element_stride != 0 ? r.element_offset : r.size, b.range);
      if (!head.empty() && head_size != 0 && head_size <= UINT32_MAX)
        out.push_back({b.region, b.offset, head_size, static_cast<std::uint32_t>(head_size), head, {}, "SPIR-V"});
      if (!element.empty() && r.element_stride != 0 && r.element_offset < b.range)
        out.push_back({b.region, b.offset + r.element_offset, b.range - r.element_offset, r.element_stride, element, {},
                       "SPIR-V"});
    }
}

void infer_from_name(const bundle::Dispatch& d, std::vector<TypedRange>& out) {
  const auto types = pointed_types(d.name);
  if (types.size() != d.argument_layout.size()) return;
  std::vector<TypedRange> found;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const auto& a = d.argument_layout[i];
    std::uint64_t word = 0;
    if (types[i].stride == 0 || a.size != 8 || a.offset + 8ull > d.arguments.size()) continue;
    std::memcpy(&word, d.arguments.data() + a.offset, 8);
    for (const auto& r : d.regions)
      if (r.address != 0 && word >= r.address && word - r.address < r.size)
        found.push_back({r.id, word - r.address, r.size - (word - r.address), types[i].stride, types[i].fields, {},
                         "argument type"});
  }
  // Several pointers into one region: each type reaches to the next pointer.
  for (TypedRange& one : found)
    for (const TypedRange& other : found)
      if (other.region == one.region && other.offset > one.offset)
        one.size = std::min(one.size, other.offset - one.offset);
  out.insert(out.end(), found.begin(), found.end());
}

Result<std::pair<std::string, std::string>> assignment(const std::string& text, const char* example) {
  const auto at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    return fail(ErrorCode::usage, fmt::format("{} is not REGION=VALUE", text), std::string("for example ") + example);
  return std::pair{text.substr(0, at), text.substr(at + 1)};
}

}  // namespace

std::vector<PointedType> pointed_types(std::string_view kernel) {
  // The parameter list is the last bracket at depth 0.
  const std::size_t close = kernel.rfind(')');
  if (close == std::string_view::npos) return {};
  int depth = 0;
  std::size_t open = std::string_view::npos;
  for (std::size_t i = close + 1; i-- > 0;) {
    if (kernel[i] == ')') ++depth;
    if (kernel[i] == '(' && --depth == 0) {
      open = i;
      break;
    }
  }
  if (open == std::string_view::npos) return {};
  const std::string_view list = kernel.substr(open + 1, close - open - 1);
  std::vector<PointedType> out;
  if (trim(list).empty() || trim(list) == "void") return out;
  std::size_t start = 0;
  depth = 0;
  struct Known {
    const char* name;
    ElementType type;
    std::uint32_t count;
  };
  static const Known kKnown[] = {
      {"float", ElementType::f32, 1},           {"double", ElementType::f64, 1},
      {"__half", ElementType::f16, 1},          {"half", ElementType::f16, 1},
      {"_Float16", ElementType::f16, 1},        {"__half2", ElementType::f16, 2},
      {"__nv_bfloat16", ElementType::bf16, 1},  {"__nv_bfloat162", ElementType::bf16, 2},
      {"__hip_bfloat16", ElementType::bf16, 1}, {"int", ElementType::i32, 1},
      {"unsigned int", ElementType::u32, 1},    {"unsigned", ElementType::u32, 1},
      {"long", ElementType::i64, 1},            {"unsigned long", ElementType::u64, 1},
      {"long long", ElementType::i64, 1},       {"unsigned long long", ElementType::u64, 1},
      {"short", ElementType::i16, 1},           {"unsigned short", ElementType::u16, 1},
      {"char", ElementType::i8, 1},             {"signed char", ElementType::i8, 1},
      {"unsigned char", ElementType::u8, 1},    {"bool", ElementType::u8, 1},
      {"float2", ElementType::f32, 2},          {"float3", ElementType::f32, 3},
      {"float4", ElementType::f32, 4},          {"double2", ElementType::f64, 2},
      {"double4", ElementType::f64, 4},         {"int2", ElementType::i32, 2},
      {"int4", ElementType::i32, 4},            {"uint2", ElementType::u32, 2},
      {"uint4", ElementType::u32, 4},
  };
  auto add = [&](std::string_view text) {
    std::string t = trim(text);
    PointedType p;
    for (const char* word : {"__restrict__", "restrict", "const", "volatile"})
      for (std::size_t at = 0; (at = t.find(word, at)) != std::string::npos;) t.erase(at, std::strlen(word));
    t = trim(t);
    if (!t.empty() && t.back() == '*') {
      t = trim(std::string_view(t).substr(0, t.size() - 1));
      for (const Known& k : kKnown)
        if (t == k.name) {
          p.stride = size_of(k.type) * k.count;
          p.fields = {{0, k.type, k.count, ""}};
        }
    }
    out.push_back(std::move(p));
  };
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '<' || list[i] == '(' || list[i] == '[') ++depth;
    if (list[i] == '>' || list[i] == ')' || list[i] == ']') --depth;
    if (list[i] == ',' && depth == 0) {
      add(list.substr(start, i - start));
      start = i + 1;
    }
  }
  add(list.substr(start));
  return out;
}

Fields& take_checks(Fields& fields, CheckText& c) {
  std::vector<Json> unseen;
  fields.take("level", c.level).take("types", c.types).take("tolerances", c.tolerances);
  fields.take("checker", c.checker).take("checker_limit_s", c.checker_limit_s).take("references", c.references);
  fields.take("unseen_launches", unseen).take("other_captures", c.other_captures).take("seed", c.seed);
  fields.take("type_defaults", c.type_defaults);
  for (const Json& one : unseen) {
    LaunchText& l = c.unseen.emplace_back();
    Fields inner(one, "unseen_launches");
    inner.take("grid", l.grid).take("block", l.block).take("cluster", l.cluster);
    inner.take("dynamic_shared", l.dynamic_shared).take("attributes", l.attributes);
    inner.take("spec_constants", l.spec_constants).take("push_constants", l.push_constants);
    if (const Status done = inner.done(); !done) fields.refuse(done.error().what);
  }
  return fields;
}

Json check_arguments(const CheckText& c) {
  Json j = Json::object();
  auto put = [&](const char* name, const auto& value) {
    if (!value.empty()) j[name] = value;
  };
  put("level", c.level), put("types", c.types), put("tolerances", c.tolerances), put("checker", c.checker);
  put("references", c.references), put("type_defaults", c.type_defaults);
  if (c.checker_limit_s != 60) j["checker_limit_s"] = c.checker_limit_s;
  if (!c.other_captures) j["other_captures"] = false;
  if (c.seed != 1) j["seed"] = c.seed;
  for (const LaunchText& l : c.unseen) {
    Json one = Json::object();
    if (!l.grid.empty()) one["grid"] = l.grid;
    if (!l.block.empty()) one["block"] = l.block;
    if (!l.cluster.empty()) one["cluster"] = l.cluster;
    if (!l.dynamic_shared.empty()) one["dynamic_shared"] = l.dynamic_shared;
    if (!l.attributes.empty()) one["attributes"] = l.attributes;
    if (!l.spec_constants.empty()) one["spec_constants"] = l.spec_constants;
    if (!l.push_constants.empty()) one["push_constants"] = l.push_constants;
    j["unseen_launches"].push_back(std::move(one));
  }
  return j;
}

Result<LaunchText> parse_launch_words(const std::string& text) {
  LaunchText l;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    const auto eq = word.find('=');
    const std::string key = word.substr(0, eq), value = eq == std::string::npos ? "" : word.substr(eq + 1);
    if (value.empty())
      return fail(ErrorCode::usage, fmt::format("{}: {} is not NAME=VALUE", text, word),
                  "for example \"grid=3,1,1 push=0=e8030000\"");
    if (key == "grid")
      l.grid = value;
    else if (key == "block")
      l.block = value;
    else if (key == "cluster")
      l.cluster = value;
    else if (key == "dynamic-shared")
      l.dynamic_shared = value;
    else if (key == "attribute")
      l.attributes.push_back(value);
    else if (key == "spec")
      l.spec_constants.push_back(value);
    else if (key == "push")
      l.push_constants.push_back(value);
    else
      return fail(ErrorCode::usage, fmt::format("{}: a launch has no {}", text, key),
                  "grid, block, cluster, dynamic-shared, attribute, spec and push are there");
  }
  if (l.empty()) return fail(ErrorCode::usage, "an unseen launch that changes nothing", "\"grid=3,1,1\"");
  return l;
}

namespace {

Result<CodeFacts> facts_of(Lab& lab, const OpenBundle& opened, std::uint32_t dispatch) {
  const bundle::Manifest& m = opened.reader.manifest();
  const std::uint32_t code = m.dispatches[dispatch].code;
  if (code >= m.code.size()) return CodeFacts{};
  return reflect_code(lab, opened.reader.path() / m.code[code].file);
}

}  // namespace

Result<std::vector<TypedRange>> element_types(Lab& lab, const OpenBundle& opened, std::uint32_t dispatch,
                                              const CheckText& text) {
  const bundle::Dispatch& d = opened.dispatch(dispatch);
  const bool vulkan = opened.reader.manifest().device.api == "vulkan";
  std::optional<compile::Reflection> reflection;
  if (vulkan)
    if (auto facts = facts_of(lab, opened, dispatch)) reflection = std::move(facts->reflection);
  const Names names = names_of(d, reflection ? &*reflection : nullptr);
  std::vector<TypedRange> out;
  for (const std::string& one : text.types) {
    KLAB_TRY(const auto pair, assignment(one, "out=f16:4096x4096"));
    KLAB_TRY(const Named place, find(names, pair.first));
    KLAB_TRY(auto range, typed(place, pair.second, "--type"));
    out.push_back(std::move(range));
  }
  for (const auto& [kernel, regions] : text.type_defaults) {
    if (d.name.find(kernel) == std::string::npos) continue;
    for (const auto& [name, type] : regions) {
      const auto place = names.all.find(name);
      if (place == names.all.end()) continue;  // of another kernel with such a name
      KLAB_TRY(auto range, typed(place->second, type, "klab.toml"));
      out.push_back(std::move(range));
    }
  }
  if (reflection)
    infer_from_spirv(d, *reflection, out);
  else
    infer_from_name(d, out);
  return out;
}

Result<replay::Checks> resolve_checks(Lab& lab, const OpenBundle& opened, std::uint32_t dispatch, const CheckText& text) {
  replay::Checks checks;
  if (!text.level.empty() && !from_string(text.level, checks.level))
    return fail(ErrorCode::usage, fmt::format("level {}: bitwise, numeric or custom", text.level));
  const bool implies_numeric = !text.tolerances.empty() || !text.references.empty();
  if (text.level.empty() && !text.checker.empty()) checks.level = validate::Level::custom;
  if (text.level.empty() && text.checker.empty() && implies_numeric) checks.level = validate::Level::numeric;
  if (implies_numeric && checks.level != validate::Level::numeric)
    return fail(ErrorCode::usage, fmt::format("level {} has no tolerances and no references", to_string(checks.level)),
                "they belong to level numeric");
  if (text.checker.empty() == (checks.level == validate::Level::custom))
    return fail(ErrorCode::usage, text.checker.empty() ? "level custom needs a checker" : "a checker belongs to level custom",
                "--level custom --checker PROGRAM");
  if (!(text.checker_limit_s > 0 && text.checker_limit_s <= 3600))
    return fail(ErrorCode::usage, "a checker has from 0 to 3600 seconds");
  checks.checker = text.checker;
  checks.checker_limit_s = text.checker_limit_s;
  checks.unseen_captures = text.other_captures;

  const auto count = static_cast<std::uint32_t>(opened.reader.manifest().dispatches.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i != dispatch && !text.other_captures) continue;
    auto types = element_types(lab, opened, i, text);
    if (!types && i == dispatch) return fail(types.error());
    if (types && !types->empty()) checks.types[i] = std::move(*types);
  }
  const bundle::Dispatch& d = opened.dispatch(dispatch);
  std::optional<compile::Reflection> reflection;
  if ((!text.tolerances.empty() || !text.references.empty()) && opened.reader.manifest().device.api == "vulkan")
    if (auto facts = facts_of(lab, opened, dispatch)) reflection = std::move(facts->reflection);
  const Names names = names_of(d, reflection ? &*reflection : nullptr);
  for (const std::string& one : text.tolerances) {
    const auto colon = one.find(':');
    KLAB_TRY(const auto t, validate::parse_tolerance(colon == std::string::npos ? std::string_view(one)
                                                                                : std::string_view(one).substr(colon + 1)));
    if (colon == std::string::npos) {
      checks.tolerance = t;
      continue;
    }
    KLAB_TRY(const Named place, find(names, one.substr(0, colon)));
    checks.tolerances[place.region] = t;
  }
  for (const std::string& one : text.references) {
    KLAB_TRY(const auto pair, assignment(one, "out=reference.npy"));
    KLAB_TRY(const Named place, find(names, pair.first));
    checks.references[place.region] = fs::absolute(pair.second).string();
  }
  for (const LaunchText& one : text.unseen) {
    // "push" is of the arguments where there are no push constants.
    const std::string& api = opened.reader.manifest().device.api;
    KLAB_TRY(auto launch, parse_launch(one, nullptr, api == "vulkan" ? api : ""));
    checks.unseen_launches.push_back(std::move(launch));
  }
  if (checks.level == validate::Level::numeric) {
    const auto types = checks.types.find(dispatch);
    const bool any = types != checks.types.end() &&
                     std::any_of(types->second.begin(), types->second.end(), [](const TypedRange& r) {
                       return std::any_of(r.fields.begin(), r.fields.end(), [](const auto& f) { return is_float(f.type); });
                     });
    if (!any)
      return fail(ErrorCode::usage, "level numeric: no region is known to hold floating-point elements",
                  fmt::format("say which: --type REGION=f32; there are {}", names.list()));
  }
  return checks;
}

}  // namespace klab::ops
