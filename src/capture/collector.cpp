// SPDX-License-Identifier: Apache-2.0
#include "capture/collector.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/ids.h"
#include "base/units.h"
#include "bundle/hsaco.h"
#include "capture/calls.h"
#include "capture/spirv.h"

namespace klab::capture {
namespace {

constexpr std::size_t kMaxRows = 1u << 20;  // bindings, layout slots
constexpr std::uint64_t kMaxRegion = 1ull << 46;
constexpr std::uint32_t kMaxRegions = 1u << 20;
constexpr std::size_t kMaxArguments = 16384, kMaxAttributes = 256, kMaxTextures = 4096;  // of a manifest
constexpr std::size_t kMaxSampling = 4096;                                                // bytes

// VkDescriptorType, as far as a capture holds it.
bool binding_kind(std::uint32_t vulkan_type, bundle::BindingKind& kind) {
  switch (vulkan_type) {
    case 6:
      kind = bundle::BindingKind::uniform_buffer;
      return true;
    case 7:
      kind = bundle::BindingKind::storage_buffer;
      return true;
    case 8:
      kind = bundle::BindingKind::uniform_buffer_dynamic;
      return true;
    case 9:
      kind = bundle::BindingKind::storage_buffer_dynamic;
      return true;
    default:
      return false;
  }
}

bool is_elf(std::span<const std::byte> code) {
  constexpr std::byte kElf[] = {std::byte{0x7f}, std::byte{'E'}, std::byte{'L'}, std::byte{'F'}};
  return code.size() > 4 && std::equal(std::begin(kElf), std::end(kElf), code.begin());
}

template <class T>
T fixed(std::span<const std::byte> packet) {
  T record;
  std::memcpy(&record, packet.data(), sizeof record);
  return record;
}

tl::unexpected<Error> bad(std::string_view what) {
  return fail(ErrorCode::invalid_data, fmt::format("the shim sent {}", what));
}

}  // namespace

Collector::Collector(const CaptureRequest& request, bundle::Writer writer, std::uint64_t max_bytes,
                     std::uint64_t free_bytes, const OnProgress& progress)
    : request_(request),
      writer_(std::move(writer)),
      max_bytes_(max_bytes),
      free_bytes_(free_bytes),
      progress_(progress) {
  manifest_.scope = request.scope;
  manifest_.program.argv = request.target.argv;
  std::error_code ec;
  const fs::path& folder = request.target.working_folder;
  manifest_.program.working_folder =
      (folder.empty() ? fs::current_path(ec) : fs::absolute(folder, ec)).string();
}

klab_config Collector::config() const {
  klab_config c{};
  c.mode = KLAB_MODE_CAPTURE;
  c.scope = request_.scope == bundle::Scope::all ? KLAB_SCOPE_ALL : KLAB_SCOPE_REACHABLE;
  c.deadline_ns = static_cast<std::uint64_t>(request_.drain_deadline.count()) * 1'000'000;
  return c;
}

// The first error stands. Staging goes at once: nothing half made stays on disk while the program goes on.
void Collector::stop(Error error) {
  in_capture_ = false;
  if (error_ || sealed_) return;
  if (progress_) progress_(fmt::format("capture failed: {}", error.what));
  error_ = std::move(error);
  writer_.reset();
}

void Collector::closed(Process& p) {
  if (owner_ != &p) return;
  owner_ = nullptr;
  if (in_capture_)
    stop({ErrorCode::target_failed, fmt::format("process {} of the target ended during the capture", p.pid),
          "run the program without klab: does it end the same way?"});
}

Status Collector::message(Process& p, const klab_header& header, std::span<const std::byte> packet) {
  const bool of_owner = owner_ == &p && in_capture_;
  switch (header.type) {
    case KLAB_CAPTURE_BEGIN:
      return begin(p, packet);
    case KLAB_REFUSED:
    case KLAB_NOTE:
      text(p, header, packet);
      return {};
    case KLAB_SUBMITTED: {
      const auto r = fixed<klab_submitted>(packet);
      if (r.waited_ms > 0 && r.waited_ms < 1e12) waited_ms_ += r.waited_ms;
      if (r.last != 0 && !sealed_ && (owner_ == &p || error_)) {
        last_seen_ = true;
        if (!error_ && writer_) seal();
      }
      return {};
    }
    case KLAB_BINDINGS:
      return of_owner ? bindings(packet) : Status{};
    case KLAB_REGION:
      return of_owner ? region(p, packet) : Status{};
    case KLAB_CAPTURE_END:
      return of_owner ? end(packet) : Status{};
    case KLAB_LAUNCH:
    case KLAB_ARGUMENTS:
    case KLAB_ATTRIBUTE:
    case KLAB_TEXTURE:
    case KLAB_AQL:
      return of_owner ? launch(header, packet) : Status{};
    case KLAB_LAYOUT: {
      KLAB_TRY(const auto rows, read_list<klab_layout_slot>(packet));
      if (!of_owner) return {};
      if (current_.layout.size() + rows.size() > kMaxRows) return bad("too many layout slots");
      for (const auto& r : rows)
        current_.layout.push_back({r.set, r.binding, r.vulkan_type, r.count, r.push_descriptor != 0});
      return {};
    }
    case KLAB_SPEC: {
      KLAB_TRY(const auto rows, read_list<klab_spec>(packet));
      if (!of_owner) return {};
      if (current_.spec_constants.size() + rows.size() > kMaxRows) return bad("too many constants");
      for (const auto& r : rows) {
        if (r.size == 0 || r.size > 8) return bad("a specialization constant of a wrong size");
        const auto* value = reinterpret_cast<const std::byte*>(r.value);
        current_.spec_constants.push_back({r.id, Bytes(std::vector<std::byte>(value, value + r.size))});
      }
      return {};
    }
    case KLAB_PUSH_RANGES: {
      KLAB_TRY(const auto rows, read_list<klab_push_range>(packet));
      if (!of_owner) return {};
      if (current_.push_ranges.size() + rows.size() > kMaxRows) return bad("too many push ranges");
      for (const auto& r : rows) current_.push_ranges.push_back({r.offset, r.size});
      return {};
    }
    default:
      return {};
  }
}

Status Collector::begin(Process& p, std::span<const std::byte> packet) {
  const auto r = fixed<klab_capture_begin>(packet);
  if (in_capture_ && owner_ == &p) return bad("a capture inside a capture");
  if (error_ || sealed_) return {};  // its SIZE is answered with STOP
  if (owner_number_ >= 0 && owner_number_ != static_cast<std::int64_t>(p.number)) {
    warnings_.push_back(
        fmt::format("process {} also ran the wanted execution; the first process's is taken", p.pid));
    return {};
  }
  const auto kernel = p.kernels.find(r.kernel);
  if (kernel == p.kernels.end()) return bad("a capture of an unknown kernel");
  KernelSeen& k = kernel->second;
  if (k.code.empty() || k.code.size() != k.code_size) return bad("a capture before its code");
  if (r.push_bytes > packet.size() - sizeof r || r.push_bytes > 8192)
    return bad("push constants that do not parse");
  owner_ = &p;
  owner_number_ = static_cast<std::int64_t>(p.number);
  in_capture_ = true;
  current_ = {};
  regions_.clear();
  before_current_ = captured_bytes_;
  if (manifest_.dispatches.empty()) {
    manifest_.program.executable = p.executable;
    manifest_.program.pid = p.pid;
    if (const auto d = p.devices.find(r.device); d != p.devices.end()) manifest_.device = d->second;
  }
  const auto device = p.devices.find(r.device);
  const bool elf = is_elf(k.code);
  const std::string api = device != p.devices.end() ? device->second.api : elf ? "cuda" : "vulkan";
  launched_ = api != "vulkan";
  const auto code = api == "hip"  ? writer_->add_code("hsaco", "hsaco", k.code)
                    : !launched_  ? writer_->add_code("spirv", "spv", k.code)
                    : elf         ? writer_->add_code("cubin", "cubin", k.code)
                                  : writer_->add_code("ptx", "ptx", k.code);
  if (!code) {
    stop(code.error());
    return {};
  }
  if (auto& name = writer_->code()[*code].name; name.empty()) name = k.code_name;
  current_.name = k.name;
  current_.entry_point = k.entry;
  current_.code = *code;
  std::copy(r.grid, r.grid + 3, current_.grid.begin());
  std::copy(r.base, r.base + 3, current_.base.begin());
  current_.required_subgroup_size = k.required_subgroup_size;
  current_.stage_flags = k.stage_flags;
  current_.pipeline_flags = k.pipeline_flags;
  current_.call = call_name(r.call);
  current_.nth = r.nth;
  current_.sequence = r.sequence;
  const auto push = packet.subspan(sizeof r, r.push_bytes);
  current_.push_constants = Bytes(std::vector<std::byte>(push.begin(), push.end()));
  return {};
}

Status Collector::bindings(std::span<const std::byte> packet) {
  KLAB_TRY(const auto rows, read_list<klab_binding>(packet));
  if (current_.bindings.size() + rows.size() > kMaxRows) return bad("too many bindings");
  for (const klab_binding& r : rows) {
    bundle::Binding b;
    if (!binding_kind(r.vulkan_type, b.kind)) return bad("a binding of a type that is not captured");
    b.set = r.set, b.binding = r.binding, b.element = r.element;
    b.region = r.region;
    b.offset = r.offset, b.range = r.range;
    current_.bindings.push_back(b);
  }
  return {};
}

Status Collector::region(Process&, std::span<const std::byte> packet) {
  const auto r = fixed<klab_region>(packet);
  std::vector<std::string> texts;
  if (!read_texts(packet, sizeof r, {r.name_length}, texts)) return bad("a region that does not parse");
  if (r.region != regions_.size() || r.region >= kMaxRegions) return bad("regions out of order");
  if (r.bytes == 0 || r.bytes > kMaxRegion) return bad("a region of an impossible size");
  if (captured_bytes_ + r.bytes > max_bytes_) return bad("a region that was not asked for");
  bundle::Region region;
  region.id = r.region;
  region.name = texts[0];
  region.address = r.address;
  region.size = r.bytes;
  if (r.memory > KLAB_MEMORY_IMAGE || r.reached_by > KLAB_REACHED_SYMBOL) return bad("a region of an unknown kind");
  region.kind = static_cast<bundle::MemoryKind>(r.memory);  // abi.h keeps both orders
  region.reached_by = static_cast<bundle::ReachedBy>(r.reached_by);
  region.allocation = r.allocation;
  region.allocation_offset = r.allocation_offset;
  region.opaque_address = r.opaque_address;
  region.opaque_memory = r.opaque_memory;
  region.memory_flags = r.memory_flags;
  region.usage = r.usage;
  auto pre = writer_->add_list(r.bytes);
  auto post = writer_->add_list(r.bytes);
  if (!pre || !post) {
    stop(!pre ? pre.error() : post.error());
    return {};
  }
  region.pre = *pre, region.post = *post;
  captured_bytes_ += r.bytes;
  current_.regions.push_back(std::move(region));
  regions_.push_back({});
  return {};
}

Status Collector::data(Process& p, const klab_data_record& r, std::span<const std::byte> bytes) {
  if (owner_ != &p || !in_capture_ || !writer_) return {};  // of a capture that was given up
  if (r.id >= regions_.size() || (r.kind != KLAB_DATA_PRE && r.kind != KLAB_DATA_POST))
    return bad("data of an unknown region");
  const bundle::Region& region = current_.regions[r.id];
  std::uint64_t& next = r.kind == KLAB_DATA_PRE ? regions_[r.id].next_pre : regions_[r.id].next_post;
  if (r.offset != next || bytes.size() != std::min<std::uint64_t>(KLAB_SLOT_BYTES, region.size - next) ||
      bytes.empty())
    return bad("data out of order");
  static_assert(KLAB_SLOT_BYTES == bundle::kChunkSize);
  const std::uint32_t list = r.kind == KLAB_DATA_PRE ? region.pre : region.post;
  if (auto ok = writer_->put(list, r.offset / bundle::kChunkSize, bytes); !ok) {
    stop(ok.error());
    return {};
  }
  next += bytes.size();
  return {};
}

// What launches by name have besides.
Status Collector::launch(const klab_header& header, std::span<const std::byte> packet) {
  switch (header.type) {
    case KLAB_LAUNCH: {
      const auto r = fixed<klab_launch>(packet);
      if (r.argument_bytes > packet.size() - sizeof r) return bad("arguments that do not parse");
      std::copy(r.block, r.block + 3, current_.block.begin());
      std::copy(r.cluster, r.cluster + 3, current_.cluster.begin());
      current_.dynamic_shared_bytes = r.dynamic_shared_bytes;
      const auto bytes = packet.subspan(sizeof r, r.argument_bytes);
      current_.arguments = Bytes(std::vector<std::byte>(bytes.begin(), bytes.end()));
      return {};
    }
    case KLAB_ARGUMENTS: {
      KLAB_TRY(const auto rows, read_list<klab_argument>(packet));
      if (current_.argument_layout.size() + rows.size() > kMaxArguments) return bad("too many arguments");
      for (const klab_argument& r : rows) {
        const std::uint64_t before = current_.argument_layout.empty()
                                         ? 0
                                         : std::uint64_t{current_.argument_layout.back().offset} +
                                               current_.argument_layout.back().size;
        if (r.offset < before || std::uint64_t{r.offset} + r.size > current_.arguments.size())
          return bad("an argument outside of the parameter buffer");
        current_.argument_layout.push_back({r.offset, r.size, {}});
      }
      return {};
    }
    case KLAB_ATTRIBUTE: {
      const auto r = fixed<klab_attribute>(packet);
      std::vector<std::string> texts;
      if (!read_texts(packet, sizeof r, {r.name_length}, texts) || texts[0].empty() ||
          current_.attributes.size() >= kMaxAttributes)
        return bad("an attribute that does not parse");
      current_.attributes.push_back({texts[0], r.value});
      return {};
    }
    case KLAB_AQL:
      packet_of(fixed<klab_aql>(packet));
      return {};
    default:
      return texture(packet);
  }
}

// A HIP dispatch is a packet: its grid counts work-items, and the last blocks may be partial.
void Collector::packet_of(const klab_aql& r) {
  const bundle::Dim3 threads{r.threads[0], r.threads[1], r.threads[2]};
  for (std::size_t i = 0; i < 3; ++i)
    if (threads[i] != std::uint64_t{current_.grid[i]} * current_.block[i]) current_.threads = threads;
  // hsa_packet_header_t: barrier bit, then two bits for each scope.
  current_.attributes.push_back({"aql.group_segment_bytes", r.group_segment_bytes});
  current_.attributes.push_back({"aql.private_segment_bytes", r.private_segment_bytes});
  current_.attributes.push_back({"aql.acquire_scope", r.header >> 9 & 3});
  current_.attributes.push_back({"aql.release_scope", r.header >> 11 & 3});
  current_.attributes.push_back({"aql.barrier", r.header >> 8 & 1});
  if (r.cooperative != 0) current_.attributes.push_back({"cooperative", 1});
}

// Which bytes are which argument, and which of them the runtime fills in: the code object says.
void Collector::describe_arguments(const KernelSeen& k) {
  const auto code = bundle::read_hsaco(k.code);
  const bundle::HsacoKernel* kernel = code ? code->kernel(current_.entry_point) : nullptr;
  if (kernel == nullptr) {
    const std::string why = code ? "its code object does not describe it" : code.error().what;
    warnings_.push_back(fmt::format("arguments of {} are taken as they are: {}", current_.name, why));
    manifest_.left_out.push_back({"layout of the arguments", why});
    return;
  }
  std::uint64_t end = 0;
  for (const bundle::HsacoArgument& a : kernel->arguments) {
    if (a.offset < end || std::uint64_t{a.offset} + a.size > current_.arguments.size()) continue;
    current_.argument_layout.push_back({a.offset, a.size, a.name, a.kind});
    end = std::uint64_t{a.offset} + a.size;
  }
}

Status Collector::texture(std::span<const std::byte> packet) {
  const auto r = fixed<klab_texture>(packet);
  std::vector<std::string> texts;
  if (!read_texts(packet, sizeof r, {r.resource_length, r.format_length}, texts) ||
      current_.textures.size() >= kMaxTextures)
    return bad("a texture that does not parse");
  const std::size_t at = sizeof r + r.resource_length + r.format_length;
  if (r.sampling_length > kMaxSampling || r.sampling_length > packet.size() - at)
    return bad("a texture that does not parse");
  if (r.region >= current_.regions.size() || r.offset > current_.regions[r.region].size)
    return bad("a texture of an unknown region");
  bundle::TextureObject t;
  t.handle = r.handle;
  t.surface = r.surface != 0;
  t.resource = texts[0];
  t.format = texts[1];
  t.region = r.region, t.offset = r.offset;
  t.channels = r.channels;
  t.width = r.width, t.height = r.height, t.depth = r.depth;
  t.pitch = r.pitch, t.linear_bytes = r.linear_bytes;
  t.array_flags = r.array_flags;
  const auto sampling = packet.subspan(at, r.sampling_length);
  t.sampling = Bytes(std::vector<std::byte>(sampling.begin(), sampling.end()));
  current_.textures.push_back(std::move(t));
  return {};
}

std::uint32_t Collector::answer(Process& p, const klab_size& size) {
  if (owner_ != &p || !in_capture_) return KLAB_STOP;
  const std::uint64_t total = before_current_ + std::min(size.bytes, kMaxRegion);
  if (request_.preview) {
    if (size.final == 0) return KLAB_COUNT_ONLY;
    preview_bytes_ = total, preview_name_ = current_.name;
    if (progress_) progress_(fmt::format("{} reaches {}", current_.name, format_bytes(total)));
    in_capture_ = false;
    writer_.reset();
    return KLAB_STOP;
  }
  if (total <= max_bytes_ && total <= free_bytes_) {
    if (progress_) progress_(fmt::format("capturing {}: {}", current_.name, format_bytes(size.bytes)));
    return KLAB_GO;
  }
  if (size.final == 0) return KLAB_COUNT_ONLY;
  if (total > max_bytes_)
    stop({ErrorCode::cap_reached,
          fmt::format("{} reaches {} ({} bytes), over the limit of {}", current_.name, format_bytes(total),
                      total, format_bytes(max_bytes_)),
          fmt::format("allow more with --max-bytes {}", total)});
  else
    stop({ErrorCode::disk_full,
          fmt::format("{} reaches {}, and {} are free at {}", current_.name, format_bytes(total),
                      format_bytes(free_bytes_), request_.bundle.parent_path().string()),
          "free some space, or choose a bundle on another disk"});
  return KLAB_STOP;
}

Status Collector::end(std::span<const std::byte> packet) {
  const auto r = fixed<klab_capture_end>(packet);
  for (std::size_t i = 0; i < regions_.size(); ++i)
    if (regions_[i].next_pre != current_.regions[i].size || regions_[i].next_post != current_.regions[i].size)
      return bad("the end of a capture before all of its data");
  for (const bundle::Binding& b : current_.bindings)
    if (b.region >= regions_.size() || b.offset > current_.regions[b.region].size ||
        b.range > current_.regions[b.region].size - b.offset)
      return bad("a binding outside its region");
  in_capture_ = false;
  if (!writer_) return {};
  if (r.program_ns > 0 && r.program_ns < 1e18) current_.program_ns = r.program_ns;
  const KernelSeen* kernel = nullptr;
  for (const auto& [id, k] : owner_->kernels)
    if (k.name == current_.name) kernel = &k;
  if (kernel != nullptr && !launched_)
    current_.block = workgroup_size(kernel->code, current_.entry_point, current_.spec_constants);
  if (kernel != nullptr && manifest_.device.api == "hip") describe_arguments(*kernel);
  manifest_.dispatches.push_back(std::move(current_));
  dispatches_ = manifest_.dispatches.size();
  return {};
}

void Collector::text(Process& p, const klab_header& header, std::span<const std::byte> packet) {
  const auto r = fixed<klab_text>(packet);
  std::vector<std::string> texts;
  if (!read_texts(packet, sizeof r, {r.what_length, r.why_length}, texts)) return;
  if (header.type == KLAB_NOTE) {
    if (owner_ != &p && owner_ != nullptr) return;
    if (manifest_.left_out.size() < 1000) manifest_.left_out.push_back({texts[0], texts[1]});
    warnings_.push_back(texts[0] + " " + texts[1]);
    return;
  }
  if (owner_number_ >= 0 && owner_number_ != static_cast<std::int64_t>(p.number)) return;
  owner_ = &p;
  owner_number_ = static_cast<std::int64_t>(p.number);
  stop({ErrorCode::capture_refused,
        fmt::format("execution {} of {} cannot be captured: {}", r.nth, texts[0], texts[1]),
        "docs/limitations.md lists what is captured; another execution or kernel may be"});
}

void Collector::seal() {
  if (manifest_.dispatches.empty()) return;
  manifest_.made_at = utc_now();
  manifest_.code = writer_->code();
  auto sealed = writer_->seal(std::move(manifest_));
  if (!sealed) return stop(sealed.error());
  sealed_ = std::move(*sealed);
  writer_.reset();
  if (progress_)
    progress_(fmt::format("sealed {}: {} in {}", sealed_->path.string(), format_bytes(captured_bytes_),
                          dispatches_ == 1 ? "1 dispatch" : fmt::format("{} dispatches", dispatches_)));
}

}  // namespace klab::capture
