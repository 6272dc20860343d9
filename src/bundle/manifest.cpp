// SPDX-License-Identifier: Apache-2.0
// manifest.json: types to JSON and back, and the seal.
// Not here: what a manifest must satisfy (manifest_check.cpp).
#include "bundle/manifest.h"

#include <charconv>
#include <stdexcept>

#include <fmt/format.h>

#include "base/hash.h"
#include "bundle/seal.h"

namespace klab::bundle {
namespace {

// Addresses are text, because a JSON reader that keeps numbers as doubles loses bits above 2^53.
std::string hex_address(std::uint64_t address) { return fmt::format("{:#x}", address); }

void read_address(const Json& j, const char* name, std::uint64_t& out) {
  std::string text;
  read_optional(j, name, text);
  if (text.empty()) return;
  const char* end = text.data() + text.size();
  if (text.size() < 3 || text.compare(0, 2, "0x") != 0)
    throw std::runtime_error(std::string(name) + " is not a 0x address");
  const auto done = std::from_chars(text.data() + 2, end, out, 16);
  if (done.ec != std::errc() || done.ptr != end)
    throw std::runtime_error(std::string(name) + " is not a 0x address");
}

// A list number is null in JSON when there is none.
void read_list(const Json& j, const char* name, std::uint32_t& out) {
  out = kNoList;
  read_optional(j, name, out);
}
Json list_json(std::uint32_t list) { return list == kNoList ? Json() : Json(list); }

std::string dump_or_replace(const Json& j, int indent) {
  // A command line may hold bytes that are not UTF-8; those become U+FFFD rather than an exception.
  return j.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

void read_dim3(const Json& value, const char* name, Dim3& out) {
  const auto it = value.find(name);
  if (it == value.end()) return;
  if (!it->is_array() || it->size() != 3)
    throw std::runtime_error(std::string(name) + " is not three numbers");
  for (std::size_t i = 0; i < 3; ++i) {
    if (!(*it)[i].is_number_unsigned() || !std::in_range<std::uint32_t>((*it)[i].get<std::uint64_t>()))
      throw std::runtime_error(std::string(name) + " is not three numbers below 2^32");
    out[i] = (*it)[i].get<std::uint32_t>();
  }
}

void to_json(Json& j, const DeviceIdentity& v) {
  j = Json{{"api", v.api},
           {"name", v.name},
           {"driver", v.driver},
           {"driver_version", v.driver_version},
           {"api_version", v.api_version},
           {"uuid", v.uuid},
           {"type", v.type},
           {"vendor_id", v.vendor_id},
           {"device_id", v.device_id}};
  if (!v.arch.empty()) j["arch"] = v.arch;
}
void from_json(const Json& j, DeviceIdentity& v) {
  read_required(j, "api", v.api);
  read_optional(j, "name", v.name);
  read_optional(j, "driver", v.driver);
  read_optional(j, "driver_version", v.driver_version);
  read_optional(j, "api_version", v.api_version);
  read_optional(j, "uuid", v.uuid);
  read_optional(j, "type", v.type);
  read_optional(j, "vendor_id", v.vendor_id);
  read_optional(j, "device_id", v.device_id);
  read_optional(j, "arch", v.arch);
}

void to_json(Json& j, const Program& v) {
  j = Json{
      {"argv", v.argv}, {"working_folder", v.working_folder}, {"executable", v.executable}, {"pid", v.pid}};
}
void from_json(const Json& j, Program& v) {
  read_optional(j, "argv", v.argv);
  read_optional(j, "working_folder", v.working_folder);
  read_optional(j, "executable", v.executable);
  read_optional(j, "pid", v.pid);
}

void to_json(Json& j, const Region& v) {
  j = Json{{"id", v.id},
           {"name", v.name},
           {"address", hex_address(v.address)},
           {"size", v.size},
           {"kind", v.kind},
           {"reached_by", v.reached_by},
           {"allocation", v.allocation},
           {"allocation_offset", v.allocation_offset},
           {"memory_flags", v.memory_flags},
           {"usage", v.usage},
           {"pre", list_json(v.pre)},
           {"post", list_json(v.post)}};
  if (v.opaque_address != 0) j["opaque_address"] = hex_address(v.opaque_address);
  if (v.opaque_memory != 0) j["opaque_memory"] = hex_address(v.opaque_memory);
}
void from_json(const Json& j, Region& v) {
  read_required(j, "id", v.id);
  read_optional(j, "name", v.name);
  read_address(j, "address", v.address);
  read_required(j, "size", v.size);
  read_required(j, "kind", v.kind);
  read_optional(j, "reached_by", v.reached_by);
  read_optional(j, "allocation", v.allocation);
  read_optional(j, "allocation_offset", v.allocation_offset);
  read_address(j, "opaque_address", v.opaque_address);
  read_address(j, "opaque_memory", v.opaque_memory);
  read_optional(j, "memory_flags", v.memory_flags);
  read_optional(j, "usage", v.usage);
  read_list(j, "pre", v.pre);
  read_list(j, "post", v.post);
}

void to_json(Json& j, const Binding& v) {
  j = Json{{"set", v.set},       {"binding", v.binding}, {"element", v.element}, {"kind", v.kind},
           {"region", v.region}, {"offset", v.offset},   {"range", v.range}};
}
void from_json(const Json& j, Binding& v) {
  read_required(j, "set", v.set);
  read_required(j, "binding", v.binding);
  read_optional(j, "element", v.element);
  read_required(j, "kind", v.kind);
  read_required(j, "region", v.region);
  read_required(j, "offset", v.offset);
  read_required(j, "range", v.range);
}

void to_json(Json& j, const LayoutSlot& v) {
  j = Json{{"set", v.set},
           {"binding", v.binding},
           {"vulkan_type", v.vulkan_type},
           {"count", v.count},
           {"push_descriptor", v.push_descriptor}};
}
void from_json(const Json& j, LayoutSlot& v) {
  read_required(j, "set", v.set);
  read_required(j, "binding", v.binding);
  read_required(j, "vulkan_type", v.vulkan_type);
  read_optional(j, "count", v.count);
  read_optional(j, "push_descriptor", v.push_descriptor);
}

void to_json(Json& j, const PushRange& v) { j = Json{{"offset", v.offset}, {"size", v.size}}; }
void from_json(const Json& j, PushRange& v) {
  read_required(j, "offset", v.offset);
  read_required(j, "size", v.size);
}

void to_json(Json& j, const SpecConstant& v) { j = Json{{"id", v.id}, {"value", v.value}}; }
void from_json(const Json& j, SpecConstant& v) {
  read_required(j, "id", v.id);
  read_required(j, "value", v.value);
}

void to_json(Json& j, const Argument& v) {
  j = Json{{"offset", v.offset}, {"size", v.size}, {"name", v.name}};
  if (!v.kind.empty()) j["kind"] = v.kind;
}
void from_json(const Json& j, Argument& v) {
  read_required(j, "offset", v.offset);
  read_required(j, "size", v.size);
  read_optional(j, "name", v.name);
  read_optional(j, "kind", v.kind);
}

void to_json(Json& j, const LaunchAttribute& v) { j = Json{{"name", v.name}, {"value", v.value}}; }
void from_json(const Json& j, LaunchAttribute& v) {
  read_required(j, "name", v.name);
  read_required(j, "value", v.value);
}

void to_json(Json& j, const TextureObject& v) {
  j = Json{{"handle", hex_address(v.handle)},
           {"surface", v.surface},
           {"resource", v.resource},
           {"region", v.region},
           {"offset", v.offset},
           {"format", v.format},
           {"channels", v.channels},
           {"width", v.width},
           {"height", v.height},
           {"depth", v.depth},
           {"pitch", v.pitch},
           {"linear_bytes", v.linear_bytes},
           {"array_flags", v.array_flags},
           {"sampling", v.sampling}};
}
void from_json(const Json& j, TextureObject& v) {
  read_address(j, "handle", v.handle);
  read_optional(j, "surface", v.surface);
  read_required(j, "resource", v.resource);
  read_required(j, "region", v.region);
  read_optional(j, "offset", v.offset);
  read_required(j, "format", v.format);
  read_optional(j, "channels", v.channels);
  read_optional(j, "width", v.width);
  read_optional(j, "height", v.height);
  read_optional(j, "depth", v.depth);
  read_optional(j, "pitch", v.pitch);
  read_optional(j, "linear_bytes", v.linear_bytes);
  read_optional(j, "array_flags", v.array_flags);
  read_optional(j, "sampling", v.sampling);
}

void to_json(Json& j, const ByteRange& v) {
  j = Json{{"region", v.region}, {"offset", v.offset}, {"size", v.size}};
}
void from_json(const Json& j, ByteRange& v) {
  read_required(j, "region", v.region);
  read_required(j, "offset", v.offset);
  read_required(j, "size", v.size);
}

void to_json(Json& j, const Proof& v) {
  j = Json{{"state", v.state},
           {"detail", v.detail},
           {"differing_bytes", v.differing_bytes},
           {"varying", v.varying},
           {"varying_bytes", v.varying_bytes},
           {"replays", v.replays},
           {"at", v.at}};
}
void from_json(const Json& j, Proof& v) {
  read_required(j, "state", v.state);
  read_optional(j, "detail", v.detail);
  read_optional(j, "differing_bytes", v.differing_bytes);
  read_optional(j, "varying", v.varying);
  read_optional(j, "varying_bytes", v.varying_bytes);
  read_optional(j, "replays", v.replays);
  read_optional(j, "at", v.at);
}

void to_json(Json& j, const Dispatch& v) {
  j = Json{{"name", v.name},
           {"entry_point", v.entry_point},
           {"code", v.code},
           {"grid", v.grid},
           {"base", v.base},
           {"block", v.block},
           {"dynamic_shared_bytes", v.dynamic_shared_bytes},
           {"required_subgroup_size", v.required_subgroup_size},
           {"stage_flags", v.stage_flags},
           {"pipeline_flags", v.pipeline_flags},
           {"call", v.call},
           {"nth", v.nth},
           {"sequence", v.sequence},
           {"program_ns", v.program_ns},
           {"layout", v.layout},
           {"bindings", v.bindings},
           {"push_ranges", v.push_ranges},
           {"push_constants", v.push_constants},
           {"spec_constants", v.spec_constants},
           {"regions", v.regions},
           {"proof", v.proof}};
  if (v.threads != Dim3{0, 0, 0}) j["threads"] = v.threads;
  if (v.cluster != Dim3{0, 0, 0}) j["cluster"] = v.cluster;
  if (!v.arguments.empty()) j["arguments"] = v.arguments;
  if (!v.argument_layout.empty()) j["argument_layout"] = v.argument_layout;
  if (!v.attributes.empty()) j["attributes"] = v.attributes;
  if (!v.textures.empty()) j["textures"] = v.textures;
}
void from_json(const Json& j, Dispatch& v) {
  read_optional(j, "name", v.name);
  read_optional(j, "entry_point", v.entry_point);
  read_required(j, "code", v.code);
  read_dim3(j, "grid", v.grid);
  read_dim3(j, "base", v.base);
  read_dim3(j, "block", v.block);
  read_optional(j, "dynamic_shared_bytes", v.dynamic_shared_bytes);
  read_optional(j, "required_subgroup_size", v.required_subgroup_size);
  read_optional(j, "stage_flags", v.stage_flags);
  read_optional(j, "pipeline_flags", v.pipeline_flags);
  read_optional(j, "call", v.call);
  read_optional(j, "nth", v.nth);
  read_optional(j, "sequence", v.sequence);
  read_optional(j, "program_ns", v.program_ns);
  read_optional(j, "layout", v.layout);
  read_optional(j, "bindings", v.bindings);
  read_optional(j, "push_ranges", v.push_ranges);
  read_optional(j, "push_constants", v.push_constants);
  read_optional(j, "spec_constants", v.spec_constants);
  read_dim3(j, "threads", v.threads);
  read_dim3(j, "cluster", v.cluster);
  read_optional(j, "arguments", v.arguments);
  read_optional(j, "argument_layout", v.argument_layout);
  read_optional(j, "attributes", v.attributes);
  read_optional(j, "textures", v.textures);
  read_optional(j, "regions", v.regions);
  read_optional(j, "proof", v.proof);
}

void to_json(Json& j, const CodeObject& v) {
  j = Json{{"kind", v.kind}, {"file", v.file}, {"size", v.size}, {"hash", v.hash}, {"name", v.name}};
}
void from_json(const Json& j, CodeObject& v) {
  read_required(j, "kind", v.kind);
  read_required(j, "file", v.file);
  read_required(j, "size", v.size);
  read_required(j, "hash", v.hash);
  read_optional(j, "name", v.name);
}

void to_json(Json& j, const LeftOut& v) { j = Json{{"what", v.what}, {"why", v.why}}; }
void from_json(const Json& j, LeftOut& v) {
  read_required(j, "what", v.what);
  read_optional(j, "why", v.why);
}

void to_json(Json& j, const Manifest& v) {
  j = Json{{"format", v.format},     {"made_by", v.made_by},
           {"made_at", v.made_at},   {"device", v.device},
           {"program", v.program},   {"scope", v.scope},
           {"code", v.code},         {"dispatches", v.dispatches},
           {"left_out", v.left_out}, {"index_hash", v.index_hash}};
}
void from_json(const Json& j, Manifest& v) {
  read_required(j, "format", v.format);
  read_optional(j, "made_by", v.made_by);
  read_optional(j, "made_at", v.made_at);
  read_required(j, "device", v.device);
  read_optional(j, "program", v.program);
  read_required(j, "scope", v.scope);
  read_required(j, "code", v.code);
  read_required(j, "dispatches", v.dispatches);
  read_optional(j, "left_out", v.left_out);
  read_required(j, "index_hash", v.index_hash);
}

std::string seal_json(const Json& unsealed) {
  const std::string seal = to_string(hash_text(dump_or_replace(unsealed, -1)));
  std::string text = dump_or_replace(unsealed, 2);
  KLAB_CHECK(text.size() > 2 && text.back() == '}');
  text.resize(text.size() - 2);  // the newline and brace that end the object
  return text + ",\n  \"seal\": \"" + seal + "\"\n}\n";
}

std::string write_manifest(const Manifest& manifest) { return seal_json(Json(manifest)); }

Result<Manifest> read_manifest(std::string_view text, std::string_view source) {
  KLAB_TRY(Json j, parse_json(text, source));
  const auto seal = j.is_object() ? j.find("seal") : j.end();
  if (!j.is_object() || seal == j.end() || !seal->is_string())
    return fail(ErrorCode::bundle_corrupt, fmt::format("{} has no seal", source),
                "it is cut off or not a bundle's manifest; capture again");
  j.erase(seal);
  // The whole text is compared, not only the hash, so that a changed blank is noticed too.
  if (j.empty() || seal_json(j) != text)
    return fail(ErrorCode::bundle_corrupt, fmt::format("{} does not agree with its seal", source),
                "it was changed or damaged after it was written; capture again or take it from a copy");
  int format = 0;
  try {
    read_required(j, "format", format);
  } catch (const std::exception& e) {
    return fail(ErrorCode::invalid_data, fmt::format("{}: {}", source, e.what()));
  }
  if (format > kFormatVersion)
    return fail(ErrorCode::bundle_version,
                fmt::format("{} has format {}, this klab reads up to {}", source, format, kFormatVersion),
                "use the klab version that wrote it, or a newer one");
  KLAB_TRY(auto manifest, decode_json<Manifest>(j, source));
  KLAB_TRY_VOID(check_manifest(manifest, source));
  return manifest;
}

}  // namespace klab::bundle
