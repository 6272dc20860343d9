// SPDX-License-Identifier: Apache-2.0
// The one small interface that a GPU API implements, in bundle terms.
// Not here: what to restore, validate or measure (worker/), and any vendor type.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "bundle/manifest.h"

namespace klab::gpu {

using MemoryId = std::uint32_t;
using CodeId = std::uint32_t;
using LaunchId = std::uint32_t;

/// Asked for, never assumed.
struct Abilities {
  bool fixed_addresses = false;     // memory can be placed at a captured virtual address
  std::string fixed_addresses_by;   // "imported host memory", "capture-replay addresses"
  bool device_addresses = false;
  bool counters = false;
  bool memory_pools = false;        // --memory device|host makes a difference that the API can express
  bool clock_readout = false;
  bool matrix_units = false;
  bool subgroup_size_control = false;
  bool executable_statistics = false;  // registers, spills from the driver
  bool double_values = false;     // "compare_values" takes f64
  bool bounded_bindings = false;  // what lies behind a binding's range is out of a kernel's reach
  bool unaligned_hashes = false;  // "hash_address" reads from any address, not multiples of 4 only
  bool timestamps = true;              // false: launch_ns are host-clock times of one submission each; say so
  std::uint32_t compute_units = 0;     // multiprocessors; 0: not known
  std::uint32_t subgroup_size = 0, min_subgroup_size = 0, max_subgroup_size = 0;
  std::uint64_t max_allocation = 0;    // bytes
  std::uint64_t last_level_cache = 0;  // bytes; 0: not known
  bundle::Dim3 max_grid{65535, 65535, 65535};
  std::uint32_t max_block_threads = 0, max_shared_bytes = 0;
};
void to_json(Json& j, const Abilities& v);

struct MemoryRequest {
  std::uint64_t address = 0;         // wanted virtual address; 0: any
  std::uint64_t opaque_address = 0;  // Vulkan capture-replay, see bundle::Region
  std::uint64_t opaque_memory = 0;
  std::uint64_t size = 0;            // bytes
  bundle::MemoryKind kind = bundle::MemoryKind::device;
  bool needs_address = false;        // `Placed::address` must be filled in
  std::string pool;                  // "": as captured; "device"; "host"
  std::uint32_t memory_flags = 0;    // Vulkan: the program's VkMemoryPropertyFlags, to pick the same type
  std::uint32_t usage = 0;           // Vulkan: the program's VkBufferUsageFlags
};

struct Placed {
  MemoryId id = 0;
  std::uint64_t address = 0;  // device address here, or 0
  std::string pool;           // what it really got: "device", "host", "device+host"
};

/// Memory of ours that lies before, between or after placed memories and is part of none: nothing may change it.
struct Guard {
  MemoryId memory = 0;        // released like any other, before what it guards
  std::uint64_t address = 0;  // device address, or 0
  std::uint64_t size = 0;
  MemoryId neighbour = 0;  // the placed memory before it; where there is none, the one after it
  bool before = false;     // it lies before its neighbour
};

/// All that one launch needs, in bundle terms.
struct LaunchSpec {
  CodeId code = 0;
  std::string entry_point = "main";
  bundle::Dim3 grid{1, 1, 1}, base{0, 0, 0};
  std::uint32_t dynamic_shared_bytes = 0;
  std::uint32_t required_subgroup_size = 0;
  std::uint32_t stage_flags = 0, pipeline_flags = 0;
  std::vector<bundle::LayoutSlot> layout;
  struct Bound {
    std::uint32_t set = 0, binding = 0, element = 0;
    bundle::BindingKind kind = bundle::BindingKind::storage_buffer;
    MemoryId memory = 0;  // 0: nothing there; the launch can be asked for its resources() but not run
    std::uint64_t offset = 0, range = 0;
  };
  std::vector<Bound> bindings;
  /// Bindings reach as far as memory is ours, redzones too, so that what leaves a buffer can be seen. Refused as
  /// unsupported where the kernel asks for a buffer's length.
  bool widen = false;
  std::vector<bundle::PushRange> push_ranges;
  std::vector<std::byte> push_constants;
  std::vector<bundle::SpecConstant> spec_constants;

  // CUDA, HIP. A launch of Klab's own kernels has bindings and push_constants there too, and no arguments: each
  // binding becomes a pointer argument, in order, and push_constants follow as one argument by value. Its block is
  // kernels::kThreads where none is given.
  bundle::Dim3 block{0, 0, 0}, cluster{0, 0, 0};
  bundle::Dim3 threads{0, 0, 0};     // HIP: the grid in work-items, when the last blocks are partial; 0: grid times block
  std::vector<std::byte> arguments;  // the whole parameter buffer
  std::vector<bundle::Argument> argument_layout;
  std::vector<bundle::LaunchAttribute> attributes;
  struct Texture {
    bundle::TextureObject object;
    MemoryId memory = 0;
  };
  std::vector<Texture> textures;  // made anew, and their handles put where the captured ones stand in `arguments`
};

/// Figures of a compiled kernel; empty where the driver has none.
struct Resources {
  std::optional<std::uint32_t> vector_registers, scalar_registers, spilled_registers;
  std::optional<std::uint64_t> scratch_bytes, shared_bytes, code_bytes;
  std::optional<std::uint32_t> subgroup_size;
  std::optional<double> occupancy;          // 0..1
  struct Statistic { std::string name, value; };
  std::vector<Statistic> driver;            // as the driver names them
  std::string isa;                          // disassembly text, when the driver gives it
};
void to_json(Json& j, const Resources& v);
void from_json(const Json& j, Resources& v);

/// One step of a batch. Steps run in order, each after all memory effects of the one before.
struct Step {
  /// images_in, images_out: the arrays of a launch's textures are filled from their memories, and those of its
  /// surfaces are written back to them; nothing where a launch has none.
  enum class Kind { launch, copy, fill, images_in, images_out } kind = Kind::launch;
  LaunchId launch = 0;
  bool timed = false;                       // launch only: its GPU time is returned
  MemoryId to = 0, from = 0;                // copy: from -> to; fill: to
  std::uint64_t to_offset = 0, from_offset = 0, size = 0;  // multiples of 4 for fill
  std::uint32_t value = 0;                  // fill
  static Step launch_of(LaunchId id, bool timed) { return {.kind = Kind::launch, .launch = id, .timed = timed}; }
  static Step images_of(LaunchId id, bool in) {
    return {.kind = in ? Kind::images_in : Kind::images_out, .launch = id};
  }
  static Step copy_of(MemoryId to, std::uint64_t to_offset, MemoryId from, std::uint64_t from_offset, std::uint64_t size) {
    return {.kind = Kind::copy, .to = to, .from = from, .to_offset = to_offset, .from_offset = from_offset, .size = size};
  }
  static Step fill_of(MemoryId to, std::uint64_t offset, std::uint64_t size, std::uint32_t value) {
    return {.kind = Kind::fill, .to = to, .to_offset = offset, .size = size, .value = value};
  }
};

struct BatchResult {
  std::vector<double> launch_ns;  // of timed launches, in order
  double wall_ns = 0;             // submit to completion, host clock
  double submit_ns = 0;           // recording and handing over to the driver, host clock
};

struct Counters {
  struct Value {
    std::string name;  // as the vendor names it
    double value = 0;
  };
  std::vector<Value> values;
  std::vector<std::string> missing;  // asked for, not on this device
  std::uint32_t passes = 0;          // launches that were needed
};

/// One open device. Thread: the one that opened it. After device_fault only destruction is allowed.
class Device {
 public:
  virtual ~Device() = default;
  virtual const bundle::DeviceIdentity& identity() const = 0;
  virtual const Abilities& abilities() const = 0;

  /// Places all regions of a capture at once, so that neighbours can share a page or an allocation.
  /// With `exact`, every request that has an address must get it: address_collision otherwise, and nothing is kept.
  /// Memory has redzones or unused page ends where the API allows; contents are undefined.
  /// Errors: address_collision, out_of_memory, unsupported (a pool that this API cannot express; says why).
  virtual Result<std::vector<Placed>> place(std::span<const MemoryRequest> requests, bool exact) = 0;
  /// Redzones and unused ends of pages around these memories. Contents are undefined. An API that knows of none
  /// answers with none.
  virtual Result<std::vector<Guard>> guards(std::span<const MemoryId> memories);
  virtual void release(MemoryId memory) = 0;
  virtual Status upload(MemoryId memory, std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual Status download(MemoryId memory, std::uint64_t offset, std::span<std::byte> bytes) = 0;
  /// Host pointer to the memory when it is cheap to read there (CPU devices, APUs), else nullptr. Valid between batches.
  virtual std::byte* host_view(MemoryId memory) = 0;

  /// Errors: invalid_data, compile_failed (the driver's compiler, with its log), unsupported (it needs a feature that
  /// this device lacks; named).
  virtual Result<CodeId> load(std::span<const std::byte> code) = 0;
  virtual void unload(CodeId code) = 0;
  /// A named variable of a loaded code object (CUDA __device__, __constant__) as memory; its address is filled in. It
  /// lives as long as the code; contents are the code object's initial values. Errors: missing_symbol, invalid_data
  /// (its size is not `size`), unsupported (an API without such variables).
  virtual Result<Placed> symbol(CodeId code, std::string_view name, std::uint64_t size);
  /// Its variables, with their sizes in bytes, where they can be listed (a cubin); empty where not, and said in
  /// `cannot`.
  struct Variable {
    std::string name;
    std::uint64_t size = 0;
    bool constant = false;
  };
  virtual std::vector<Variable> variables(CodeId code, std::string& cannot);
  /// Names of the kernels in a loaded code object. Errors: unsupported (an API that cannot tell).
  virtual Result<std::vector<std::string>> entry_points(CodeId code);
  /// Errors: missing_symbol, launch_failed (limits exceeded: says which), compile_failed.
  virtual Result<LaunchId> prepare(const LaunchSpec& spec) = 0;
  virtual void discard(LaunchId launch) = 0;
  /// What of the spec could not be taken over, for a person: attributes that mean nothing for a launch alone.
  virtual std::vector<std::string> launch_notes(LaunchId launch) const;
  virtual Result<Resources> resources(LaunchId launch) = 0;

  /// Runs a batch and waits for the whole device. Errors: device_fault, timeout (then the device is unusable).
  virtual Result<BatchResult> run(std::span<const Step> steps, std::uint64_t timeout_ns) = 0;

  /// Hardware counters of one launch: `before` puts its inputs back, once for each pass that the counters need.
  /// Errors: unsupported, environment (not permitted, says how to permit it), and those of run().
  virtual Result<Counters> count(LaunchId launch, std::span<const Step> before, std::span<const std::string> names,
                                 std::uint64_t timeout_ns);

  /// Code of Klab's own kernel `name` (kernels/) in this API's form, or an empty span when it has none.
  virtual std::span<const std::byte> builtin_kernel(std::string_view name) const = 0;
};

struct AddressRange {
  std::uint64_t address = 0, size = 0;
};

struct Listed {
  bundle::DeviceIdentity identity;
  Abilities abilities;
};

/// A GPU API. `list` and `open` load its vendor library with dlopen; without it: environment, naming the package.
class Api {
 public:
  virtual ~Api() = default;
  virtual std::string_view name() const = 0;
  virtual Result<std::vector<Listed>> list() = 0;
  /// `selector`: empty (the first real GPU, else the first device), an index of list(), a uuid, or part of a name.
  /// `wanted`: address ranges that place() will ask for exactly. Where holding them before the driver loads helps
  /// (CPU drivers) the backend does so; a range that is taken already is not an error here.
  virtual Result<std::unique_ptr<Device>> open(std::string_view selector, std::span<const AddressRange> wanted = {}) = 0;
};

/// The APIs of this build, in the order of the registration lines in registry.cpp.
std::span<const std::unique_ptr<Api>> apis();
/// Errors: unsupported, naming those that are there.
Result<Api*> find_api(std::string_view name);

}  // namespace klab::gpu
