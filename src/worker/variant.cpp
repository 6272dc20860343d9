// SPDX-License-Identifier: Apache-2.0
#include "worker/variant.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/files.h"
#include "base/hash.h"
#include "worker/entry_point.h"

namespace klab::worker {
namespace {

constexpr std::uint64_t kMaxCode = 256u << 20;

Status override_bytes(std::vector<std::byte>& bytes, const replay::LaunchOverride& over, const char* what) {
  for (const auto& [offset, value] : over.push_constants) {
    if (offset > bytes.size() || value.size() > bytes.size() - offset)
      return fail(ErrorCode::usage, fmt::format("{} are {} bytes; there is no place for {} at {}", what,
                                                bytes.size(), value.size(), offset));
    std::copy(value.begin(), value.end(), bytes.begin() + offset);
  }
  return {};
}

void override_attributes(std::vector<bundle::LaunchAttribute>& attributes,
                         const replay::LaunchOverride& over) {
  for (const auto& [name, value] : over.attributes) {
    const auto it =
        std::find_if(attributes.begin(), attributes.end(), [&](const auto& a) { return a.name == name; });
    if (it == attributes.end())
      attributes.push_back({name, value});
    else
      it->value = value;
  }
}

/// The parameter buffer with pointers to where things lie now. Returns how many into module variables.
Result<std::uint64_t> make_arguments(Loaded& loaded, const Symbols& symbols,
                                     const replay::LaunchOverride& over, gpu::LaunchSpec& spec) {
  const bundle::Dispatch& d = loaded.dispatch();
  spec.arguments.assign(d.arguments.begin(), d.arguments.end());
  std::vector<std::byte> only_symbols = spec.arguments;
  const std::uint64_t count = Relocator(symbols.moved()).rewrite(only_symbols);
  // In one go: a new address may look like an old one of something else.
  std::vector<Relocator::Moved> moved = symbols.moved();
  for (const auto& r : d.regions)
    if (r.address != 0 && !Loaded::is_symbol(r) && loaded.address_mode() != replay::AddressMode::none)
      moved.push_back({r.address, r.size, loaded.placed(r.id).address});
  (void)Relocator(std::move(moved)).rewrite(spec.arguments);
  if (!d.arguments.empty()) KLAB_TRY_VOID(override_bytes(spec.arguments, over, "the arguments"));
  spec.argument_layout = d.argument_layout;
  return count;
}

Result<gpu::LaunchSpec> make_spec(Loaded& loaded, const replay::LaunchOverride& over) {
  const bundle::Dispatch& d = loaded.dispatch();
  gpu::LaunchSpec spec;
  spec.entry_point = over.entry_point.value_or(d.entry_point);
  spec.grid = over.grid.value_or(d.grid);
  spec.base = d.base;
  spec.dynamic_shared_bytes = over.dynamic_shared_bytes.value_or(d.dynamic_shared_bytes);
  spec.required_subgroup_size = over.subgroup_size.value_or(d.required_subgroup_size);
  spec.stage_flags = d.stage_flags;
  spec.pipeline_flags = d.pipeline_flags;
  spec.layout = d.layout;
  for (const auto& b : d.bindings)
    spec.bindings.push_back({.set = b.set,
                             .binding = b.binding,
                             .element = b.element,
                             .kind = b.kind,
                             .memory = loaded.placed(b.region).id,
                             .offset = b.offset,
                             .range = b.range});
  spec.push_ranges = d.push_ranges;
  spec.push_constants.assign(d.push_constants.begin(), d.push_constants.end());
  (void)loaded.relocator().rewrite(spec.push_constants);
  if (d.arguments.empty()) KLAB_TRY_VOID(override_bytes(spec.push_constants, over, "push constants"));
  spec.spec_constants = d.spec_constants;
  for (const auto& [id, value] : over.spec_constants) {
    auto it = std::find_if(spec.spec_constants.begin(), spec.spec_constants.end(),
                           [id = id](const auto& s) { return s.id == id; });
    if (it == spec.spec_constants.end())
      spec.spec_constants.push_back({id, value});
    else
      it->value = value;
  }
  spec.block = over.block.value_or(d.block);
  if (!over.grid && !over.block) spec.threads = d.threads;
  spec.cluster = over.cluster.value_or(d.cluster);
  spec.attributes = d.attributes;
  override_attributes(spec.attributes, over);
  for (const auto& t : d.textures) spec.textures.push_back({t, loaded.placed(t.region).id});
  return spec;
}

}  // namespace

void Variant::enter(std::vector<gpu::Step>& steps, bool reset) const {
  symbols.enter(steps, reset);
  if (images) steps.push_back(gpu::Step::images_of(launch.id(), true));
}

void Variant::leave(std::vector<gpu::Step>& steps) const {
  if (images) steps.push_back(gpu::Step::images_of(launch.id(), false));
  symbols.leave(steps);
}

void Variant::append(std::vector<gpu::Step>& steps, bool reset) const {
  enter(steps, reset);
  steps.push_back(gpu::Step::launch_of(launch.id(), false));
  leave(steps);
}

std::vector<gpu::Step> Variant::steps() const {
  std::vector<gpu::Step> list;
  append(list);
  return list;
}

Result<Variant> make_variant(Loaded& loaded, const replay::VariantCode& code, bool widen) {
  Variant v;
  v.label = code.label;
  v.is_baseline = code.code.empty() && code.launch.empty();
  std::vector<std::byte> bytes;
  if (code.code.empty()) {
    KLAB_TRY(bytes, loaded.bundle().code(loaded.dispatch().code));
  } else {
    KLAB_TRY(const auto text, read_file(code.code, kMaxCode));
    bytes.resize(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
  }
  v.code_hash = to_string(hash_bytes(bytes));
  KLAB_TRY(auto spec, make_spec(loaded, code.launch));
  auto loaded_code = loaded.gpu().load(bytes);
  if (!loaded_code) {
    Error error = loaded_code.error();
    // Bytes that the driver does not take are the variant's own failure, of the kind that a compiler's is.
    if (error.code == ErrorCode::invalid_data) error.code = ErrorCode::compile_failed;
    return fail(std::move(error));
  }
  v.code = std::move(*loaded_code);
  spec.code = v.code.id();
  spec.widen = widen;
  if (!code.code.empty() && !code.launch.entry_point) {
    // APIs that cannot list kernels find out when the launch is prepared.
    if (const auto there = loaded.gpu()->entry_points(spec.code)) {
      KLAB_TRY(auto chosen, choose_entry_point(spec.entry_point, *there));
      spec.entry_point = chosen.name;
      if (!chosen.note.empty()) v.notes.push_back(chosen.note);
    }
  }
  KLAB_TRY(v.symbols, Symbols::create(loaded, spec.code, code.code.empty()));
  KLAB_TRY(const std::uint64_t words, make_arguments(loaded, v.symbols, code.launch, spec));
  v.rewritten_words = words + v.symbols.words();
  v.images = std::any_of(spec.textures.begin(), spec.textures.end(),
                         [](const auto& t) { return t.object.resource == "array"; });
  KLAB_TRY(v.launch, loaded.gpu().prepare(spec));
  v.notes.insert(v.notes.end(), v.symbols.notes().begin(), v.symbols.notes().end());
  for (auto& note : loaded.gpu()->launch_notes(v.launch.id())) v.notes.push_back(std::move(note));
  if (auto resources = loaded.gpu()->resources(v.launch.id())) v.resources = *resources;
  return v;
}

replay::Outcome outcome_of(const Error& error) {
  using replay::Outcome;
  switch (error.code) {
    case ErrorCode::compile_failed:
      return Outcome::compile_failed;
    case ErrorCode::missing_symbol:
      return Outcome::missing_symbol;
    case ErrorCode::launch_failed:
      return Outcome::launch_failed;
    case ErrorCode::device_fault:
      return Outcome::device_fault;
    case ErrorCode::timeout:
      return Outcome::timeout;
    case ErrorCode::out_of_memory:
      return Outcome::out_of_memory;
    case ErrorCode::worker_lost:
      return Outcome::worker_lost;
    case ErrorCode::unsupported:
    case ErrorCode::mode_mismatch:
      return Outcome::refused;
    default:
      return Outcome::failed;
  }
}

}  // namespace klab::worker
