// SPDX-License-Identifier: Apache-2.0
// What a bundle says of itself: manifest.json as types. Durable: add members, never alter their meaning.
// Not here: chunk data (reader.h, writer.h).
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace klab::bundle {

inline constexpr int kFormatVersion = 1;
inline constexpr std::uint64_t kChunkSize = 1u << 20;
inline constexpr std::uint64_t kMaxManifest = 256ull << 20;  // bytes of manifest.json
inline constexpr std::uint32_t kNoList = 0xffffffff;

using Dim3 = std::array<std::uint32_t, 3>;

enum class MemoryKind { device, managed, pinned_host, module_variable, constant, image };
KLAB_JSON_ENUM(MemoryKind, device, managed, pinned_host, module_variable, constant, image)

enum class Scope { reachable, all };
KLAB_JSON_ENUM(Scope, reachable, all)

/// Why a region is in the capture.
enum class ReachedBy { binding, pointer, scope_all, argument, symbol };
KLAB_JSON_ENUM(ReachedBy, binding, pointer, scope_all, argument, symbol)

enum class BindingKind { storage_buffer, uniform_buffer, storage_buffer_dynamic, uniform_buffer_dynamic };
KLAB_JSON_ENUM(BindingKind, storage_buffer, uniform_buffer, storage_buffer_dynamic, uniform_buffer_dynamic)

/// A GPU as its driver names it. Two are the same device when uuid and driver_version agree.
struct DeviceIdentity {
  std::string api;             // "vulkan", "cuda", "hip", "fake"
  std::string name;            // "llvmpipe (LLVM 15.0.6, 256 bits)"
  std::string driver;          // "llvmpipe"
  std::string driver_version;  // "Mesa 22.3.6 (LLVM 15.0.6)"
  std::string api_version;     // "1.3.230"
  std::string uuid;            // 32 hexadecimal digits, or a PCI address
  std::string type;            // "discrete", "integrated", "cpu", "virtual", "other"
  std::uint32_t vendor_id = 0, device_id = 0;
  std::string arch;            // HIP: what code is built for, "gfx1030", "gfx90a:sramecc+:xnack-"
};

struct Program {
  std::vector<std::string> argv;
  std::string working_folder;
  std::string executable;  // as /proc/PID/exe showed it
  std::int64_t pid = 0;
};

/// A contiguous range of device-visible memory. `pre` and `post` are chunk lists of data.idx.
struct Region {
  std::uint32_t id = 0;            // position in Dispatch::regions
  std::string name;                // debug name, or empty; of a module variable or constant: its symbol
  std::uint64_t address = 0;       // virtual address that the kernel could see; 0: none (no device address)
  std::uint64_t size = 0;          // bytes
  MemoryKind kind = MemoryKind::device;
  ReachedBy reached_by = ReachedBy::binding;
  std::uint64_t allocation = 0;         // the program's allocation that it lies in (an id within this capture)
  std::uint64_t allocation_offset = 0;  // bytes from the start of that allocation
  std::uint64_t opaque_address = 0;     // Vulkan: vkGetBufferOpaqueCaptureAddress, when the driver has it
  std::uint64_t opaque_memory = 0;      // Vulkan: vkGetDeviceMemoryOpaqueCaptureAddress
  std::uint32_t memory_flags = 0;       // Vulkan: VkMemoryPropertyFlags; HIP: hsa_amd_memory_pool_global_flag_t
  std::uint32_t usage = 0;              // Vulkan: VkBufferUsageFlags as the program gave them
  std::uint32_t pre = kNoList, post = kNoList;
};

/// One array element of one descriptor. `offset` already includes the dynamic offset.
struct Binding {
  std::uint32_t set = 0, binding = 0, element = 0;
  BindingKind kind = BindingKind::storage_buffer;
  std::uint32_t region = 0;
  std::uint64_t offset = 0;  // bytes from the region's start
  std::uint64_t range = 0;   // bytes; never VK_WHOLE_SIZE
};

/// A descriptor-set layout binding, bound or not: what the pipeline layout is rebuilt from.
struct LayoutSlot {
  std::uint32_t set = 0, binding = 0;
  std::uint32_t vulkan_type = 0;  // VkDescriptorType, for slots that hold no Binding too
  std::uint32_t count = 1;
  bool push_descriptor = false;
};

struct PushRange {
  std::uint32_t offset = 0, size = 0;
};

struct SpecConstant {
  std::uint32_t id = 0;
  Bytes value;  // 1, 2, 4 or 8 bytes, little endian
};

/// A kernel parameter inside Dispatch::arguments (CUDA, HIP).
struct Argument {
  std::uint32_t offset = 0, size = 0;  // bytes
  std::string name;                    // when the code object has it
  std::string kind;                    // HIP: .value_kind of the code object's metadata, "by_value", "global_buffer"
  /// Filled in by the runtime at every launch, for its own process: a replay makes it anew and never uses the bytes.
  bool hidden() const { return kind.rfind("hidden_", 0) == 0; }
};

/// What the launch or its function was set to, by the name that the API's header gives it, in lower case without its
/// prefix: "cooperative", "programmatic_stream_serialization", "priority"; of a function with "function." before it:
/// "function.max_dynamic_shared_size_bytes", "function.preferred_shared_memory_carveout". HIP: of the AQL packet
/// "aql.group_segment_bytes", "aql.private_segment_bytes", "aql.acquire_scope", "aql.release_scope", "aql.barrier";
/// and "cooperative" for a dispatch on a cooperative queue.
struct LaunchAttribute {
  std::string name;
  std::int64_t value = 0;
};

/// A texture or surface object whose handle is among the arguments or in captured memory. `texels` are a region:
/// linear memory of the program, or a copy of an array (MemoryKind::image, rows packed, address 0).
struct TextureObject {
  std::uint64_t handle = 0;  // as the program's words hold it
  bool surface = false;
  std::string resource;      // "linear", "pitch2d", "array"
  std::uint32_t region = 0;
  std::uint64_t offset = 0;  // bytes from the region's start (linear, pitch2d)
  std::string format;        // CUarray_format without its prefix: "float", "unsigned_int8"
  std::uint32_t channels = 1;
  std::uint64_t width = 0, height = 0, depth = 0;  // texels; depth or layers of an array
  std::uint64_t pitch = 0;                         // bytes a row (pitch2d)
  std::uint64_t linear_bytes = 0;                  // (linear)
  std::uint32_t array_flags = 0;                   // CUDA_ARRAY3D_*
  Bytes sampling;  // the API's texture descriptor as it was given (CUDA_TEXTURE_DESC), without pointers
};

struct ByteRange {
  std::uint32_t region = 0;
  std::uint64_t offset = 0, size = 0;
};

enum class ProofState { not_run, equal, nondeterministic, differs, failed };
KLAB_JSON_ENUM(ProofState, not_run, equal, nondeterministic, differs, failed)

/// Outcome of replaying the baseline from pre-state and comparing with post-state.
struct Proof {
  ProofState state = ProofState::not_run;
  std::string detail;                  // for a person
  std::uint64_t differing_bytes = 0;   // bytes that never agreed
  std::vector<ByteRange> varying;      // bytes that change from run to run (nondeterministic), merged, at most 1,000
  std::uint64_t varying_bytes = 0;
  std::uint32_t replays = 0;
  std::string at;                      // UTC
};

struct Dispatch {
  std::string name;         // as `klab dispatches` lists it; demangled
  std::string entry_point;  // "main"; CUDA, HIP: the mangled name
  std::uint32_t code = 0;   // position in Manifest::code
  Dim3 grid{1, 1, 1};       // workgroups that really ran
  Dim3 base{0, 0, 0};       // vkCmdDispatchBase
  Dim3 block{0, 0, 0};      // workgroup size; 0 when not known
  Dim3 threads{0, 0, 0};    // HIP: the grid in work-items, when the last blocks are partial; 0: grid times block
  std::uint32_t dynamic_shared_bytes = 0;
  std::uint32_t required_subgroup_size = 0;  // 0: the driver chooses
  std::uint32_t stage_flags = 0;             // VkPipelineShaderStageCreateFlags
  std::uint32_t pipeline_flags = 0;          // VkPipelineCreateFlags
  std::string call;                          // "vkCmdDispatchIndirect"
  std::uint64_t nth = 0;                     // n-th execution of this kernel in the program, from 1
  std::uint64_t sequence = 0;                // n-th dispatch of any kernel, from 1
  double program_ns = 0;                     // GPU time that the program's own execution took; 0: not known
  std::vector<LayoutSlot> layout;
  std::vector<Binding> bindings;
  std::vector<PushRange> push_ranges;
  Bytes push_constants;
  std::vector<SpecConstant> spec_constants;
  Dim3 cluster{0, 0, 0};  // blocks in a cluster; 0: none asked for
  Bytes arguments;        // CUDA, HIP: the parameter buffer (kernarg segment) as the kernel got it
  std::vector<Argument> argument_layout;  // ascending; empty: not known (launched through a packed buffer)
  std::vector<LaunchAttribute> attributes;
  std::vector<TextureObject> textures;
  std::vector<Region> regions;
  Proof proof;
};

struct CodeObject {
  std::string kind;     // "spirv", "cubin", "ptx", "hsaco"
  std::string file;     // "code/0.spv", inside the bundle
  std::uint64_t size = 0;
  std::string hash;     // XXH3-128 of the bytes
  std::string name;     // debug name or source file named in it, or empty
};

struct LeftOut {
  std::string what;  // "queue 1"
  std::string why;   // "did not drain within 2 s"
};

struct Manifest {
  int format = kFormatVersion;
  std::string made_by;  // "klab 0.1.0"
  std::string made_at;  // UTC
  DeviceIdentity device;
  Program program;
  Scope scope = Scope::reachable;
  std::vector<CodeObject> code;
  std::vector<Dispatch> dispatches;  // of one kernel
  std::vector<LeftOut> left_out;
  std::string index_hash;  // XXH3-128 of data.idx; the writer fills it in
};

void to_json(Json& j, const DeviceIdentity& v);
void from_json(const Json& j, DeviceIdentity& v);
void to_json(Json& j, const Dispatch& v);
void from_json(const Json& j, Dispatch& v);
void to_json(Json& j, const Region& v);
void from_json(const Json& j, Region& v);
void to_json(Json& j, const Proof& v);
void from_json(const Json& j, Proof& v);
void to_json(Json& j, const Manifest& v);
void from_json(const Json& j, Manifest& v);
void to_json(Json& j, const Program& v);
void from_json(const Json& j, Program& v);
void to_json(Json& j, const Binding& v);
void from_json(const Json& j, Binding& v);
void to_json(Json& j, const LayoutSlot& v);
void from_json(const Json& j, LayoutSlot& v);
void to_json(Json& j, const PushRange& v);
void from_json(const Json& j, PushRange& v);
void to_json(Json& j, const SpecConstant& v);
void from_json(const Json& j, SpecConstant& v);
void to_json(Json& j, const Argument& v);
void from_json(const Json& j, Argument& v);
void to_json(Json& j, const LaunchAttribute& v);
void from_json(const Json& j, LaunchAttribute& v);
void to_json(Json& j, const TextureObject& v);
void from_json(const Json& j, TextureObject& v);
void to_json(Json& j, const ByteRange& v);
void from_json(const Json& j, ByteRange& v);
void to_json(Json& j, const CodeObject& v);
void from_json(const Json& j, CodeObject& v);
void to_json(Json& j, const LeftOut& v);
void from_json(const Json& j, LeftOut& v);

/// A Dim3 from JSON; throws when it is not three integers that fit.
void read_dim3(const Json& value, const char* name, Dim3& out);

/// What a manifest must satisfy to be read or sealed: every index in range, sizes that can exist, file names that
/// stay in the folder. Errors: invalid_data.
Status check_manifest(const Manifest& manifest, std::string_view source);

/// Text of manifest.json: pretty JSON whose last member "seal" is the XXH3-128 of the compact JSON without it.
std::string write_manifest(const Manifest& manifest);

/// Parses and checks foreign text: seal, version, every index in range, sizes that can exist (a region ends before
/// 2^63, a bundle's regions sum below 2^48), file names that stay in the folder. Nothing large is allocated before.
/// Errors: invalid_data, bundle_corrupt (seal), bundle_version.
Result<Manifest> read_manifest(std::string_view text, std::string_view source);

}  // namespace klab::bundle
