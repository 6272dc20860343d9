// SPDX-License-Identifier: Apache-2.0
// What the layer remembers of the program's objects.
// Not here: command buffers (record.h), timestamps (trace.h).
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "shim/common/link.h"
#include "shim/vulkan/next.h"
#include "shim/vulkan/spirv.h"

namespace klab::shim {

struct Device;
struct CommandBuffer;
struct Flight;

template <class T>
using Ref = std::shared_ptr<T>;

struct Instance {
  VkInstance handle = VK_NULL_HANDLE;
  std::uint32_t api_version = VK_API_VERSION_1_0;
  InstanceNext next;
};

struct Memory {
  VkDeviceMemory handle = VK_NULL_HANDLE;
  std::uint64_t id = 0, size = 0;
  VkMemoryPropertyFlags flags = 0;
  bool address_capture = false;
  // The program's own mapping.
  void* mapped = nullptr;
  VkDeviceSize map_offset = 0, map_size = 0;
  bool alive = true;
};

struct Buffer {
  VkBuffer handle = VK_NULL_HANDLE;
  std::uint64_t size = 0;
  VkBufferUsageFlags usage = 0;   // as the program gave it
  VkBufferCreateFlags flags = 0;  // likewise
  Ref<Memory> memory;
  std::uint64_t offset = 0;     // in memory
  VkDeviceAddress address = 0;  // once the program has asked for it
  std::string name;
  bool alive = true;
};

struct Module {
  Ref<const std::vector<std::uint32_t>> code;
  std::uint64_t hash_low = 0, hash_high = 0;
  std::string name;
  std::string unknown;  // why there is no code, or empty
};

struct SetLayout {
  struct Slot {
    std::uint32_t binding = 0, count = 0;
    VkDescriptorType type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    VkDescriptorBindingFlags flags = 0;
  };
  VkDescriptorSetLayoutCreateFlags flags = 0;
  std::vector<Slot> slots;  // ascending by binding
  const Slot* find(std::uint32_t binding) const;
  std::uint32_t dynamic_count() const;
};

struct PipelineLayout {
  std::vector<Ref<const SetLayout>> sets;
  std::vector<VkPushConstantRange> push_ranges;
};

/// A distinct (code, entry point, specialization, layout). Never freed: they are few.
struct Kernel {
  std::uint32_t id = 0;
  std::uint64_t hash = 0;
  Ref<const Module> module;
  Ref<const PipelineLayout> layout;
  std::vector<klab_spec> spec;
  std::string entry, source_name;
  std::uint32_t required_subgroup_size = 0;
  std::uint32_t stage_flags = 0, pipeline_flags = 0;
  std::vector<SlotName> declared;  // set and binding that the entry point's module declares
  std::string refusal;             // a reason that is known without looking at descriptors

  std::string name;  // decided at its first dispatch
  std::atomic<bool> named{false};
  bool matches = false;          // capture mode: the request's pattern
  std::uint64_t executions = 0;  // under Device-independent counts lock
};

struct Pipeline {
  VkPipeline handle = VK_NULL_HANDLE;
  Kernel* kernel = nullptr;
  std::string name;  // debug name
};

struct Element {
  VkDescriptorType type = VK_DESCRIPTOR_TYPE_MAX_ENUM;
  Ref<Buffer> buffer;                   // empty: not a buffer, or a null descriptor
  std::uint64_t offset = 0, range = 0;  // as written; range may be VK_WHOLE_SIZE
};

/// Contents of a descriptor set, or of push descriptors.
struct SetContents {
  Ref<const SetLayout> layout;
  std::uint32_t variable_count = 0xffffffff;
  std::unordered_map<std::uint64_t, Element> elements;  // binding << 32 | element
};

struct DescriptorPool {
  std::vector<VkDescriptorSet> sets;
};

struct UpdateTemplate {
  VkPipelineBindPoint bind_point = VK_PIPELINE_BIND_POINT_COMPUTE;
  std::vector<VkDescriptorUpdateTemplateEntry> entries;
};

struct Queue {
  VkQueue handle = VK_NULL_HANDLE;
  std::uint32_t index = 0, family = 0;
  std::timed_mutex lock;  // held while the program or we use it
};

struct QueueFamily {
  VkQueueFlags flags = 0;
  std::uint32_t timestamp_bits = 0;
};

struct Snapshotter;
struct Tracer;

template <class H, class T>
using Map = std::unordered_map<H, T>;

struct Device {
  VkDevice handle = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  Instance* instance = nullptr;
  std::uint32_t id = 0;
  DeviceNext next;
  std::array<PFN_vkVoidFunction, static_cast<std::size_t>(Command::count_)> commands{};
  std::vector<PFN_vkVoidFunction> unknown;  // commands newer than the headers (unknown.cpp)
  PFN_vkSetDeviceLoaderData set_loader_data = nullptr;
  std::uint32_t mode = KLAB_MODE_NONE;
  bool several_physical = false;
  bool host_query_reset = false;  // enabled, by the program or by us
  bool address_capture = false;   // the device has bufferDeviceAddressCaptureReplay, and it was enabled
  VkPhysicalDeviceProperties properties{};
  VkPhysicalDeviceMemoryProperties memory_properties{};
  std::vector<QueueFamily> families;

  std::mutex lock;  // of all maps below
  std::vector<std::unique_ptr<Queue>> queues;
  Map<VkDeviceMemory, Ref<Memory>> memories;
  Map<VkBuffer, Ref<Buffer>> buffers;
  Map<VkShaderModule, Ref<Module>> modules;
  Map<VkDescriptorSetLayout, Ref<const SetLayout>> set_layouts;
  Map<VkPipelineLayout, Ref<const PipelineLayout>> pipeline_layouts;
  Map<VkPipeline, Ref<Pipeline>> pipelines;
  Map<VkDescriptorSet, Ref<SetContents>> sets;
  Map<VkDescriptorPool, DescriptorPool> descriptor_pools;
  Map<VkDescriptorUpdateTemplate, Ref<UpdateTemplate>> templates;
  Map<VkCommandPool, std::uint32_t> pool_families;
  Map<VkCommandPool, std::vector<VkCommandBuffer>> pool_buffers;
  std::uint64_t next_memory = 1;
  bool any_address = false;

  std::mutex memory_lock;  // held while memory is mapped or freed, and over a whole snapshot

  // Capture: while `gate` is closed other threads' submissions wait for a snapshot to end.
  std::timed_mutex capture_lock;
  std::atomic<bool> gate_closed{false};
  std::vector<VkFence> abandoned;  // fences of parts that did not drain

  Tracer* tracer = nullptr;
  Snapshotter* snapshotter = nullptr;
};

/// Executions, counted in submission order for the whole process.
struct Counts {
  std::mutex lock;
  std::uint64_t sequence = 0;
  std::atomic<Kernel*> chosen{nullptr};  // capture mode: the kernel that was the first to reach nth[0]
  std::size_t taken = 0;                 // how many of nth are done (captured or refused)
  std::atomic<bool> finished{false};
};
Counts& counts();

Instance* find_instance(const void* dispatchable);
Device* find_device(const void* dispatchable);
CommandBuffer* find_commands(VkCommandBuffer handle);
void remember_commands(VkCommandBuffer handle, CommandBuffer* state);
/// Forgets and deletes.
void forget_commands(VkCommandBuffer handle);
Queue* find_queue(Device& d, VkQueue handle);

/// The pipeline's kernel with its name decided and announced to klab.
Kernel& announce(Device& d, Pipeline& p);
/// Every kernel of this process, for the counts at its end.
void send_counts();
/// Capture mode: executions of `k` may still be wanted.
bool wanted(const Kernel& k);

inline void* key_of(const void* dispatchable) { return *static_cast<void* const*>(dispatchable); }

/// Finds a structure in a pNext chain.
template <class T>
const T* in_chain(const void* next, VkStructureType type) {
  for (auto* s = static_cast<const VkBaseInStructure*>(next); s != nullptr; s = s->pNext)
    if (s->sType == type) return reinterpret_cast<const T*>(s);
  return nullptr;
}

/// Runs bookkeeping that must not throw into the program; false when it could not be done.
template <class F>
bool quietly(F&& f) noexcept {
  try {
    f();
    return true;
  } catch (...) {
    return false;
  }
}

/// A hook by Vulkan name, and the modes it is needed in.
struct Hook {
  const char* name;
  PFN_vkVoidFunction function;
  unsigned modes;  // 1 << KLAB_MODE_*
};
constexpr unsigned kTrace = 1u << KLAB_MODE_TRACE, kCapture = 1u << KLAB_MODE_CAPTURE,
                   kBoth = kTrace | kCapture;
#define KLAB_HOOK(name, modes) \
  { "vk" #name, reinterpret_cast<PFN_vkVoidFunction>(&name), modes }

// One table a file.
std::vector<Hook> object_hooks();
std::vector<Hook> descriptor_hooks();
std::vector<Hook> pipeline_hooks();
std::vector<Hook> record_hooks();
std::vector<Hook> pool_hooks();
std::vector<Hook> submit_hooks();
std::vector<Hook> forward_hooks();

}  // namespace klab::shim
