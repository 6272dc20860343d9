// SPDX-License-Identifier: Apache-2.0
#include "worker/variant.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/files.h"
#include "base/hash.h"

namespace klab::worker {
namespace {

constexpr std::uint64_t kMaxCode = 256u << 20;

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
  for (const auto& [offset, bytes] : over.push_constants) {
    if (offset > spec.push_constants.size() || bytes.size() > spec.push_constants.size() - offset)
      return fail(ErrorCode::usage, fmt::format("push constants are {} bytes; there is no place for {} at {}",
                                                spec.push_constants.size(), bytes.size(), offset));
    std::copy(bytes.begin(), bytes.end(), spec.push_constants.begin() + offset);
  }
  spec.spec_constants = d.spec_constants;
  for (const auto& [id, value] : over.spec_constants) {
    auto it = std::find_if(spec.spec_constants.begin(), spec.spec_constants.end(),
                           [id = id](const auto& s) { return s.id == id; });
    if (it == spec.spec_constants.end())
      spec.spec_constants.push_back({id, value});
    else
      it->value = value;
  }
  return spec;
}

}  // namespace

Result<Variant> make_variant(Loaded& loaded, const replay::VariantCode& code) {
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
  KLAB_TRY(v.launch, loaded.gpu().prepare(spec));
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
